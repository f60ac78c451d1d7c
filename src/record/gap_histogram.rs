//! A histogram of gaps between tokens: what ITL and ICL are kept in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::error::{Error, Result};
use crate::transport::TokenTimeline;

/// Four significant digits: a bucket is at most 1 / 16 384 of its value wide, so that a change of
/// the median by 0.2 % spans more than thirty buckets. Three digits would leave four.
const SIGNIFICANT_DIGITS: u8 = 4;

/// The longest gap kept apart, 1 h in ns. It bounds the histogram at about 4 MB; no timeout that
/// the client accepts is longer, and the worst gap of a request is kept whole in its record.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The longest base64 text that is read: twice what a full histogram of one hour takes.
const LONGEST_TEXT: usize = 16 << 20;

/// Bytes before the counts of a V2 encoding.
const HEADER: usize = 40;

/// Gaps up to so long find room ahead of time, 10 s in ns; longer ones still make room when they come.
const ROOM_NS: u64 = 10_000_000_000;

/// Gaps in nanoseconds, to four significant digits.
///
/// Ten million tokens take as much memory as ten thousand. The buckets and the text form are those
/// of HdrHistogram (Gil Tene, <http://hdrhistogram.org>), so other tools read `itl.hist` too.
#[derive(Debug, Clone, Default)]
pub struct GapHistogram {
    /// None until the first gap, unless room was made ahead: an empty one costs nothing.
    buckets: Option<Histogram<u64>>,
}

impl PartialEq for GapHistogram {
    /// Whether both hold the same gaps, whatever room they have.
    fn eq(&self, other: &Self) -> bool {
        (self.count() == 0 && other.count() == 0) || self.buckets == other.buckets
    }
}

/// A bucket with something in it: values from `low_ns` to `high_ns`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Its shortest gap, ns.
    pub low_ns: u64,
    /// Its longest gap, ns.
    pub high_ns: u64,
    /// How many gaps it holds, never 0.
    pub count: u64,
}

impl GapHistogram {
    /// Relative width of a bucket: no value read from a histogram is surer than this, and a
    /// standard error should not be taken as smaller (docs/statistics.md, section 2).
    pub const RESOLUTION: f64 = 1e-4;

    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty histogram with room for gaps up to ten seconds, 2.6 MB. One without grows with each
    /// gap longer than all before, and to clear and copy megabytes takes milliseconds: as long would
    /// the tokens that arrive meanwhile lie unread.
    #[must_use]
    pub fn with_room() -> Self {
        let mut gaps = Self::new();
        gaps.record(ROOM_NS, 1);
        if let Some(buckets) = &mut gaps.buckets {
            buckets.reset();
        }
        gaps
    }

    /// Counts a gap of `gap_ns` nanoseconds `times` times. Gaps beyond an hour count as an hour.
    pub fn record(&mut self, gap_ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        if self.buckets.is_none() {
            // Fails for other numbers of digits only.
            self.buckets = Histogram::new(SIGNIFICANT_DIGITS).ok();
        }
        if let Some(buckets) = &mut self.buckets {
            // Fails only beyond the limits of a histogram that does not grow; this one does.
            let _ = buckets.record_n(gap_ns.min(LONGEST_NS), times);
        }
    }

    /// Adds every gap of `other`.
    pub fn merge(&mut self, other: &Self) {
        for bucket in other.filled() {
            self.record(bucket.middle_ns(), bucket.count);
        }
    }

