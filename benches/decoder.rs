//! The client's own cost: bytes a second through the decoder, events a second through a dialect,
//! and processor time an event through a whole exchange over loopback.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::time::Duration;

use inferometer::internals::api::Dialect;
use inferometer::internals::api::completions::Completions;
use inferometer::internals::api::template_cache::TemplateCache;
use inferometer::internals::clock::Clock;
use inferometer::internals::transport::sse::Decoder;
use inferometer::internals::transport::{BaseUrl, Client, ClientSettings};
use nix::sys::resource::{UsageWho, getrusage};

const EVENTS: usize = 1000;

/// One event as vLLM writes it.
const EVENT: &str = r#"{"id":"cmpl-970dc2a1a2b95cba","object":"text_completion","created":1795977753,"model":"tiny","choices":[{"index":0,"text":" kept","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#;
const FINISH: &str = r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;

fn main() {
    let stream = format!("data: {EVENT}\n\n").repeat(EVENTS).into_bytes();
    for chunk_bytes in [stream.len() / EVENTS, 4096, 65_536] {
        let rate = per_second(|| decode(&stream, chunk_bytes));
        let mb_per_s = rate * stream.len() as f64 / 1e6;
        say(&format!("decoder, reads of {chunk_bytes} bytes: {mb_per_s:.0} MB/s"));
    }
    let familiar = TemplateCache::new(Completions);
    for (name, dialect) in [("dialect", &Completions as &dyn Dialect), ("familiar", &familiar)] {
        let rate = per_second(|| {
            for _ in 0..EVENTS {
                let _ = black_box(dialect.event(black_box(EVENT.as_bytes())));
            }
        });
        say(&format!("{name}: {:.2} µs an event", 1e6 / (rate * EVENTS as f64)));
    }
    exchange(&familiar);
}

fn decode(stream: &[u8], chunk_bytes: usize) {
    let mut decoder = Decoder::new();
    for chunk in stream.chunks(chunk_bytes) {
        let flow = decoder.feed(chunk, |event| {
            black_box(event);
            ControlFlow::Continue(())
        });
        let _ = black_box(flow);
    }
}

/// How often `work` runs in a second of this thread's time; measured for half of one.
fn per_second(mut work: impl FnMut()) -> f64 {
    let begin = thread_time();
    let mut runs = 0_u32;
    loop {
        work();
        runs += 1;
        let used = thread_time().saturating_sub(begin);
        if used > Duration::from_millis(500) {
            return f64::from(runs) / used.as_secs_f64();
        }
    }
}

/// Reads answers that come as fast as the socket takes them, on one thread whose time is counted.
#[allow(clippy::expect_used)] // a bench may stop
fn exchange(dialect: &dyn Dialect) {
    const RUNS: usize = 100;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || serve(&listener));
    let settings = ClientSettings::new(BaseUrl::parse(&url).expect("a URL"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::new(settings).expect("a client");
        let clock = Clock::start();
        let mut used = Duration::ZERO;
        for run in 0..=RUNS {
            let before = thread_time();
            let seen = client.exchange(clock, dialect, "{}".into(), None).await;
            if run > 0 {
                used += thread_time().saturating_sub(before);
            }
            assert_eq!((seen.failure, seen.output_tokens), (None, Some(EVENTS as u32)));
        }
        let ms = used.as_secs_f64() * 1e3 / RUNS as f64 * 1000.0 / EVENTS as f64;
        say(&format!("exchange: {ms:.2} processor ms per 1000 events"));
    });
}

/// Processor time of this thread.
#[allow(clippy::expect_used)]
fn thread_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("the system tells it");
    let of = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec().unsigned_abs(), 0)
            + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    of(usage.user_time()) + of(usage.system_time())
}

/// Answers every request of every connection with the same stream, each event a chunk.
fn serve(listener: &TcpListener) {
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for data in std::iter::repeat_n(EVENT, EVENTS).chain([FINISH, "[DONE]"]) {
        let event = format!("data: {data}\n\n");
        answer.extend(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }
    answer.extend(b"0\r\n\r\n");
    for socket in listener.incoming() {
        let Ok(mut socket) = socket else { return };
        let mut request = [0; 4096];
        while socket.read(&mut request).is_ok_and(|n| n > 0) {
            if socket.write_all(&answer).is_err() {
                break;
            }
        }
    }
}

#[allow(clippy::print_stdout)] // a bench speaks on standard output
fn say(line: &str) {
    println!("{line}");
}
