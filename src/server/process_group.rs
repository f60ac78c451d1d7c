//! A process group: a server with all its workers, started, watched and ended whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::command::CommandLine;
use super::guard::Guard;
use crate::error::{Error, Result};
use crate::store::files;

/// How often a group is looked at while it ends.
const POLL: Duration = Duration::from_millis(50);

/// How long the kernel gets to end what was killed. GPU workers in a driver call take seconds.
const KILL_LIMIT: Duration = Duration::from_secs(15);

/// How long a drop may block for the leader's end.
const DROP_POLLS: u32 = 100;

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Clock ticks since boot: with the pid, this names one process for good.
    start_ticks: u64,
    ended: bool,
}

/// A child that leads a group of its own. Dropped, it is killed with all its group.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    status: Option<ExitStatus>,
    /// Every process seen to belong to us, with its start: workers that left the group too.
    known: BTreeMap<i32, u64>,
    released: bool,
    /// Ends the group where this program is killed.
    _guard: Option<Guard>,
}

impl ProcessGroup {
    /// Starts a command in a group of its own, its output appended to `log`.
    pub(super) fn spawn(
        command: &CommandLine,
        environment: &BTreeMap<String, String>,
        log: File,
    ) -> Result<Self> {
        let (program, arguments) = command
            .argv
            .split_first()
            .ok_or_else(|| Error::usage("the server command names no program"))?;
        let failed = |cause: std::io::Error| {
            let hint = match cause.kind() {
                std::io::ErrorKind::NotFound => "is it installed, and on the PATH?",
                std::io::ErrorKind::PermissionDenied => "is it executable?",
                _ => "try the command in a shell",
            };
            Error::server(format!("cannot launch `{program}`")).with_cause(cause).with_hint(hint)
        };
        let child = Command::new(program)
            .args(arguments)
            .envs(environment)
            .envs(&command.environment)
            .stdin(Stdio::null())
            .stderr(log.try_clone().map_err(failed)?)
            .stdout(log)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let leader = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        Ok(Self {
            child,
            leader,
            status: None,
            known: BTreeMap::new(),
            released: false,
            _guard: Guard::of(leader.as_raw()),
        })
    }

    /// The leader's pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the leader ended; none while it lives.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// The living processes of the group, and those that came from it: pids.
    pub(super) fn members(&mut self) -> Vec<i32> {
        let Some(table) = process_table() else {
            // No `/proc`: the kernel reports at least whether anybody is left.
            let left = killpg(self.leader, None).is_ok();
            return if left { vec![self.leader.as_raw()] } else { Vec::new() };
        };
        let family = family(&table, self.leader.as_raw(), &self.known);
        self.known = family.iter().map(|p| (p.pid, p.start_ticks)).collect();
        family.iter().filter(|p| !p.ended).map(|p| p.pid).collect()
    }

    /// Leaves the group alone from now on: what a hook has started is not ours.
    pub(super) fn release(mut self) {
        self.released = true;
    }

    /// Ends the group: asks, waits `grace`, then kills, and makes sure that nobody is left.
    pub(super) async fn stop(mut self, grace: Duration) -> Result<()> {
        self.members();
        self.signal(Signal::SIGTERM);
        if !self.wait_until_empty(grace).await {
            self.signal(Signal::SIGKILL);
            if !self.wait_until_empty(KILL_LIMIT).await {
                let left = self.members();
                self.released = true; // more signals change nothing
                return Err(Error::server(format!("processes {left:?} of the server do not end"))
                    .with_hint("look at them with `ps`; a hung driver keeps them"));
            }
        }
        self.released = true;
        Ok(())
    }

    async fn wait_until_empty(&mut self, limit: Duration) -> bool {
        let wait = async {
            loop {
                self.exit_status(); // reaps the leader
                if self.members().is_empty() {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    fn signal(&mut self, signal: Signal) {
        // A group's number can be given to another only when it is empty.
        let members = self.members();
        if members.is_empty() {
            return;
        }
        let _ = killpg(self.leader, signal);
        for pid in members {
            // Workers that made groups of their own. The leader has had its signal: a second
            // SIGTERM makes some servers give up their orderly end.
            if process(pid).is_some_and(|p| p.group != self.leader.as_raw()) {
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.signal(Signal::SIGKILL);
        for _ in 0..DROP_POLLS {
            if self.exit_status().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The leader's group, its descendants, and what is still alive of those known before.
fn family(table: &[Process], leader: i32, known: &BTreeMap<i32, u64>) -> Vec<Process> {
    let is_known = |p: &Process| known.get(&p.pid) == Some(&p.start_ticks);
    let mut family: Vec<Process> =
        table.iter().filter(|p| p.group == leader || is_known(p)).copied().collect();
    // A tree is at most as deep as the table is long; each pass adds a generation or ends.
    for _ in 0..table.len() {
        let is_child = |p: &&Process| {
            family.iter().any(|q| q.pid == p.parent) && !family.iter().any(|q| q.pid == p.pid)
        };
        let children: Vec<Process> = table.iter().filter(is_child).copied().collect();
        if children.is_empty() {
            break;
        }
        family.extend(children);
    }
    family
}

fn process_table() -> Option<Vec<Process>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let table: Vec<Process> = pids.filter_map(process).collect();
    (!table.is_empty()).then_some(table)
}

fn process(pid: i32) -> Option<Process> {
    let stat = files::read_text(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    parse_stat(&stat)
}

/// `pid (comm) state ppid pgrp …`; comm may hold spaces and brackets (proc_pid_stat(5)).
fn parse_stat(stat: &str) -> Option<Process> {
    let pid = stat.split_whitespace().next()?.parse().ok()?;
    let after = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<&str> = after.split_whitespace().collect();
    Some(Process {
        pid,
        ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pid: i32, parent: i32, group: i32) -> Process {
        Process { pid, parent, group, start_ticks: 7, ended: false }
    }

    #[test]
    fn a_stat_line_with_brackets_in_its_name() {
        let stat = "42 (a) b (c)) S 7 40 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987 1 1";
        let read = parse_stat(stat).unwrap();
        assert_eq!((read.pid, read.parent, read.group), (42, 7, 40));
        assert_eq!((read.start_ticks, read.ended), (987, false));
        assert_eq!(parse_stat("42 (x"), None);
        assert_eq!(parse_stat("42 (x) S 1"), None);
    }

    #[test]
    fn the_family_holds_the_group_its_children_and_the_known() {
        let table = [
            at(1, 0, 1),
            at(10, 1, 10),
            at(11, 10, 10),
            at(12, 11, 12),
            at(13, 12, 12),
            at(20, 1, 20),
            at(30, 1, 30),
        ];
        let known = BTreeMap::from([(20, 7), (30, 6)]);
        let pids: Vec<i32> = family(&table, 10, &known).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [10, 11, 20, 12, 13], "30 is another process with a pid used again");
    }
}
