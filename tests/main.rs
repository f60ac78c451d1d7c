//! The one integration-test binary: a module per subject.

mod declare;
mod plan;
