//! The surface: flags and commands.

pub(crate) mod args;
