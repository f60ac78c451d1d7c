//! The wire: what the client says of servers that behave, and of those that do not.

mod captures;
mod failures;
mod script;
mod tokens;
mod transport;