    /// How many gaps there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.as_ref().map_or(0, Histogram::len)
    }

    /// Its filled buckets, for those who ask more than one thing: the methods below walk all buckets
    /// each time.
    #[must_use]
    pub fn view(&self) -> GapView {
        GapView { filled: self.filled().collect(), count: self.count() }
    }

    /// Mean, ns; `None` if there is no gap.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.view().mean()
    }

    /// Sample standard deviation (n − 1), ns; none below two gaps.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        self.view().std()
    }

    /// The shortest gap, ns; `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.view().quantile(0.0)
    }

    /// The longest gap, ns; `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.view().quantile(1.0)
    }

    /// The quantile `q`: [`GapView::quantile`].
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.view().quantile(q)
    }

    /// The text form: base64 of HdrHistogram's V2 encoding, without compression.
    ///
    /// # Errors
    /// Where the histogram cannot be encoded, which no recorded gap leads to.
    pub fn to_base64(&self) -> Result<String> {
        let Some(buckets) = self.buckets.as_ref().filter(|buckets| !buckets.is_empty()) else {
            return Ok(String::new());
        };
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(buckets, &mut bytes).map_err(|error| {
            Error::store("a histogram of gaps cannot be encoded").with_cause(error)
        })?;
        Ok(STANDARD.encode(bytes))
    }

    /// Reads [`GapHistogram::to_base64`]'s text; an empty one is an empty histogram.
    ///
    /// # Errors
    /// Where the text is not base64 of a V2 histogram, or is longer than 16 MiB.
    pub fn from_base64(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::new());
        }
        let broken = || {
            Error::store("a histogram of gaps cannot be read")
                .with_hint("the file was cut or edited; measure that load point again")
        };
        if text.len() > LONGEST_TEXT {
            return Err(broken());
        }
        let bytes = STANDARD.decode(text).map_err(|error| broken().with_cause(error))?;
        if !header_fits(&bytes) {
            return Err(broken());
        }
        let mut gaps: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| broken().with_cause(error))?;
        gaps.auto(true);
        Ok(Self { buckets: Some(gaps) })
    }

    /// The buckets with something in them, from the shortest gap.
    fn filled(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().flat_map(|buckets| {
            buckets.iter_recorded().map(|step| Bucket {
                low_ns: buckets.lowest_equivalent(step.value_iterated_to()),
                high_ns: buckets.highest_equivalent(step.value_iterated_to()),
                count: step.count_at_value(),
            })
        })
    }
}

/// The buckets of a histogram that hold something: made once, asked often.
#[derive(Debug, Clone)]
pub struct GapView {
    filled: Vec<Bucket>,
    count: u64,
}

impl GapView {
    /// The filled buckets, from the shortest gap: what a chart of gaps is drawn from.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.filled
    }

    /// Mean, ns; `None` if there is no gap.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| {
            let sum: f64 = self.filled.iter().map(|b| b.centre_ns() * as_f64(b.count)).sum();
            sum / as_f64(self.count)
        })
    }

    /// Sample standard deviation (n − 1), ns; none below two gaps.
    #[must_use]
    pub fn std(&self) -> Option<f64> {
        let mean = self.mean()?;
        let square = |b: &Bucket| (b.centre_ns() - mean).powi(2) * as_f64(b.count);
        let squares: f64 = self.filled.iter().map(square).sum();
        (self.count > 1).then(|| (squares / as_f64(self.count - 1)).sqrt())
    }

    /// The quantile `q` (0 to 1, clamped), ns; `None` if there is no gap or `q` is not a number.
    ///
    /// Type 7 of Hyndman and Fan (The American Statistician 50, 1996), as for every percentile
    /// here, on gaps taken as evenly spread within their bucket (the usual grouped-data quantile):
    /// never a bucket's edge, which would move in steps.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 || q.is_nan() {
            return None;
        }
        let rank = as_f64(self.count - 1) * q.clamp(0.0, 1.0);
        let below = rank.floor();
        let lower = self.order_statistic(below)?;
        let share = rank - below;
        if share <= 0.0 {
            return Some(lower);
        }
        let upper = self.order_statistic(below + 1.0).unwrap_or(lower);
        Some(lower + share * (upper - lower))
    }

    /// The gap with `rank` shorter ones before it, placed within its bucket.
    fn order_statistic(&self, rank: f64) -> Option<f64> {
        let mut before = 0.0;
        for bucket in &self.filled {
            let count = as_f64(bucket.count);
            if rank < before + count {
                let width = as_f64(bucket.high_ns - bucket.low_ns);
                return Some(as_f64(bucket.low_ns) + width * (rank - before + 0.5) / count);
            }
            before += count;
        }
        self.filled.last().map(|bucket| as_f64(bucket.high_ns))
    }
}

