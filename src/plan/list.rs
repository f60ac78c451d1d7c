//! Selecting load points by filters on their ids.

use regex::RegexSet;

use crate::error::{Error, Result};
use crate::scenario::LoadPoint;

/// How a filter matches an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Matching {
    /// A regular expression found anywhere in the id, as criterion's.
    #[default]
    Regex,
    /// The whole id, letter by letter (`--exact`).
    Exact,
}

/// The points whose ids match any of the filters; all where there is no filter.
///
/// # Errors
/// Where a filter is no regular expression.
pub fn select(
    points: Vec<LoadPoint>,
    filters: &[String],
    matching: Matching,
) -> Result<Vec<LoadPoint>> {
    if filters.is_empty() {
        return Ok(points);
    }
    let kept: Box<dyn Fn(&str) -> bool> = match matching {
        Matching::Exact => Box::new(|id| filters.iter().any(|filter| filter == id)),
        Matching::Regex => {
            let set = RegexSet::new(filters).map_err(|error| {
                Error::usage(format!("`{}` is not a filter", filters.join("` `")))
                    .with_cause(error)
                    .with_hint("a filter is a regular expression on ids: `chat/short/c16`")
            })?;
            Box::new(move |id| set.is_match(id))
        }
    };
    Ok(points.into_iter().filter(|point| kept(&point.id())).collect())
}
