//! Failed requests of both sides: whether the new side fails more often.

use crate::settings::REPORT_BUDGET;
use crate::stats::Interval;
use crate::stats::multiple::holm;
use crate::stats::precedence::precedence_p;
use crate::stats::proportion::{
    Count, clopper_pearson, deflate, fisher_more, newcombe, sum, wilson,
};

/// The failures of one load point, by start.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureCounts {
    /// Which load point: any index that the caller understands.
    pub scenario: usize,
    /// Failed of attempted requests by start, base side.
    pub base: Vec<Count>,
    /// The same of the new side.
    pub new: Vec<Count>,
}

/// How to judge failures (docs/statistics.md, section 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureOptions {
    /// Family-wise error over the load points.
    pub alpha: f64,
    /// The smallest difference of the rates that counts: half a percentage point.
    pub floor: f64,
    /// Above this rate latencies give no verdict, since only survivors are measured.
    pub ceiling: f64,
    /// How many looks at the growing data share `alpha`; at least 1.
    pub looks: u32,
}

impl Default for FailureOptions {
    fn default() -> Self {
        Self { alpha: 0.1 * REPORT_BUDGET, floor: 0.005, ceiling: 0.05, looks: 1 }
    }
}

/// What the failures of a load point say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureFlag {
    /// Nothing.
    None,
    /// The new side fails more often: it fails the gate.
    Regressed,
}

/// Whether the survivors still speak for all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    /// Failures stayed under the ceiling on both sides.
    Representative,
    /// They did not: latencies give no verdict.
    Selected,
}

/// The rate of one side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureRate {
    /// Failed of attempted.
    pub count: Count,
    /// Wilson's 95 % interval of the rate.
    pub wilson95: Interval,
    /// Clopper and Pearson's.
    pub exact95: Interval,
}

/// Failing starts, which tell bursts from a steady rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingStarts {
    /// Base starts with a failed request, and all of them.
    pub base: (usize, usize),
    /// The same of the new side.
    pub new: (usize, usize),
    /// New starts that fail more of their requests than the worst base start does.
    pub ahead: usize,
    /// How many would have to, for a verdict; `None` where even all of them prove nothing.
    pub needed: Option<usize>,
}

/// The failures of one load point, compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailureResult {
    /// Which load point.
    pub scenario: usize,
    /// The base side.
    pub base: FailureRate,
    /// The new side.
    pub new: FailureRate,
    /// new − base, as a difference of rates.
    pub difference: f64,
    /// Newcombe's 95 % interval of it.
    pub difference95: Interval,
    /// How many failures count as one, because they come in bursts.
    pub design_effect: f64,
    /// Fisher's one-sided p-value of the deflated counts.
    pub p: f64,
    /// Holm's over the load points.
    pub p_holm: f64,
    /// How many starts failed requests at all.
    pub starts: FailingStarts,
    /// Its content.
    pub flag: FailureFlag,
    /// Whether latencies may be judged.
    pub survivors: Survivors,
}

/// Compares the failures of every load point that has requests on both sides.
#[must_use]
pub fn judge(points: &[FailureCounts], options: &FailureOptions) -> Vec<FailureResult> {
    let mut results: Vec<FailureResult> =
        points.iter().filter_map(|point| compare(point, options)).collect();
    let p: Vec<f64> = results.iter().map(|result| result.p).collect();
    let by_start: Vec<f64> = results.iter().map(|result| result.starts.p()).collect();
    let alpha = options.alpha / f64::from(options.looks.max(1));
    let p_holm = holm(&p).into_iter().zip(holm(&by_start));
    for (result, (of_requests, of_starts)) in results.iter_mut().zip(p_holm) {
        result.p_holm = of_requests.min(of_starts);
        if result.p_holm <= alpha && result.difference >= options.floor {
            result.flag = FailureFlag::Regressed;
        }
    }
    results
}

