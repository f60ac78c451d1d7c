//! Burn-in: one unmeasured start of each side before the first pair, so that a cold first launch
//! (compile caches, files not yet in memory) does not fall on one side alone.

use super::session::Session;
use crate::error::Result;
use crate::plan::{Phase, RoundPlan, StartPlan};
use crate::report::progress::Event;

impl Session<'_> {
    /// Launches each side once, warms it up at its highest load and stops it. Nothing of it is
    /// kept. Not repeated by a run that is taken up again.
    pub(super) async fn burn_in(&mut self) -> Result<()> {
        if !self.plan.burn_in || !self.run.rounds.is_empty() {
            return Ok(());
        }
        let text = "one start of each side before the first pair, not measured";
        self.reporter.event(&Event::Note { text });
        let plan = self.plan;
        for start in plan.starts.iter().filter(|start| start.block == 0) {
            if self.is_interrupted() {
                return Ok(());
            }
            let result = self.burn_in_side(start).await;
            let bench = self.bench(start.side)?;
            bench.wire = None;
            let findings = bench.server.stop().await?;
            findings.into_iter().for_each(|finding| self.find(finding));
            self.run.starts.retain(|stored| stored.start != start.start);
            result?;
        }
        Ok(())
    }

    async fn burn_in_side(&mut self, start: &StartPlan) -> Result<()> {
        self.launch(start).await?;
        let loads = start.rounds.iter().filter(|round| round.phase != Phase::Reference);
        let load = |round: &RoundPlan| round.point.load.rank().1;
        let Some(round) = loads.max_by(|a, b| load(a).total_cmp(&load(b))) else { return Ok(()) };
        let wire = self.wire(start, round)?;
        self.warm_up(&wire, round).await.map(drop)
    }
}
