//! The machine: which core, how much CPU, how much memory.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

/// Which of the two a thread belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// Pins the calling thread, and those it starts, to the core of its role. With one core it does
/// nothing.
pub(crate) fn pin(role: Role) {
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    let this = Pid::from_raw(0);
    let allowed = ALLOWED.get_or_init(|| {
        let set = sched_getaffinity(this).unwrap_or_default();
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).take(2).collect()
    });
    let [first, second] = allowed[..] else { return };
    let mut set = CpuSet::new();
    let core = if role == Role::Client { first } else { second };
    // Where it is refused the figures are merely noisier.
    if set.set(core).is_ok() {
        let _ = sched_setaffinity(this, &set);
    }
}

pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name").map(str::to_owned))
        .map_or_else(String::new, |rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    format!("{cores} cores, {model}")
}

/// CPU time of the children that have ended, ns.
pub(crate) fn children_cpu_ns() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| {
        let ns = usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds();
        u64::try_from(ns).unwrap_or(0)
    })
}

/// A line of `/proc/self/status` such as `VmRSS` in bytes; 0 where the system has none.
pub(crate) fn memory_bytes(line: &str) -> f64 {
    let status = read("/proc/self/status");
    let found = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

#[allow(clippy::disallowed_methods)] // the system's own files, not ours
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
