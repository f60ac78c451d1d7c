//! A server's life: launched, ready, watched, stopped whole.

mod command;
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

pub use command::CommandLine;
pub use launcher::Launcher;
pub use limits::Limits;
pub use log_settings::engine_settings;
pub use redact::{redact_argument, redact_command};
pub use running::Running;

pub(crate) use port::is_here;
