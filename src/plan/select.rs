//! Selecting load points by filters on their ids.

use regex_lite::Regex;

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
            let expressions: Vec<Regex> =
                filters.iter().map(|filter| expression(filter)).collect::<Result<_>>()?;
            Box::new(move |id| expressions.iter().any(|expression| expression.is_match(id)))
        }
    };
    Ok(points.into_iter().filter(|point| kept(&point.id())).collect())
}

fn expression(filter: &str) -> Result<Regex> {
    Regex::new(filter).map_err(|error| {
        Error::usage(format!("`{filter}` is not a filter"))
            .with_cause(error)
            .with_hint("a filter is a regular expression on ids: `chat/short/c16`")
    })
}
