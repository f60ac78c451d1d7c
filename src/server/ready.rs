//! Ready: the server answers its ready check, and it is ours that answers.

use std::time::Duration;

use super::limits::Limits;
use super::port::{Address, Owner};
use super::process_group::ProcessGroup;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::telemetry::{self, Snapshot};
use crate::transport::Client;
use crate::transport::client::Endpoint;
use crate::units;

/// How long one ready check may take: a server that loads a model may accept and stay silent.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// How often the owner of a port is looked up again: a server may hand its socket to a worker just
/// as it gets ready.
const OWNER_TRIES: u32 = 5;

/// The outcome of one ready check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Check {
    /// 2xx.
    Ready,
    /// Not yet, and what was seen instead.
    NotYet(String),
}

/// Asks the ready path once.
pub(super) async fn check(client: &Client, path: &str) -> Check {
    match tokio::time::timeout(CHECK_LIMIT, client.get(Endpoint::Root(path))).await {
        Err(_) => Check::NotYet("no answer within 5 s".to_owned()),
        Ok(Err(failure)) => Check::NotYet(failure.message),
        Ok(Ok(reply)) if reply.is_success() => Check::Ready,
        Ok(Ok(reply)) => Check::NotYet(format!("status {}", reply.status)),
    }
}

/// Waits until the server of `group` is ready.
///
/// # Errors
/// Where it dies, does not get ready within `timeout`, or another process answers. The caller adds
/// the log's tail.
pub(super) async fn wait_for_group(
    group: &mut ProcessGroup,
    client: &Client,
    path: &str,
    timeout: Duration,
    limits: &Limits,
) -> Result<()> {
    let clock = Clock::start();
    loop {
        if let Some(status) = group.exit_status() {
            return Err(Error::server(format!("the server ended before it was ready ({status})")));
        }
        let seen = match check(client, path).await {
            Check::Ready => break,
            Check::NotYet(seen) => seen,
        };
        if Duration::from_nanos(clock.now_ns()) >= timeout {
            return Err(not_ready(path, timeout, &seen));
        }
        tokio::time::sleep(limits.poll).await;
    }
    // A server that found its port taken dies a moment after the other one has answered for it.
    if let Some(status) = group.exit_status() {
        return Err(Error::server(format!("the server ended before it was ready ({status})")));
    }
    Ok(())
}

/// Waits until a server that somebody else starts is ready: it answers 2xx at `path`, or lists its models.
/// A refusal by a status below 500 is an answer too: preflight explains it.
///
/// # Errors
/// Where it is not ready within `timeout`.
pub(super) async fn wait_for(
    client: &Client,
    path: Option<&str>,
    timeout: Duration,
    limits: &Limits,
) -> Result<()> {
    let clock = Clock::start();
    loop {
        let seen = match path {
            Some(path) => check(client, path).await,
            None => {
                match tokio::time::timeout(CHECK_LIMIT, client.get(Endpoint::Api("models"))).await {
                    Err(_) => Check::NotYet("no answer within 5 s".to_owned()),
                    Ok(Ok(reply)) if reply.status < 500 => Check::Ready,
                    Ok(Ok(reply)) => Check::NotYet(format!("status {}", reply.status)),
                    Ok(Err(failure)) => Check::NotYet(failure.message),
                }
            }
        };
        let Check::NotYet(seen) = seen else { return Ok(()) };
        if Duration::from_nanos(clock.now_ns()) >= timeout {
            return Err(not_ready(path.unwrap_or("/v1/models"), timeout, &seen));
        }
        tokio::time::sleep(limits.poll).await;
    }
}

/// Makes sure that the socket at `address` is the group's, where the machine reports.
pub(super) async fn check_owner(
    group: &mut ProcessGroup,
    address: &Address,
    limits: &Limits,
) -> Result<()> {
    for _ in 0..OWNER_TRIES {
        if address.owner(&group.members()) != Owner::Other {
            return Ok(());
        }
        tokio::time::sleep(limits.poll).await;
    }
    Err(Error::server(format!("what answers at `{address}` is not the server that was launched"))
        .with_hint(
            "if the command starts a container or hands over to a daemon, use `--restart-cmd` and \
             `--stop-cmd`; else give it a port of its own",
        ))
}

/// Waits until a server that a hook has restarted is ready and, where it tells its start, is
/// another process than `before`. Gives its last reading of `/metrics`.
pub(super) async fn wait_for_restart(
    client: &Client,
    path: &str,
    timeout: Duration,
    before: Option<&str>,
    limits: &Limits,
) -> Result<Option<Snapshot>> {
    let clock = Clock::start();
    loop {
        let seen = match check(client, path).await {
            Check::Ready => {
                let snapshot = telemetry::snapshot(client).await;
                let identity = snapshot.as_ref().and_then(Snapshot::identity);
                if before.is_none() || identity.as_deref() != before {
                    return Ok(snapshot);
                }
                "it is still the process from before the restart".to_owned()
            }
            Check::NotYet(seen) => seen,
        };
        if Duration::from_nanos(clock.now_ns()) >= timeout {
            return Err(not_ready(path, timeout, &seen));
        }
        tokio::time::sleep(limits.poll).await;
    }
}

fn not_ready(path: &str, timeout: Duration, seen: &str) -> Error {
    let limit = units::duration(timeout.as_secs_f64());
    Error::server(format!("the server was not ready at `{path}` within {limit} (last: {seen})"))
        .with_hint("give it longer with `--ready-timeout`, or another path with `--ready`")
}
