//! Positions: ITL by the place of a token in its answer, which shows whether late tokens come slower.

use crate::transport::TokenTimeline;
use crate::units::ns_to_ms;

/// Places kept apart. Longer answers share them, two tokens to a place, then four: a chart is not
/// wider, and a run keeps a line of these for every round.
const PLACES: usize = 128;

/// Sums of gaps by place, over many answers. Its size does not depend on how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionGaps {
    places: Vec<Place>,
    /// Tokens to a place, a power of two.
    width: u64,
}

/// The gaps before the tokens of one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    sum_ns: u64,
    tokens: u64,
}

impl Default for PositionGaps {
    fn default() -> Self {
        Self { places: Vec::new(), width: 1 }
    }
}

impl PositionGaps {
    /// Adds the gaps of one answer, spread over the tokens of an event as for ITL
    /// ([`record_gaps`](super::record_gaps)).
    pub fn add(&mut self, timeline: &TokenTimeline) {
        let Some(first) = timeline.events.first() else { return };
        let mut before_ns = first.at_ns;
        let mut position = u64::from(first.tokens);
        for event in timeline.events[1..].iter().filter(|event| event.tokens > 0) {
            let gap_ns = event.at_ns.saturating_sub(before_ns);
            self.record(position, gap_ns, u64::from(event.tokens));
            before_ns = event.at_ns;
            position += u64::from(event.tokens);
        }
    }

    /// Counts `tokens` tokens from `position` (from 0) on that took `gap_ns` together.
    fn record(&mut self, position: u64, gap_ns: u64, tokens: u64) {
        // 64 doublings hold any position.
        while position / self.width >= PLACES as u64 {
            self.fold();
        }
        let index = usize::try_from(position / self.width).unwrap_or(PLACES - 1);
        if self.places.len() <= index {
            self.places.resize(index + 1, Place::default());
        }
        let place = &mut self.places[index];
        place.sum_ns = place.sum_ns.saturating_add(gap_ns);
        place.tokens = place.tokens.saturating_add(tokens);
    }

    /// Two places become one.
    fn fold(&mut self) {
        let sum = |pair: &[Place]| Place {
            sum_ns: pair.iter().fold(0, |sum: u64, p| sum.saturating_add(p.sum_ns)),
            tokens: pair.iter().fold(0, |sum: u64, p| sum.saturating_add(p.tokens)),
        };
        self.places = self.places.chunks(2).map(sum).collect();
        self.width = self.width.saturating_mul(2);
    }

    /// The mean ITL by position: (position of the place's first token, from 1; ms, to the
    /// microsecond), by rising position. Places without a token are left out.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // positions and counts of tokens
    pub fn means_ms(&self) -> Vec<(u64, f64)> {
        let places = (0_u64..).zip(&self.places).filter(|(_, place)| place.tokens > 0);
        let mean = |(index, place): (u64, &Place)| {
            let ms = ns_to_ms(place.sum_ns) / place.tokens as f64;
            (index.saturating_mul(self.width) + 1, (ms * 1e3).round() / 1e3)
        };
        places.map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Content;
    use crate::transport::TokenEvent;

    fn answer(events: &[(u64, u32)]) -> TokenTimeline {
        let event = |(ms, tokens): &(u64, u32)| TokenEvent {
            at_ns: ms * 1_000_000,
            tokens: *tokens,
            content: Content::Visible,
        };
        TokenTimeline { events: events.iter().map(event).collect(), ..TokenTimeline::default() }
    }

    #[test]
    fn gaps_are_means_by_position() {
        let mut gaps = PositionGaps::default();
        gaps.add(&answer(&[(100, 1), (110, 1), (130, 1)]));
        gaps.add(&answer(&[(0, 1), (14, 1)]));
        gaps.add(&answer(&[]));
        assert_eq!(gaps.means_ms(), [(2, 12.0), (3, 20.0)]);
    }

    #[test]
    fn events_of_several_tokens_share_their_gap_and_empty_ones_pass_it_on() {
        let mut gaps = PositionGaps::default();
        gaps.add(&answer(&[(0, 2), (5, 0), (12, 3), (20, 1)]));
        assert_eq!(gaps.means_ms(), [(3, 4.0), (6, 8.0)]);
    }

    #[test]
    fn long_answers_stay_small() {
        let mut gaps = PositionGaps::default();
        let events: Vec<(u64, u32)> = (0..1000).map(|i| (i * 7, 1)).collect();
        gaps.add(&answer(&events));
        let means = gaps.means_ms();
        assert_eq!((means.len(), means[0], means[1]), (125, (1, 7.0), (9, 7.0)));
        gaps.record(u64::MAX, 1, 1);
        assert!(gaps.means_ms().len() <= PLACES);
    }
}
