//! The binary: a thin call of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    inferometer::internal_use::main()
}
