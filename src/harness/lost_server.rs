//! A lost server: found after a round, reported once with what is not measured, and the end of its start.

use std::time::Duration;

use super::session::Session;
use crate::drive::RoundOutcome;
use crate::error::{Error, Result};
use crate::plan::{Phase, StartPlan};
use crate::record::stored::RoundStatus;
use crate::record::{Finding, FindingCode, ServerState, Severity};

/// A killed process closes its sockets before its parent can see its end: looks at it, and the pause
/// between them.
const LOOKS: u32 = 20;
/// See [`LOOKS`].
const PAUSE: Duration = Duration::from_millis(50);

impl Session<'_> {
    /// What happened to the server in a round, and the error that ends its start where it is lost.
    pub(super) async fn server_state(
        &mut self,
        start: &StartPlan,
        outcome: &RoundOutcome,
    ) -> Result<(ServerState, Option<Error>)> {
        if outcome.status == RoundStatus::Interrupted {
            return Ok((ServerState::Ran, None));
        }
        let seen = ServerState::of(&outcome.records);
        let server = &mut self.bench(start.side)?.server;
        let looks = if server.is_ours() && !seen.is_ran() { LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            if let Some((state, error)) = server.death() {
                return Ok((state, Some(error)));
            }
        }
        let restarted = outcome.findings.iter().any(|f| f.code == FindingCode::Restarted);
        let state = if restarted { seen.worse(ServerState::Restarted) } else { seen };
        let lost = state.is_lost().then(|| {
            Error::server(format!("the server {} in the middle of the run", state.words()))
                .with_hint("look at the server's log, or at the gateway or port-forward before it")
        });
        Ok((state, lost))
    }

    /// Reports that the server was lost, and which load points have no figures because of it.
    pub(super) fn tell_loss(&mut self) {
        let Some(lost) = self.run.rounds.iter().rfind(|round| round.server.is_lost()) else {
            return;
        };
        let measured = |id: &str| self.run.rounds.iter().any(|round| round.point == id);
        let points = self.run.points.iter().filter(|point| point.phase == Phase::Load);
        let missing: Vec<&str> =
            points.map(|point| point.id.as_str()).filter(|id| !measured(id)).collect();
        let rest = match missing.as_slice() {
            [] => String::new(),
            missing => format!("; not measured: {}", missing.join(", ")),
        };
        let text = format!("the server {} in this load point{rest}", lost.server.words());
        let finding = Finding::new(FindingCode::ServerLost, Severity::Fatal, text)
            .with_hint("look at the server's log, then measure again")
            .at(lost.point.clone());
        self.find(finding);
    }
}
