//! What a person sees of a report.
#![allow(clippy::unwrap_used, clippy::expect_used)] // fixtures and helpers, outside of #[test]

mod browser;
mod fixture;
mod pages;
mod real;
mod texts;
