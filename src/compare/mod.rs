//! Judging: base against new, by the method of the statistics page. Pure.

#[doc(hidden)]
pub mod acceptance;
pub mod cell;
pub mod decide;
pub mod decision;
pub mod failures;
pub mod looks;
mod sample;
pub mod verdict;
#[doc(hidden)]
pub mod world;
