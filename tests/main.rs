//! The one integration-test binary: a module per subject.

mod json_schema;
mod kept;
mod store;
mod summary;
