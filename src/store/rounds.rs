//! Rounds: their requests and gap histograms, by lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::files::{self, LineEnd, Lines};
use super::{Store, layout};
use crate::error::{Error, Result};
use crate::plan::{Phase, Side};
use crate::record::{GapHistogram, RequestRecord, StoredRound};

/// The most requests read of one load point: 2^25, about 10 GB of records. A run that is larger
/// is split over load points or rounds.
const MOST_RECORDS: usize = 1 << 25;

/// What a round measured.
#[derive(Debug, Clone, Default)]
pub struct RoundData {
    /// Its requests, in the order written.
    pub records: Vec<RequestRecord>,
    /// Gaps between tokens.
    pub itl: GapHistogram,
    /// Gaps between events.
    pub icl: GapHistogram,
    /// What was amiss with the files, for people; empty mostly.
    pub notes: Vec<String>,
}

/// Which gaps a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GapKind {
    Itl,
    Icl,
}

/// One line of `itl.hist`.
#[derive(Debug, Serialize, Deserialize)]
struct GapLine {
    side: Side,
    block: u32,
    start: u32,
    round: u32,
    phase: Phase,
    kind: GapKind,
    /// How many gaps, for people who read the file.
    count: u64,
    /// HdrHistogram V2, nanoseconds.
    base64: String,
}

/// What distinguishes the rounds of a load point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    phase: Phase,
    side: Side,
    block: u32,
    start: u32,
    round: u32,
}

impl Store {
    /// Reads what a round measured.
    ///
    /// # Errors
    /// Where a file cannot be read or understood. A cut last line is a note.
    #[cfg(any(test, feature = "internals"))]
    pub fn load_round(&self, run_id: &str, round: &StoredRound) -> Result<RoundData> {
        let mut rounds = self.load_rounds(run_id, &[round])?;
        Ok(rounds.pop().unwrap_or_default())
    }

    /// Reads what several rounds of a run measured, each file once; in the order asked for. Name
    /// each round once.
    ///
    /// # Errors
    /// As [`Store::load_round`].
    pub fn load_rounds(&self, run_id: &str, rounds: &[&StoredRound]) -> Result<Vec<RoundData>> {
        layout::check_id(run_id)?;
        let mut by_point: BTreeMap<&str, BTreeMap<Key, RoundData>> = BTreeMap::new();
        for round in rounds {
            let point = by_point.entry(&round.point).or_default();
            point.insert(Key::of_round(round), RoundData::default());
        }
        for (point, wanted) in &mut by_point {
            self.read_requests(run_id, point, wanted)?;
            self.read_gaps(run_id, point, wanted)?;
        }
        let data = rounds.iter().map(|round| {
            by_point
                .get_mut(round.point.as_str())
                .and_then(|point| point.remove(&Key::of_round(round)))
                .unwrap_or_default()
        });
        Ok(data.collect())
    }

    fn read_requests(
        &self,
        run_id: &str,
        point: &str,
        wanted: &mut BTreeMap<Key, RoundData>,
    ) -> Result<()> {
        let mut lines = Lines::open(&self.layout.requests(run_id, point))?;
        let mut kept = 0;
        while let Some(record) = next::<RequestRecord>(&mut lines, wanted)? {
            if let Some(data) = wanted.get_mut(&Key::of_record(&record)) {
                kept += 1;
                if kept > MOST_RECORDS {
                    return Err(lines.broken("more requests than can be read at once"));
                }
                data.records.push(record);
            }
        }
        Ok(())
    }

    fn read_gaps(
        &self,
        run_id: &str,
        point: &str,
        wanted: &mut BTreeMap<Key, RoundData>,
    ) -> Result<()> {
        let mut lines = Lines::open(&self.layout.gaps(run_id, point))?;
        while let Some(line) = next::<GapLine>(&mut lines, wanted)? {
            let Some(data) = wanted.get_mut(&line.key()) else { continue };
            let gaps = GapHistogram::from_base64(&line.base64)
                .map_err(|error| lines.broken(&error).with_cause(error))?;
            let known = match line.kind {
                GapKind::Itl => &mut data.itl,
                GapKind::Icl => &mut data.icl,
            };
            // Merging walks every bucket, and nearly always there is one line to a round.
            if known.count() == 0 { *known = gaps } else { known.merge(&gaps) }
        }
        Ok(())
    }
}

/// The next line that can be read. A broken last one that a kill cut short becomes a note.
fn next<T: serde::de::DeserializeOwned>(
    lines: &mut Lines,
    wanted: &mut BTreeMap<Key, RoundData>,
) -> Result<Option<T>> {
    while let Some(line) = lines.next_line()? {
        if line.text.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line.text) {
            Ok(value) => return Ok(Some(value)),
            Err(_) if line.end == LineEnd::Cut => {
                let note = lines.broken("the last line was cut by a kill and is left out");
                for data in wanted.values_mut() {
                    data.notes.push(note.to_string());
                }
            }
            Err(error) => return Err(lines.broken(&error).with_cause(error)),
        }
    }
    Ok(None)
}

/// Appends what a round measured, and waits for the disk.
pub(super) fn append(
    store: &Store,
    run_id: &str,
    round: &StoredRound,
    records: &[RequestRecord],
    itl: &GapHistogram,
    icl: &GapHistogram,
) -> Result<()> {
    let requests = store.layout.requests(run_id, &round.point);
    files::append_lines(&requests, records.iter().map(to_line))?;
    let gaps = store.layout.gaps(run_id, &round.point);
    let lines = [(GapKind::Itl, itl), (GapKind::Icl, icl)];
    files::append_lines(&gaps, lines.iter().map(|(kind, gaps)| gap_line(round, *kind, gaps)))
}

fn gap_line(round: &StoredRound, kind: GapKind, gaps: &GapHistogram) -> Result<String> {
    to_line(&GapLine {
        side: round.side,
        block: round.block,
        start: round.start,
        round: round.round,
        phase: round.phase,
        kind,
        count: gaps.count(),
        base64: gaps.to_base64()?,
    })
}

fn to_line<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::store("cannot put a line into JSON").with_cause(error))
}

impl Key {
    fn of_round(round: &StoredRound) -> Self {
        Self {
            phase: round.phase,
            side: round.side,
            block: round.block,
            start: round.start,
            round: round.round,
        }
    }

    fn of_record(record: &RequestRecord) -> Self {
        Self {
            phase: record.phase,
            side: record.side,
            block: record.block,
            start: record.start,
            round: record.round,
        }
    }
}

impl GapLine {
    fn key(&self) -> Key {
        Key {
            phase: self.phase,
            side: self.side,
            block: self.block,
            start: self.start,
            round: self.round,
        }
    }
}
