//! Lengths on a command line: `512`, `256-768`, and the spread that `--random-range-ratio` gives both.

use crate::error::{Error, Result};
use crate::scenario::Length;

/// A length as a flag writes it: tokens, or `LEAST-MOST` with both ends drawn.
///
/// # Errors
/// Where it is neither, or no such length can be drawn.
pub(super) fn length(text: &str) -> Result<Length, String> {
    let tokens = |word: &str| {
        word.parse().map_err(|_| format!("`{text}` is not a number of tokens or a range `256-768`"))
    };
    let length = match text.split_once('-') {
        Some((min, max)) => Length::Range { min: tokens(min)?, max: tokens(max)? },
        None => Length::Fixed(tokens(text)?),
    };
    length.check().map(|()| length).map_err(|error| error.to_string())
}

/// A ratio from 0 to below 1.
pub(super) fn range_ratio(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ratio| (0.0..1.0).contains(ratio))
        .ok_or_else(|| format!("`{text}` is not a ratio from 0 to below 1"))
}

/// A length spread evenly over tokens·(1 − ratio) to tokens·(1 + ratio), as vLLM's client spreads it.
///
/// # Errors
/// Where the length is a range already.
pub(super) fn spread(length: Length, ratio: Option<f64>) -> Result<Length> {
    match (length, ratio) {
        (length, None) => Ok(length),
        (Length::Fixed(tokens), Some(ratio)) => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
            let whole = |tokens: f64| (tokens as u32).max(1);
            let tokens = f64::from(tokens);
            let min = whole((tokens * (1.0 - ratio)).floor());
            Ok(Length::Range { min, max: whole((tokens * (1.0 + ratio)).ceil()) })
        }
        (length, Some(_)) => {
            Err(Error::usage(format!("`--random-range-ratio` beside the range `{length}`"))
                .with_hint("give the lengths as ranges, or as numbers with a ratio"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_takes_tokens_and_ranges() {
        assert_eq!(length("512"), Ok(Length::Fixed(512)));
        assert_eq!(length("256-768"), Ok(Length::Range { min: 256, max: 768 }));
        for bad in ["", "0", "-5", "5-", "768-256", "a-b", "5-6-7", "1e3", "99999999999"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ratio_spreads_as_vllms_client_does() {
        // vLLM 0.11, `RandomDataset.get_sampling_params`: floor and ceil of the ends.
        let spread = |tokens, ratio| spread(Length::Fixed(tokens), Some(ratio)).unwrap();
        assert_eq!(spread(512, 0.25), Length::Range { min: 384, max: 640 });
        assert_eq!(spread(5, 0.5), Length::Range { min: 2, max: 8 });
        assert_eq!(spread(1, 0.9), Length::Range { min: 1, max: 2 });
        assert!(super::spread(Length::Range { min: 1, max: 2 }, Some(0.1)).is_err());
        for bad in ["1", "-0.1", "nan", "", "inf"] {
            assert!(range_ratio(bad).is_err(), "{bad}");
        }
    }
}
