//! The client against a server of known timing: its cost, its error, its memory.
//!
//! ```text
//! cargo bench --bench client                          capacity, fidelity, memory
//! cargo bench --bench client -- selftest              what `inferometer selftest` says
//! cargo bench --bench client -- capacity fidelity     some of them
//! cargo bench --bench client -- memory --long         100,000 requests
//! cargo bench --bench client -- --peers --tokenizer DIR   beside `vllm bench serve`, if on PATH
//! ```
//!
//! Server and client are pinned to one core each where there are two. Figures are for reading beside
//! each other within one run; nothing here passes or fails.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a bench prints

mod machine;
mod peer;
mod plain;
mod side;
mod times;

use std::process::ExitCode;
use std::time::Duration;

use inferometer::internals::selftest::Scheme;
use inferometer::internals::settings::SlotStart;
use side::{Case, Cost};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// TTFT 50 ms and ITL 10 ms: a short prompt on a fast server.
const TIMED: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(10));
const NO_DELAY: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

#[derive(Debug, Default)]
struct Args {
    modes: Vec<String>,
    long: bool,
    peers: bool,
    tokenizer: Option<String>,
}

fn args() -> Outcome<Args> {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "capacity" | "fidelity" | "memory" | "selftest" => args.modes.push(word),
            "--long" => args.long = true,
            "--peers" => args.peers = true,
            "--tokenizer" => args.tokenizer = words.next(),
            "--bench" => {}
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    match args().and_then(|args| run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Outcome<()> {
    let wanted = |mode: &str| args.modes.is_empty() || args.modes.iter().any(|m| m == mode);
    println!("{}", machine::describe());
    // First, since the others pin this thread to one core.
    if args.modes.iter().any(|mode| mode == "selftest") {
        println!("\n{}", side::selftest()?);
    }
    if wanted("capacity") {
        capacity(args)?;
    }
    if wanted("fidelity") {
        fidelity(args)?;
    }
    if wanted("memory") {
        memory(args)?;
    }
    Ok(())
}

fn capacity(args: &Args) -> Outcome<()> {
    println!("\ncapacity: 128 tokens an answer, one event a token; CPU of the client alone");
    println!(
        "{:<26} {:<22} {:>10} {:>10} {:>11}",
        "case", "client", "ms CPU per", "events per", "x the plain"
    );
    println!("{:<26} {:<22} {:>10} {:>10} {:>11}", "", "", "1000", "CPU-s", "loop");
    for (name, (ttft, gap), streams, requests, start) in [
        ("64 streams, no delay", NO_DELAY, 64, 4_000, SlotStart::Together),
        ("128, 10 ms gaps, together", TIMED, 128, 512, SlotStart::Together),
        ("128, 10 ms gaps, spread", TIMED, 128, 512, SlotStart::Spread),
    ] {
        let scheme = Scheme::Http;
        let case = Case { scheme, ttft, gap, streams, requests, tokens: 128, start };
        let plain = plain::cost(case)?;
        line(name, "plain hyper loop", plain, plain);
        let ours = side::cost(case)?;
        line(name, "inferometer", ours, plain);
        let secure = side::cost(Case { scheme: Scheme::Https, ..case })?;
        line(name, "inferometer, https", secure, plain);
        if args.peers
            && let Some(peer) = peer::cost(case, args.tokenizer.as_deref())?
        {
            line(name, "vllm bench serve", peer, plain);
        }
    }
    Ok(())
}

fn line(case: &str, client: &str, cost: Cost, plain: Cost) {
    println!(
        "{case:<26} {client:<22} {:>10.2} {:>10.0} {:>11.2}",
        cost.ms_per_1000(),
        1e6 / cost.ms_per_1000(),
        cost.ms_per_1000() / plain.ms_per_1000()
    );
}

fn fidelity(args: &Args) -> Outcome<()> {
    println!(
        "\nfidelity: TTFT 50 ms, ITL 10 ms, 128 tokens; client - server, ms; middle of three runs"
    );
    println!(
        "{:<8} {:<18} {:>23}   {:>23}   {:>23}",
        "streams",
        "client",
        "TTFT mean    p50    p99",
        "TPOT mean    p50    p99",
        "ITL mean    p50    p99"
    );
    for streams in [16, 128, 512] {
        let (ttft, gap) = TIMED;
        let (requests, start) = ((3 * streams).max(128), SlotStart::Spread);
        let scheme = Scheme::Http;
        let case = Case { scheme, ttft, gap, streams, requests, tokens: 128, start };
        errors(streams, "plain hyper loop", &middle(|| plain::fidelity(case))?);
        errors(streams, "inferometer", &middle(|| side::fidelity(case))?);
        let secure = Case { scheme: Scheme::Https, ..case };
        errors(streams, "inferometer, https", &middle(|| side::fidelity(secure))?);
        if args.peers
            && let Some(found) = peer::fidelity(case, args.tokenizer.as_deref())?
        {
            errors(streams, "vllm bench serve", &found);
        }
    }
    Ok(())
}

/// The run of three whose p99 TTFT lies between the others': a pause of the machine is no error of a
/// client, and falls on one run rather than on two.
fn middle(mut run: impl FnMut() -> Outcome<side::Errors>) -> Outcome<side::Errors> {
    let mut runs = vec![run()?, run()?, run()?];
    runs.sort_by(|a, b| a.ttft.p99_ms.total_cmp(&b.ttft.p99_ms));
    Ok(runs.swap_remove(1))
}

fn errors(streams: u32, client: &str, found: &side::Errors) {
    let three = |e: &inferometer::internals::selftest::fidelity::Figures| {
        format!("{:>9.3} {:>6.3} {:>6.3}", e.mean_ms, e.p50_ms, e.p99_ms)
    };
    println!(
        "{streams:<8} {client:<18} {}   {}   {}{}",
        three(&found.ttft),
        three(&found.tpot),
        three(&found.itl),
        if found.unmatched > 0 { format!("   {} lost", found.unmatched) } else { String::new() }
    );
}

fn memory(args: &Args) -> Outcome<()> {
    println!("\nmemory: requests of 128 tokens at 64 streams, no delay, records kept");
    println!(
        "{:>10} {:>12} {:>16} {:>12}",
        "requests", "growth, MB", "bytes a request", "peak, MB"
    );
    let mut counts = vec![5_000, 20_000];
    if args.long {
        counts.push(100_000);
    }
    for requests in counts {
        let (ttft, gap) = NO_DELAY;
        let start = SlotStart::Together;
        let scheme = Scheme::Http;
        let case = Case { scheme, ttft, gap, streams: 64, requests, tokens: 128, start };
        let used = side::memory(case)?;
        println!(
            "{requests:>10} {:>12.1} {:>16.0} {:>12.1}",
            used.growth_bytes / 1e6,
            used.growth_bytes / f64::from(requests),
            used.peak_bytes / 1e6
        );
    }
    Ok(())
}
