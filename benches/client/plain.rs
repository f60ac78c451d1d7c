//! The limit: a plain hyper loop that reads the same bytes, notes when, and drops them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

use inferometer::internals::clock::Clock;
use inferometer::internals::selftest::fidelity::Deviation;
use inferometer::internals::selftest::fidelity::figures;
use inferometer::internals::selftest::{ReferenceServer, RequestTruth};
use inferometer::internals::settings::SlotStart;

use crate::Outcome;
use crate::side::{Case, Cost, Errors, client_cpu_ns, runtime, serve};
use crate::times;

/// When a request was sent and each of its tokens read, ns.
struct Seen {
    label: u32,
    sent_ns: u64,
    token_ns: Vec<u64>,
}

pub(crate) fn cost(case: Case) -> Outcome<Cost> {
    let (server, clock) = serve(case, 0)?;
    let before_ns = client_cpu_ns(&server);
    run(case, &server, clock)?;
    let cpu_ns = client_cpu_ns(&server).saturating_sub(before_ns);
    Ok(Cost { cpu_ns, events: u64::from(case.requests) * u64::from(case.tokens) })
}

pub(crate) fn fidelity(case: Case) -> Outcome<Errors> {
    let (server, clock) = serve(case, 100_000)?;
    let seen = run(case, &server, clock)?;
    let log: HashMap<String, RequestTruth> =
        server.take_log().into_iter().map(|beats| (beats.label.clone(), beats)).collect();
    let pairs: Vec<(Seen, &RequestTruth)> = seen
        .into_iter()
        .filter_map(|seen| log.get(&seen.label.to_string()).map(|beats| (seen, beats)))
        .collect();
    let error = |of: fn(u64, &[u64]) -> Vec<f64>| {
        let client: Vec<f64> =
            pairs.iter().flat_map(|(seen, _)| of(seen.sent_ns, &seen.token_ns)).collect();
        let server = times::truth(pairs.iter().map(|(_, beats)| *beats), of);
        Deviation { server: figures(&server), client: figures(&client) }.error()
    };
    Ok(Errors {
        ttft: error(times::ttft),
        tpot: error(times::tpot),
        itl: error(times::itl),
        unmatched: u64::from(case.requests) - pairs.len() as u64,
    })
}

fn run(case: Case, server: &ReferenceServer, clock: Clock) -> Outcome<Vec<Seen>> {
    let address = server.url().trim_start_matches("http://").to_owned();
    let left = Arc::new(AtomicU32::new(case.requests));
    let mut seen = Vec::new();
    runtime()?.block_on(async {
        let mut streams = tokio::task::JoinSet::new();
        for number in 0..case.streams {
            let wait = match case.start {
                SlotStart::Together => Duration::ZERO,
                SlotStart::Spread => case.e2el() * number / case.streams,
            };
            streams.spawn(stream(address.clone(), clock, case.tokens, left.clone(), wait));
        }
        while let Some(done) = streams.join_next().await {
            seen.extend(done?.map_err(|error| error.to_string())?);
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    Ok(seen)
}

async fn stream(
    address: String,
    clock: Clock,
    tokens: u32,
    left: Arc<AtomicU32>,
    wait: Duration,
) -> Result<Vec<Seen>, Box<dyn std::error::Error + Send + Sync>> {
    let mut all = Vec::new();
    tokio::time::sleep(wait).await;
    let socket = tokio::net::TcpStream::connect(&address).await?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    while let Ok(label) = next() {
        let body = Bytes::from(format!(
            r#"{{"prompt":"{label}","max_tokens":{tokens},"stream":true,"stream_options":{{"include_usage":true}}}}"#
        ));
        let request = hyper::Request::post("/v1/completions")
            .header("host", &address)
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        sender.ready().await?;
        let sent_ns = clock.now_ns();
        let mut answer = sender.send_request(request).await?;
        let mut token_ns = Vec::with_capacity(tokens as usize);
        while let Some(frame) = answer.frame().await {
            // An event is a chunk, and what follows the last token is none.
            if token_ns.len() < tokens as usize {
                token_ns.push(clock.now_ns());
            }
            std::hint::black_box(frame?);
        }
        all.push(Seen { label, sent_ns, token_ns });
    }
    Ok(all)
}
