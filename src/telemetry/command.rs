//! A bounded command: another program's answer within a limit, or none.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Most bytes kept of an answer: hundreds of GPUs, or a revision.
const OUTPUT_LIMIT: u64 = 64 * 1024;

/// The standard output of a program that ended well within `limit`; `None` if it is missing,
/// fails, hangs (it is then killed) or speaks no UTF-8. Blocks the thread.
#[must_use]
pub fn output_within(program: &str, arguments: &[&str], limit: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    // The reader ends when the pipe closes; a grandchild that keeps it open costs a thread, not us.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(OUTPUT_LIMIT).read_to_string(&mut text);
        let _ = sender.send(read.is_ok().then_some(text));
    });
    let text = receiver.recv_timeout(limit).ok().flatten();
    let succeeded = text.is_some() && ends_well(&mut child);
    let _ = child.kill(); // no effect where it has ended
    let _ = child.wait();
    text.filter(|_| succeeded)
}

/// Whether a program that has closed its output ends with 0, within a second.
fn ends_well(child: &mut Child) -> bool {
    for _ in 0..100 {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_answer_or_nothing() {
        let limit = Duration::from_secs(10);
        assert_eq!(output_within("echo", &["a b"], limit).as_deref(), Some("a b\n"));
        assert_eq!(output_within("false", &[], limit), None);
        assert_eq!(output_within("no-such-program-here", &[], limit), None);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        assert_eq!(output_within("sleep", &["600"], Duration::from_millis(50)), None);
    }
}
