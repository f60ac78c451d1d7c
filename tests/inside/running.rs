//! What a run does beside its load: it reports how far it is, and watches the server.
#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use inferometer::Result;
use inferometer::drive::Interrupt;
use inferometer::report::progress::{Event, Reporter, Silent};
use inferometer::settings::Settings;
use inferometer::sim::{Preset, SimConfig, SimServer};
use inferometer::store::Store;
use inferometer::{Harness, Load, Scenario};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Point, stage, completed and planned of each sign of progress.
#[derive(Default)]
struct Heard(Vec<(String, String, u64, Option<u64>)>);

impl Reporter for Heard {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if let Event::RoundProgress { point, stage, completed, planned } = *event {
            self.0.push((point.to_owned(), stage.to_owned(), completed, planned));
        }
        Ok(())
    }
}

impl Heard {
    fn of(&self, point: &str, stage: &str) -> Vec<(u64, Option<u64>)> {
        let here = self.0.iter().filter(|(p, s, ..)| p.ends_with(point) && s == stage);
        here.map(|(_, _, completed, planned)| (*completed, *planned)).collect()
    }
}

fn harness(settings: Settings) -> Harness {
    let mut harness = Harness::new(settings);
    let scenario = Scenario::new("s").input(16).output(16).load(Load::concurrency(2));
    harness.group("running").scenario(scenario.num_prompts(8));
    harness
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_and_a_reference_tell_how_far_they_are() {
    let folder = tempfile::tempdir().unwrap();
    // Some 100 ms a request: no warm-up is stable before its limit.
    let mut settings = Settings::for_simulator(Preset::Statistics.name());
    settings.output_dir = folder.path().to_owned();
    (settings.starts, settings.reference_requests) = (Some(1), 2);
    let mut heard = Heard::default();
    harness(settings).run(&mut heard, &Interrupt::new()).await.unwrap();
    let points: Vec<&str> = heard.0.iter().map(|(point, ..)| point.as_str()).collect();
    let reference = *points.iter().find(|point| !point.ends_with("/c2")).unwrap();
    for point in [reference, "/c2"] {
        let told = heard.of(point, "warming up");
        assert!(told.len() >= 5, "{point}: a second or more, ten times a second: {told:?}");
        assert!(told.is_sorted() && told[0].0 == 0, "{point}: {told:?}");
        assert!(told.last().unwrap().0 > 2, "{point}: {told:?}");
        assert!(told.iter().all(|(_, planned)| planned.is_none()), "it ends when it is stable");
        let told = heard.of(point, "measuring");
        assert!(told.len() >= 2 && told.is_sorted(), "{point}: {told:?}");
        assert!(told.iter().all(|(done, planned)| Some(*done) <= *planned), "{point}: {told:?}");
    }
}

/// Passes bytes on to a server, and counts the connections that ask for its metrics.
async fn counted(server: &SimServer) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let upstream = server.url().trim_start_matches("http://").to_owned();
    let asking = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asking);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(pass(socket, upstream.clone(), Arc::clone(&count)));
        }
    });
    (url, asking)
}

async fn pass(mut socket: TcpStream, upstream: String, asking: Arc<AtomicU32>) {
    let mut first = vec![0; 16 * 1024];
    let Ok(n) = socket.read(&mut first).await else { return };
    if first[..n].starts_with(b"GET /metrics") {
        asking.fetch_add(1, Ordering::Relaxed);
    }
    let mut server = TcpStream::connect(upstream).await.unwrap();
    server.write_all(&first[..n]).await.unwrap();
    // An end that goes away ends both.
    let _ = tokio::io::copy_bidirectional(&mut socket, &mut server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_opens_its_connections_once_however_many_rounds_there_are() {
    let server = SimServer::start(SimConfig::default()).unwrap();
    let mut seen = Vec::new();
    for rounds in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let (url, asking) = counted(&server).await;
        let mut settings = Settings::for_url(url);
        settings.output_dir = folder.path().to_owned();
        settings.cool_down = Duration::ZERO;
        (settings.skip.reference, settings.skip.warm_up) = (true, true);
        settings.rounds = rounds;
        let conclusion = harness(settings).run(&mut Silent, &Interrupt::new()).await.unwrap();
        let run = conclusion.report.input().run().unwrap();
        assert_eq!(run.rounds.len(), rounds as usize);
        for round in &run.rounds {
            // Each round has its own readings: the server's count is the client's.
            let told = &round.telemetry;
            assert_eq!(told["generation_tokens"], told["client_generation_tokens"]);
        }
        seen.push(asking.load(Ordering::Relaxed));
    }
    assert!(seen[0] > 0);
    // On a busy machine a reading may run into its limit, and its connection is opened again.
    assert!(seen[1] <= seen[0] + 2, "{} for one round, {} for four", seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_mode_sends_two_requests_a_load_point_whatever_its_load() {
    let server = SimServer::start(SimConfig::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::for_url(server.url());
    settings.output_dir = folder.path().to_owned();
    settings.cool_down = Duration::ZERO;
    (settings.skip.reference, settings.skip.warm_up, settings.skip.preflight) = (true, true, true);
    settings.model = Some("sim".into());
    (settings.num_prompts, settings.measurement_time) = (Some(1), None);
    let mut harness = Harness::new(settings);
    let scenario = Scenario::new("s").input(16).output(16);
    harness.group("tested").scenario(scenario.sweep(Load::concurrency, [1, 8]));
    harness.test(&mut Silent, &Interrupt::new()).await.unwrap();
    let store = Store::open(folder.path()).unwrap();
    let run = store.runs().unwrap().runs.remove(0);
    assert_eq!(run.rounds.len(), 2);
    for round in &run.rounds {
        let sent = store.load_round(&run.id, round).unwrap().records;
        // One opens the window, one is measured.
        assert_eq!(sent.len(), 2, "{}: {sent:?}", round.point);
    }
}
