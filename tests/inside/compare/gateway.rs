//! A gateway before an engine: requests go to the one, the other is watched.

use inferometer::settings::{Settings, Target};
use inferometer::sim::{SimConfig, SimServer};
use tempfile::TempDir;

use super::{newest_run, run, short};
use inferometer::store::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_to_the_gateway_and_metrics_come_from_the_engine() {
    let folder = TempDir::new().unwrap();
    let engine = SimServer::start(SimConfig::default()).unwrap();
    // Another server stands in for the gateway: it counts what it is asked.
    let gateway = SimServer::start(SimConfig::default()).unwrap();
    let url = Settings::for_url(gateway.url()).target;
    let mut settings = short(folder.path(), 1, 3);
    settings.target = Target { engine_url: Some(engine.url()), ..url };
    run(&settings).await.unwrap();
    assert!(gateway.take_truth().len() >= 32);
    assert_eq!(engine.take_truth().len(), 0, "no request went past the gateway");
    let stored = Store::open(folder.path()).unwrap().load_run(&newest_run(&settings)).unwrap();
    let told = &stored.rounds.last().unwrap().telemetry;
    assert_eq!(told.get("generation_tokens"), Some(&0.0), "the engine tells that it was idle");
}