impl Bucket {
    fn middle_ns(self) -> u64 {
        self.low_ns + (self.high_ns - self.low_ns) / 2
    }

    fn centre_ns(self) -> f64 {
        as_f64(self.low_ns) + as_f64(self.high_ns - self.low_ns) / 2.0
    }
}

/// Whether the header of a V2 encoding is one that we write. What others write may be coarser, or so
/// wide that walking it takes seconds, and the reader would make room for any length that is claimed.
/// The header is big-endian: cookie, length, offset and digits
/// in 4 bytes each, then lowest value, highest value and a ratio in 8.
fn header_fits(bytes: &[u8]) -> bool {
    let number = |from: usize, to: usize| {
        let bytes = bytes.get(from..to)?;
        Some(bytes.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte)))
    };
    let length = bytes.len().checked_sub(HEADER).map(|length| length as u64);
    length.is_some()
        && number(4, 8) == length
        && number(12, 16) == Some(u64::from(SIGNIFICANT_DIGITS))
        && number(16, 24) == Some(1)
        && number(24, 32).is_some_and(|highest_ns| highest_ns <= 2 * LONGEST_NS)
}

/// Counts the gaps between the token events of one answer: each as it is into `icl`, and spread
/// over the tokens of the later event into `itl`. An event without a token of its own (a counted
/// usage spread over more events than tokens) leaves its gap to the next that has one.
pub fn record_gaps(timeline: &TokenTimeline, itl: &mut GapHistogram, icl: &mut GapHistogram) {
    let Some(first) = timeline.events.first() else { return };
    let mut event_before_ns = first.at_ns;
    let mut token_before_ns = first.at_ns;
    for event in &timeline.events[1..] {
        icl.record(event.at_ns.saturating_sub(event_before_ns), 1);
        event_before_ns = event.at_ns;
        if event.tokens > 0 {
            let tokens = u64::from(event.tokens);
            itl.record(event.at_ns.saturating_sub(token_before_ns) / tokens, tokens);
            token_before_ns = event.at_ns;
        }
    }
}

