//! The exit codes. They stand here and in the README alone.

use crate::error::ErrorKind;

/// Nothing stands against it.
pub const FINE: u8 = 0;
/// A regression, or a required limit missed.
pub const REGRESSION: u8 = 1;
/// A usage or scenario error, or a baseline that does not exist.
pub const USAGE: u8 = 2;
/// Preflight failed, or the server is unusable.
pub const SERVER: u8 = 3;
/// A gated cell is invalid, incomparable or implausible, nothing was measured, or the client ran out of
/// descriptors or ports.
pub const INVALID: u8 = 4;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

/// The exit code of an error.
#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage | ErrorKind::Scenario | ErrorKind::NotFound | ErrorKind::Store => USAGE,
        ErrorKind::Preflight | ErrorKind::Server | ErrorKind::Client => SERVER,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}
