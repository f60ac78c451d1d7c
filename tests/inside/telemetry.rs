//! A server's own word, read over the wire while a round runs.
#![allow(clippy::unwrap_used)] // helpers outside `#[test]` functions

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use inferometer::clock::Clock;
use inferometer::telemetry::prometheus::Signal;
use inferometer::telemetry::{PrometheusSource, Scraper, delta, snapshot};
use inferometer::transport::ClientSettings;
use inferometer::transport::{BaseUrl, Client};

use crate::inside::scripted::{Answer, refusal, serve};

const VLLM: &str = include_str!("../captures/vllm.metrics.txt");

fn page(body: String) -> Answer {
    Answer { status: 200, headers: "", kind: "text/plain", body }
}

fn client(url: &str) -> Client {
    Client::new(ClientSettings::new(BaseUrl::parse(url).unwrap())).unwrap()
}

#[tokio::test]
async fn a_round_between_two_readings() {
    let reading = AtomicU32::new(0);
    let server = serve(move |_| {
        let before = reading.fetch_add(1, Ordering::Relaxed) == 0;
        let later = "vllm:generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 1053.0";
        let now = "vllm:generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 53.0";
        Some(page(if before { VLLM.to_owned() } else { VLLM.replace(now, later) }))
    })
    .await;
    let client = client(&format!("{}/v1", server.url));
    let before = snapshot(&client).await.unwrap();
    let after = snapshot(&client).await.unwrap();
    let delta = delta(&before, &after);
    assert!(!delta.restarted);
    assert_eq!(delta.values["generation_tokens"], 1000.0);
    assert_eq!(delta.values["prompt_tokens"], 0.0);
    let seen = server.seen.lock().unwrap();
    assert!(seen.iter().all(|request| request.path == "/metrics"), "below the root, not /v1");
}

#[tokio::test]
async fn a_server_without_metrics_is_silent_not_zero() {
    let server = serve(|_| Some(refusal(404, "Not Found"))).await;
    assert_eq!(snapshot(&client(&server.url)).await, None);
    let html = serve(|_| Some(page("<html>".to_owned()))).await;
    assert_eq!(snapshot(&client(&html.url)).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn gauges_are_sampled_on_the_run_s_clock() {
    let server = serve(|_| Some(page("vllm:num_requests_running 3\n".to_owned()))).await;
    let clock = Clock::start();
    let source = PrometheusSource::new(client(&server.url));
    let mut scraper = Scraper::start(vec![Box::new(source)], clock).unwrap();
    scraper.begin(Duration::ZERO);
    let asked = || !server.seen.lock().unwrap().is_empty();
    while !asked() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let series = scraper.end().await;
    let running = &series[Signal::RequestsRunning.name()];
    assert_eq!(running[0].1, 3.0);
    assert!(running[0].0 <= clock.now_ns());
    assert_eq!(series.len(), 1, "what is not offered has no series");
}
