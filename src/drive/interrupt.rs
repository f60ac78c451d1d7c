//! The interrupt: the first Ctrl-C stops sending and drains, the second leaves at once.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};

/// How urgently the user wants to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Not at all.
    #[default]
    None,
    /// Stop sending, let what is in flight end within a deadline, keep what was measured.
    Drain,
    /// Leave at once.
    Leave,
}

/// A handle to the user's wish to stop. Clones share it; it never goes back.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<watch::Sender<Urgency>>);

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// A handle that nobody has raised.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Urgency::None)))
    }

    /// One more wish to stop: the first drains, the second leaves.
    pub fn raise(&self) {
        self.0.send_modify(|urgency| {
            *urgency = match *urgency {
                Urgency::None => Urgency::Drain,
                Urgency::Drain | Urgency::Leave => Urgency::Leave,
            };
        });
    }

    /// How urgent it is now.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        *self.0.borrow()
    }

    /// Waits until it is more urgent than `than`, and says how urgent. Safe to drop.
    pub async fn beyond(&self, than: Urgency) -> Urgency {
        let mut receiver = self.0.subscribe();
        // Copied out of its lock before the next await.
        let seen = receiver.wait_for(|urgency| *urgency > than).await.map(|urgency| *urgency);
        match seen {
            Ok(urgency) => urgency,
            // The sender lives in `self`, so this is never seen; waiting is the harmless answer.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Raises `interrupt` at each Ctrl-C, SIGTERM, SIGHUP or SIGQUIT, until the runtime ends. A SIGTERM comes
/// from CI and service managers, a SIGHUP from a terminal that closes: both expect the same as of Ctrl-C,
/// and launched servers are to be stopped. From then on the signals end nothing by
/// themselves: whoever sees [`Urgency::Leave`] must leave.
///
/// # Errors
/// Where the system refuses the handlers, or no tokio runtime is running.
pub fn raise_on_signals(interrupt: &Interrupt) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let refused = |error: std::io::Error| {
        Error::new(ErrorKind::Client, "cannot listen for Ctrl-C").with_cause(error)
    };
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(refused)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(refused)?;
    let mut quit = signal(SignalKind::quit()).map_err(refused)?;
    let interrupt = interrupt.clone();
    tokio::spawn(async move {
        while interrupt.urgency() < Urgency::Leave {
            tokio::select! {
                _ = ctrl_c.recv() => interrupt.raise(),
                _ = terminate.recv() => interrupt.raise(),
                _ = hang_up.recv() => interrupt.raise(),
                _ = quit.recv() => interrupt.raise(),
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_drains_and_the_second_leaves() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.urgency(), Urgency::None);
        let waiting = interrupt.clone();
        let seen = tokio::spawn(async move { waiting.beyond(Urgency::None).await });
        interrupt.raise();
        assert_eq!(seen.await.unwrap(), Urgency::Drain);
        interrupt.raise();
        interrupt.raise();
        assert_eq!(interrupt.beyond(Urgency::Drain).await, Urgency::Leave);
    }
}
