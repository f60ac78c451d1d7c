//! One exchange: a request sent, its answer read, stamped and counted.
//!
//! Stamp first, think later: a chunk of the body is stamped as soon as it is there, and only then
//! decoded. All events of one chunk share its stamp. (hyper hands out one HTTP chunk at a time:
//! chunks that came in one read of the socket are stamped some microseconds apart, well below the
//! 50 µs within which events count as coalesced.)

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use http::header::{CONTENT_TYPE, LOCATION};
use tokio::time::Sleep;

use super::FailureKind;
use super::answer::{Answer, Outgoing, text_header};
use super::classify;
use super::error_body::{self, compressed, said};
use super::response_reader::{Fault, Reading};
use super::timeline::{Exchange, STOPPED};
use super::timeouts::Limits;
use crate::api::Dialect;
use crate::clock::Clock;

/// How much of a refusal's body is read, bytes: servers have sent 2.7 MB.
const REFUSAL_BYTES: usize = 64 * 1024;

/// How long a refusal's body may take: its status says what matters.
const REFUSAL_LIMIT: Duration = Duration::from_secs(10);

/// Sends the request and reads the answer to its end, or until `stop` is done: what had come by then
/// is kept.
pub(super) async fn run(
    outgoing: Outgoing<'_>,
    clock: Clock,
    dialect: &dyn Dialect,
    due_ns: Option<u64>,
    stop: impl Future<Output = ()>,
) -> Exchange {
    let mut reading = Reading::new(&outgoing, clock, dialect, due_ns);
    // The reqwest and timer states are large; a round holds thousands of these futures.
    let work = Box::pin(send_and_read(&outgoing, &mut reading));
    let fault = tokio::select! {
        biased;
        ended = work => ended.err(),
        () = stop => Some(Fault::new(FailureKind::Cancelled, STOPPED)),
    };
    reading.finish(fault)
}

async fn send_and_read(outgoing: &Outgoing<'_>, reading: &mut Reading<'_>) -> Result<(), Fault> {
    let clock = reading.clock;
    reading.sent(clock.now_ns());
    let target = outgoing.target.as_ref().map_err(|e| {
        Fault::new(FailureKind::BadRequest, format!("HTTP cannot carry the dialect's path: {e}"))
    })?;
    let mut timer = pin!(tokio::time::sleep_until(clock.instant(reading.limits.next().at_ns)));

    let answer = within(&clock, &mut timer, &reading.limits, outgoing.post(target.clone())).await?;
    let headers_ns = clock.now_ns();
    let mut response = answer.map_err(|e| reading.head_fault(&e, headers_ns))?;
    reading.headed(&response, headers_ns);
    if response.status != http::StatusCode::OK {
        return Err(refused(reading, response).await);
    }
    refuse_other_types(reading, &mut response).await?;

    loop {
        let chunk = within(&clock, &mut timer, &reading.limits, response.chunk()).await?;
        let at_ns = clock.now_ns();
        match chunk {
            Ok(Some(chunk)) => match reading.take(at_ns, &chunk)? {
                // Where chunks come faster than they are read, the timer is never looked at.
                ControlFlow::Continue(()) => in_time(&reading.limits, at_ns)?,
                ControlFlow::Break(()) => break,
            },
            Ok(None) => {
                reading.timeline.end_ns = Some(at_ns);
                return reading.verdict();
            }
            Err(error) => return Err(reading.body_fault(&error)),
        }
    }
    // After `[DONE]` nothing counts any more, and the next request need not wait for the body's end.
    response.drain_aside().await;
    reading.verdict()
}

/// Awaits `work` within the limits. Nearly every event moves the deadline later, so the timer is
/// set back only when it fires; it is set forward at once.
async fn within<T>(
    clock: &Clock,
    timer: &mut Pin<&mut Sleep>,
    limits: &Limits,
    work: impl Future<Output = T>,
) -> Result<T, Fault> {
    let mut work = pin!(work);
    let deadline = clock.instant(limits.next().at_ns);
    if deadline < timer.deadline() {
        timer.as_mut().reset(deadline);
    }
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = timer.as_mut() => {
                in_time(limits, clock.now_ns())?;
                timer.as_mut().reset(clock.instant(limits.next().at_ns));
            }
        }
    }
}

/// Whether it is earlier than the next deadline.
fn in_time(limits: &Limits, now_ns: u64) -> Result<(), Fault> {
    let deadline = limits.next();
    if now_ns < deadline.at_ns {
        Ok(())
    } else {
        Err(Fault::new(deadline.kind, deadline.message()))
    }
}

/// A status other than 200: the body explains why.
async fn refused(reading: &mut Reading<'_>, mut response: Answer) -> Fault {
    let status = response.status;
    let location = text_header(&response.headers, &LOCATION);
    let body = read_bounded(reading, &mut response).await;
    Fault::new(classify::status(status), error_body::text(status, &body, location.as_deref()))
}

/// Status 200 with a type that cannot be a stream: a gateway's page, or an answer in one piece.
async fn refuse_other_types(reading: &mut Reading<'_>, response: &mut Answer) -> Result<(), Fault> {
    if let Some(message) = compressed(&response.headers) {
        read_bounded(reading, response).await;
        return Err(Fault::new(FailureKind::NotAStream, message));
    }
    let kind = text_header(&response.headers, &CONTENT_TYPE).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    if !kind.starts_with("text/html") && !kind.starts_with("application/json") {
        return Ok(());
    }
    let body = read_bounded(reading, response).await;
    let mut message = format!("expected a stream of events, got `{kind}`");
    if let Some(said) = said(&body) {
        message.push_str(&format!(": {said}"));
    }
    Err(Fault::new(FailureKind::NotAStream, message))
}

/// As much of a body as the bounds of a refusal let in.
async fn read_bounded(reading: &mut Reading<'_>, response: &mut Answer) -> Vec<u8> {
    let mut body = Vec::new();
    let clock = reading.clock;
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            reading.timeline.first_byte_ns.get_or_insert_with(|| clock.now_ns());
            reading.evidence.push(&chunk);
            let room = REFUSAL_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() >= REFUSAL_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(REFUSAL_LIMIT, read).await;
    body
}
