//! A harness that is killed at any moment, or runs out of disk: what is on disk is whole, nothing is left running,
//! and what is taken up again measures and says what an undisturbed run does.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use inferometer::Measure;
use inferometer::Seed;
use inferometer::internals::compare::{Comparison, Mode, Verdict};
use inferometer::internals::record::request::Part;
use inferometer::internals::record::stored::RunStatus;
use inferometer::internals::sim::SimServer;
use inferometer::internals::store::Store;

use crate::cli::{Place, Said, end_of, simulator};
use crate::resumed::at_ease_of;

/// Who starts the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Servers {
    Url,
    Command,
    Against,
}

/// A run that can be begun, killed and taken up: its flags, and the ports of its servers.
struct Scene {
    flags: Vec<String>,
    ports: Vec<u16>,
    _server: Option<SimServer>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Scene {
    fn new(servers: Servers) -> Self {
        let mut flags: Vec<String> = [
            "run",
            "--no-reference",
            "--no-warm-up",
            "--no-burn-in",
            "--cool-down=0s",
            "--seed=9",
            "--num-prompts=30",
            "--random-input-len=16",
            "--random-output-len=4",
            "--max-concurrency=4,8",
        ]
        .map(str::to_owned)
        .into();
        let serve = |port: u16, slowdown: f64| {
            let program = env!("CARGO_BIN_EXE_inferometer");
            format!("{program} simulate --port {port} --slowdown {slowdown}")
        };
        let mut own = None;
        let ports = match servers {
            Servers::Url => {
                let server = simulator(|config| config.profile.slowdown = 4.0);
                flags.extend([format!("--url={}", server.url()), "--rounds=2".to_owned()]);
                own = Some(server);
                Vec::new()
            }
            Servers::Command => {
                let port = free_port();
                flags.extend([
                    format!("--url=http://127.0.0.1:{port}"),
                    format!("--server-cmd={}", serve(port, 10.0)),
                    "--starts=2".to_owned(),
                ]);
                vec![port]
            }
            Servers::Against => {
                // One after the other at one address.
                let port = free_port();
                flags.extend([
                    format!("--url=http://127.0.0.1:{port}"),
                    format!("--server-cmd={}", serve(port, 40.0)),
                    format!("--against-cmd={}", serve(port, 10.0)),
                    "--starts=2".to_owned(),
                ]);
                vec![port]
            }
        };
        Self { flags, ports, _server: own }
    }

    fn command(&self, place: &Place, more: &[&str]) -> Command {
        let flags = self.flags.iter().map(String::as_str);
        place.command(&flags.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Whether every server that was launched is gone, asked for as long as a guard may take.
    fn is_silent(&self) -> bool {
        let answers = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
        for _ in 0..300 {
            if !self.ports.iter().any(answers) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }
}

fn store(place: &Place) -> Store {
    Store::open(place.path().join("target-reports")).unwrap()
}

/// A folder may be there before its `run.json` is; a part of one never.
fn whole_or_absent(store: &Store) {
    for run in store.runs().unwrap().unreadable {
        assert!(!store.layout().run_file(&run.id).exists(), "{}: {}", run.id, run.reason);
    }
}

/// What a run measured and says: every measured request by its round, number and seed, and the verdict of the
/// decode step at each load.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    requests: BTreeSet<(String, String, u32, u32, u64, u64)>,
    mode: Option<Mode>,
    verdicts: Vec<Verdict>,
}

fn told(place: &Place, id: &str) -> Told {
    let store = store(place);
    let run = store.load_run(id).unwrap();
    assert_eq!(run.status, RunStatus::Complete);
    let mut requests = BTreeSet::new();
    for round in &run.rounds {
        let records = store.load_round(id, round).unwrap().records;
        for record in records.iter().filter(|record| record.part == Part::Measured) {
            let of = (
                round.point.clone(),
                format!("{:?}", round.side),
                round.block,
                round.round,
                record.index,
                record.seed,
            );
            assert!(requests.insert(of), "no request stands there twice");
        }
    }
    let conclusion = at_ease_of(&store, id);
    let comparison: Option<&Comparison> = conclusion.report.input().comparisons.first();
    let cells = comparison.iter().flat_map(|found| &found.cells);
    let verdicts = cells.filter(|cell| cell.measure == Measure::ITL_P50).map(|cell| cell.verdict);
    Told { requests, mode: comparison.map(|found| found.mode), verdicts: verdicts.collect() }
}

/// How an undisturbed run ends and what it tells, and how long it takes.
#[allow(clippy::disallowed_methods)] // how late a kill can come, no measurement
fn undisturbed(scene: &Scene) -> (Told, Duration) {
    let (place, begin) = (Place::new(), Instant::now());
    let said = Said::of(scene.command(&place, &[]));
    assert!(matches!(said.code, Some(0 | 1 | 4)), "{}", said.stderr);
    let took = begin.elapsed();
    let id = store(&place).run_ids().unwrap().remove(0);
    (told(&place, &id), took)
}

/// A run killed after this long, and taken up: one row of the table.
fn kill_and_take_up(scene: &Scene, after: Duration, right: &Told) -> String {
    let place = Place::new();
    let mut child =
        scene.command(&place, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    end_of(&mut child);
    assert!(scene.is_silent(), "killed after {after:?}: a server is left behind");
    let store = store(&place);
    let Some(run) = store.runs().unwrap().runs.into_iter().next() else {
        whole_or_absent(&store);
        return format!("{:>6} ms  no run yet", after.as_millis());
    };
    let (status, rounds) = (run.status, run.rounds.len());
    if status == RunStatus::Running {
        let said = Said::of(scene.command(&place, &["--resume", &run.id]));
        assert!(matches!(said.code, Some(0 | 1 | 4)), "after {after:?}: {}", said.stderr);
    }
    assert_eq!(&told(&place, &run.id), right, "killed after {after:?}");
    format!(
        "{:>6} ms  {} with {rounds} rounds; taken up: the same",
        after.as_millis(),
        status.name()
    )
}

fn table(servers: Servers, moments: u64) {
    let scene = Scene::new(servers);
    let (right, took) = undisturbed(&scene);
    assert!(!right.requests.is_empty());
    if servers == Servers::Against {
        assert!(right.verdicts.contains(&Verdict::Regressed), "{right:?}");
    }
    let most = u64::try_from(took.as_millis()).unwrap();
    for moment in 0..moments {
        // Seeded, so that a failure can be looked at again.
        let after = Seed(11).named("kill").nth(moment).0 % most;
        println!("{servers:?} {}", kill_and_take_up(&scene, Duration::from_millis(after), &right));
    }
}

#[test]
fn a_run_against_a_url_that_is_killed_is_taken_up_as_if_nothing_had_been() {
    table(Servers::Url, 1);
}

#[test]
fn a_run_with_a_server_of_its_own_that_is_killed_leaves_no_orphan() {
    table(Servers::Command, 1);
}

#[test]
fn a_comparison_that_is_killed_and_taken_up_has_the_verdict_of_an_undisturbed_one() {
    table(Servers::Against, 1);
}

#[test]
#[ignore = "minutes; prints the table of twenty moments"]
fn twenty_moments_of_a_kill() {
    for (servers, moments) in [(Servers::Url, 7), (Servers::Command, 7), (Servers::Against, 6)] {
        table(servers, moments);
    }
}

/// No file may grow beyond so many blocks of 512 bytes: what a full disk does, to every file alike, and
/// without root.
#[test]
fn a_full_disk_at_five_places_loses_nothing_that_was_whole() {
    let scene = Scene::new(Servers::Url);
    let (right, _) = undisturbed(&scene);
    for blocks in [1, 6, 12, 24, 48] {
        let place = Place::new();
        let full = scene.command(&place, &[]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -f {blocks}; trap '' XFSZ; exec \"$@\""), "sh"]);
        command.arg(full.get_program()).args(full.get_args()).current_dir(place.path());
        let said = Said::of(command);
        assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
        let store = store(&place);
        whole_or_absent(&store);
        let found = store.runs().unwrap().runs.into_iter().next();
        let rounds = found.as_ref().map_or(0, |run| run.rounds.len());
        println!("{blocks:>3} blocks  exit {:?}, {rounds} rounds on disk", said.code);
        let is_whole = found.as_ref().is_some_and(|run| run.status == RunStatus::Complete);
        assert!(said.code != Some(0) || is_whole, "a lost run is no success: {}", said.stderr);
        assert!(is_whole || said.stderr.contains("error: "), "{}", said.stderr);
        let Some(run) = found else { continue };
        if !is_whole {
            let said = Said::of(scene.command(&place, &["--resume", &run.id]));
            assert!(matches!(said.code, Some(0 | 1 | 4)), "{}", said.stderr);
        }
        assert_eq!(told(&place, &run.id), right, "{blocks} blocks");
    }
}
