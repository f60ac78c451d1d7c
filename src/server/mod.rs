//! A server's life: launched, ready, watched, stopped whole.

mod command;
mod guard;
mod launcher;
mod limits;
mod log;
mod log_settings;
mod port;
mod process_group;
mod ready;
mod redact;
mod running;
mod secrets;

pub use launcher::Launcher;
#[cfg(test)]
pub use limits::Limits;
pub use redact::{redact_argument, redact_command};
pub use running::Running;

pub(crate) use port::is_here;
