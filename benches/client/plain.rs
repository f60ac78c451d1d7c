//! The limit: a plain hyper loop that reads the same bytes and drops them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

use inferometer::settings::SlotStart;

use crate::Outcome;
use crate::side::{Case, Cost, client_cpu_ns, runtime, serve};

pub(crate) fn run(case: Case) -> Outcome<Cost> {
    let (server, _) = serve(case, 0)?;
    let before_ns = client_cpu_ns(&server);
    let address = server.url().trim_start_matches("http://").to_owned();
    let left = Arc::new(AtomicU32::new(case.requests));
    runtime()?.block_on(async {
        let mut streams = tokio::task::JoinSet::new();
        for number in 0..case.streams {
            let wait = match case.start {
                SlotStart::Together => Duration::ZERO,
                SlotStart::Spread => case.e2el() * number / case.streams,
            };
            streams.spawn(stream(address.clone(), case.tokens, left.clone(), wait));
        }
        while let Some(done) = streams.join_next().await {
            done?.map_err(|error| error.to_string())?;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    let cpu_ns = client_cpu_ns(&server).saturating_sub(before_ns);
    Ok(Cost { cpu_ns, events: u64::from(case.requests) * u64::from(case.tokens) })
}

async fn stream(
    address: String,
    tokens: u32,
    left: Arc<AtomicU32>,
    wait: Duration,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    tokio::time::sleep(wait).await;
    let socket = tokio::net::TcpStream::connect(&address).await?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    let body = Bytes::from(format!(
        r#"{{"prompt":"plain","max_tokens":{tokens},"stream":true,"stream_options":{{"include_usage":true}}}}"#
    ));
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
        let request = hyper::Request::post("/v1/completions")
            .header("host", &address)
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))?;
        sender.ready().await?;
        let mut answer = sender.send_request(request).await?;
        while let Some(frame) = answer.frame().await {
            std::hint::black_box(frame?);
        }
    }
    Ok(())
}