fn compare(point: &FailureCounts, options: &FailureOptions) -> Option<FailureResult> {
    let (base, new) = (rate(&point.base)?, rate(&point.new)?);
    let (p_base, p_new) = (base.count.share()?, new.count.share()?);
    let deflated = deflate(&point.base, &point.new);
    let p = fisher_more(deflated.base, deflated.new);
    let survivors = match p_base.max(p_new) > options.ceiling {
        true => Survivors::Selected,
        false => Survivors::Representative,
    };
    Some(FailureResult {
        scenario: point.scenario,
        base,
        new,
        difference: p_new - p_base,
        difference95: newcombe(base.count, new.count, 0.95)?,
        design_effect: deflated.design_effect,
        p,
        p_holm: p,
        starts: FailingStarts::of(point, options),
        flag: FailureFlag::None,
        survivors,
    })
}

impl FailingStarts {
    fn of(point: &FailureCounts, options: &FailureOptions) -> Self {
        let share = |count: &Count| count.share().unwrap_or(0.0);
        let failing =
            |side: &[Count]| (side.iter().filter(|count| count.hits > 0).count(), side.len());
        let worst = point.base.iter().map(share).fold(0.0, f64::max);
        let alpha = options.alpha / f64::from(options.looks.max(1));
        let (base, new) = (failing(&point.base), failing(&point.new));
        let proves = |ahead: &usize| precedence(base.1, new.1, *ahead) <= alpha;
        Self {
            base,
            new,
            ahead: point.new.iter().filter(|count| share(count) > worst).count(),
            needed: (1..=new.1).find(proves),
        }
    }

    /// The chance of this many bad new starts where both sides are alike.
    fn p(&self) -> f64 {
        precedence(self.base.1, self.new.1, self.ahead)
    }
}

fn precedence(base: usize, new: usize, ahead: usize) -> f64 {
    precedence_p(base as u64, new as u64, ahead as u64)
}

fn rate(starts: &[Count]) -> Option<FailureRate> {
    let count = sum(starts);
    Some(FailureRate {
        count,
        wilson95: wilson(count, 0.95)?,
        exact95: clopper_pearson(count, 0.95)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(hits: &[u64]) -> Vec<Count> {
        hits.iter().map(|hits| Count { hits: *hits, trials: 128 }).collect()
    }

    #[test]
    fn seven_failing_starts_of_eight_are_a_verdict_and_three_say_how_many_are_needed() {
        let clean = starts(&[0; 8]);
        let point =
            |hits: &[u64]| FailureCounts { scenario: 0, base: clean.clone(), new: starts(hits) };
        // One start lost most of its requests: requests alone would be seven bursts.
        let seven = judge(&[point(&[90, 1, 1, 1, 1, 1, 1, 0])], &FailureOptions::default());
        assert_eq!((seven[0].flag, seven[0].starts.ahead), (FailureFlag::Regressed, 7));
        let three = judge(&[point(&[2, 2, 2, 0, 0, 0, 0, 0])], &FailureOptions::default());
        let FailingStarts { base, new, needed, .. } = three[0].starts;
        assert_eq!((base, new, needed), ((0, 8), (3, 8), Some(7)));
        assert_eq!(three[0].flag, FailureFlag::None);
    }

    #[test]
    fn more_failures_regress_and_bursts_do_not() {
        let clean = starts(&[0; 8]);
        let points = [
            FailureCounts {
                scenario: 0,
                base: clean.clone(),
                new: starts(&[4, 3, 5, 4, 3, 4, 5, 3]),
            },
            FailureCounts {
                scenario: 1,
                base: clean.clone(),
                new: starts(&[0, 0, 31, 0, 0, 0, 0, 0]),
            },
            FailureCounts { scenario: 2, base: starts(&[9; 8]), new: clean.clone() },
            FailureCounts { scenario: 3, base: vec![], new: clean },
        ];
        let results = judge(&points, &FailureOptions::default());
        let flags: Vec<_> = results.iter().map(|r| (r.scenario, r.flag)).collect();
        assert_eq!(
            flags,
            [(0, FailureFlag::Regressed), (1, FailureFlag::None), (2, FailureFlag::None)]
        );
        assert_eq!(results[2].survivors, Survivors::Selected);
        assert_eq!(results[1].survivors, Survivors::Representative);
    }
}
