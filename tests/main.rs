//! The one integration-test binary: a module per subject.

// The policy is for what users run: a test may panic, read its own files and name its own types.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::large_futures
)]

mod architecture;
mod cli;
mod exported;
mod imported;
mod json_schema;
mod killed;
mod package;
mod resumed;
mod sentences;
