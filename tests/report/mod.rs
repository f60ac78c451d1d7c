//! What a person sees of a report.

mod fixture;
mod look;
mod pages;
mod texts;
