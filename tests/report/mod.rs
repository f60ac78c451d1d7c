//! What a person sees of a report.
#![allow(clippy::unwrap_used, clippy::expect_used)] // fixtures and helpers, outside of #[test]

mod fixture;
mod look;
mod pages;
mod real;
mod texts;
