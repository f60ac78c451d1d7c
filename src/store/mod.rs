//! store

pub mod files;
