//! A guard: a shell that ends a launched server when this program is gone, however it ended.

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Reads one line; at the end of the pipe, which the kernel closes with this program, ends the group
/// named by `$0`: asks, waits 10 s, then kills.
const SCRIPT: &str = "read -r line && exit 0
kill -s TERM -- \"-$0\" 2>/dev/null || exit 0
n=0
while [ $n -lt 100 ] && kill -s 0 -- \"-$0\" 2>/dev/null; do sleep 0.1; n=$((n + 1)); done
kill -s KILL -- \"-$0\" 2>/dev/null";

/// Watches over a process group. Dropped, it leaves the group alone and ends.
///
/// It needs no parent-death signal, which only Linux has, and which only the direct child gets.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    /// A guard of the group that `leader` leads; `None` if there is no shell: the server then outlives
    /// a SIGKILL of this program.
    pub(super) fn of(leader: i32) -> Option<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, &leader.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C and a hang-up go to this program's group.
            .process_group(0)
            .spawn();
        shell.ok().map(|shell| Self { shell })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take()
            && pipe.write_all(b"done\n").is_err()
        {
            return; // it has ended
        }
        let _ = self.shell.wait();
    }
}
