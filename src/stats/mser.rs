//! MSER-5: how much of the beginning of a series is not yet steady.

use super::moments::mean;

/// Values per batch: the 5 of MSER-5.
const BATCH: usize = 5;

/// Where a series becomes steady.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truncation {
    /// Values to leave out at the start.
    pub values: usize,
    /// The smallest marginal standard error, squared, in the square of the values' unit.
    pub mser: f64,
    /// Whole batches of five values.
    pub batches: usize,
    /// How many batches could at most be left out.
    pub searched: usize,
    /// Whether a steady part was found before the search ended.
    pub end: SearchEnd,
}

/// How the search for the steady part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchEnd {
    /// Inside the searched half: the rest is steady.
    Inside,
    /// At its limit: the series is not steady.
    AtLimit,
}

/// The truncation that minimises the standard error of the rest, over at most half of the series
/// (White, Simulation 69, 1997; batches of 5: White, Cobb and Spratt, WSC 2000). `None` of fewer
/// than two batches.
#[must_use]
pub fn mser5(values: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    if batches.len() < 2 {
        return None;
    }
    let searched = batches.len() / 2;
    let mut best = (0, f64::INFINITY);
    for cut in 0..=searched {
        let rest = &batches[cut..];
        let centre = mean(rest)?;
        let squares: f64 = rest.iter().map(|b| (b - centre).powi(2)).sum();
        let mser = squares / (rest.len() as f64).powi(2);
        if mser < best.1 {
            best = (cut, mser);
        }
    }
    let end = if best.0 == searched { SearchEnd::AtLimit } else { SearchEnd::Inside };
    Some(Truncation { values: best.0 * BATCH, mser: best.1, batches: batches.len(), searched, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_series_is_steady_from_its_start() {
        let cut = mser5(&[2.0; 40]).unwrap();
        assert_eq!((cut.values, cut.end), (0, SearchEnd::Inside));
        assert_eq!(mser5(&[1.0; 9]), None);
    }
}