/// Exact below 2^53: 104 days in ns.
#[allow(clippy::cast_precision_loss)]
fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Content;
    use crate::transport::TokenEvent;

    fn of(gaps: &[u64]) -> GapHistogram {
        let mut histogram = GapHistogram::new();
        gaps.iter().for_each(|gap| histogram.record(*gap, 1));
        histogram
    }

    #[test]
    fn recording_makes_no_room_while_tokens_wait() {
        let mut gaps = GapHistogram::with_room();
        assert_eq!((&gaps, gaps.to_base64().unwrap()), (&GapHistogram::new(), String::new()));
        let room = |gaps: &GapHistogram| gaps.buckets.as_ref().map(Histogram::distinct_values);
        let before = room(&gaps);
        let mut plain = GapHistogram::new();
        for gap_ns in [1, 10_000_000, 9_999_999_999] {
            gaps.record(gap_ns, 1);
            plain.record(gap_ns, 1);
        }
        assert_eq!(room(&gaps), before);
        assert_eq!(gaps, plain);
        assert_eq!(gaps.to_base64().unwrap(), plain.to_base64().unwrap());
        gaps.record(LONGEST_NS, 1);
        assert_eq!(gaps.count(), 4, "longer ones still fit");
    }

    #[test]
    fn small_gaps_are_exact_and_quantiles_are_type_7() {
        let gaps = of(&[1, 2, 3, 4, 5]);
        for (q, right) in [(0.0, 1.0), (0.01, 1.04), (0.25, 2.0), (0.5, 3.0), (0.99, 4.96)] {
            assert!((gaps.quantile(q).unwrap() - right).abs() < 1e-9, "{q}");
        }
        assert_eq!(gaps.mean(), Some(3.0));
        assert!((gaps.std().unwrap() - 2.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!((gaps.min(), gaps.max()), (Some(1.0), Some(5.0)));
    }

    #[test]
    fn two_tenths_of_a_percent_are_seen() {
        for base in [100_000_u64, 1_000_000, 7_913_000, 30_000_000, 2_000_000_000] {
            let around = |centre: u64| {
                let mut gaps = GapHistogram::new();
                for step in 0..200 {
                    gaps.record(centre - centre / 100 + step * centre / 10_000, 50);
                }
                gaps.quantile(0.5).unwrap()
            };
            let change = around(base + base / 500) / around(base) - 1.0;
            assert!((change - 0.002).abs() < 2e-4, "{base}: {change}");
        }
    }

    #[test]
    fn a_value_is_right_to_the_resolution() {
        for gap in [3_u64, 40_000, 123_456, 8_000_123, 987_654_321, LONGEST_NS] {
            let gap_f = as_f64(gap);
            let read = of(&[gap]).quantile(0.5).unwrap();
            assert!((read / gap_f - 1.0).abs() < GapHistogram::RESOLUTION, "{gap}: {read}");
        }
        let capped = of(&[u64::MAX]).max().unwrap();
        assert!((capped / as_f64(LONGEST_NS) - 1.0).abs() < GapHistogram::RESOLUTION);
    }

    #[test]
    fn nothing_in_it_is_undefined_not_zero() {
        let empty = GapHistogram::new();
        assert_eq!(empty.count(), 0);
        assert_eq!((empty.mean(), empty.std(), empty.quantile(0.5)), (None, None, None));
        assert_eq!(of(&[5]).std(), None);
        assert_eq!(of(&[5]).quantile(f64::NAN), None);
    }

    #[test]
    fn text_and_back_changes_nothing() {
        let mut gaps = of(&[0, 1, 8_000_000, 8_000_001, 8_123_456, 90_000_000_000]);
        gaps.record(7_500_000, 1_000_000);
        let back = GapHistogram::from_base64(&gaps.to_base64().unwrap()).unwrap();
        assert_eq!(back.count(), gaps.count());
        for q in [0.0, 0.1, 0.5, 0.99, 1.0] {
            assert_eq!(back.quantile(q), gaps.quantile(q));
        }
        assert_eq!((back.mean(), back.std()), (gaps.mean(), gaps.std()));
        assert_eq!(back.to_base64().unwrap(), gaps.to_base64().unwrap());
        assert_eq!(GapHistogram::from_base64("").unwrap().count(), 0);
        for broken in ["%%%", "AAAA", "HISTFAAAAB9"] {
            assert!(GapHistogram::from_base64(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn merging_is_recording_all() {
        let mut left = of(&[1_000_000, 2_000_000]);
        left.merge(&of(&[3_000_000, 70_000_000_000]));
        let all = of(&[1_000_000, 2_000_000, 3_000_000, 70_000_000_000]);
        assert_eq!(left.to_base64().unwrap(), all.to_base64().unwrap());
    }

    #[test]
    fn a_gap_is_spread_over_its_tokens() {
        let event = |at_ns, tokens| TokenEvent { at_ns, tokens, content: Content::Visible };
        let timeline = TokenTimeline {
            events: vec![event(100, 1), event(160, 3), event(170, 0), event(190, 1)],
            ..TokenTimeline::default()
        };
        let (mut itl, mut icl) = (GapHistogram::new(), GapHistogram::new());
        record_gaps(&timeline, &mut itl, &mut icl);
        assert_eq!((itl.count(), icl.count()), (4, 3));
        assert_eq!((itl.min(), itl.max()), (Some(20.0), Some(30.0)));
        assert_eq!((icl.min(), icl.max()), (Some(10.0), Some(60.0)));
        record_gaps(&TokenTimeline::default(), &mut itl, &mut icl);
        assert_eq!(itl.count(), 4);
    }

    #[test]
    fn a_damaged_text_is_refused_or_read_but_never_fatal() {
        let right = STANDARD.decode(of(&[5, 700, 80_000]).to_base64().unwrap()).unwrap();
        for place in 0..right.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = right.clone();
                bytes[place] = byte;
                let Ok(gaps) = GapHistogram::from_base64(&STANDARD.encode(bytes)) else { continue };
                let view = gaps.view();
                let all = [view.mean(), view.std(), view.quantile(0.5)];
                assert!(all.into_iter().flatten().all(f64::is_finite), "{place} {byte}");
            }
        }
    }
}
