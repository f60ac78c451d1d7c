//! A source location: where in the user's code or file something was declared.

use std::fmt;
use std::panic::Location;

/// Where something was declared, for error messages.
///
/// It is no part of the value: any two places are equal, so that the same scenario declared by
/// builder, macro and TOML compares equal.
#[derive(Clone, Default)]
pub struct Place(Option<String>);

impl Place {
    /// The place of the caller: file, line and column.
    #[must_use]
    #[track_caller]
    pub fn caller() -> Self {
        let location = Location::caller();
        Self(Some(format!("{}:{}:{}", location.file(), location.line(), location.column())))
    }

    /// A place told in words: `scenarios.toml:12`.
    pub fn named(place: impl Into<String>) -> Self {
        Self(Some(place.into()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("an unknown place"))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
