//! The client machine's own limits: descriptors and ports.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::PreflightReport;
use crate::record::{FindingCode, Severity};
use crate::store::files;

/// Descriptors that the client needs beside its connections: files, pipes, the runtime, `/metrics`.
const OWN_DESCRIPTORS: u64 = 64;

/// Whose ends of the connections this process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The client's.
    Client,
    /// Those of an embedded server too.
    Both,
}

impl Ends {
    /// Descriptors that this many connections take.
    fn descriptors(self, connections: u32) -> u64 {
        let each = if self == Self::Both { 2 } else { 1 };
        u64::from(connections) * each + OWN_DESCRIPTORS
    }
}

/// Checks that as many connections as `concurrency` can be open at once; raises the soft limit where
/// it is the soft limit that stands in the way.
pub(super) fn check(concurrency: u32, ends: Ends, report: &mut PreflightReport) {
    check_descriptors(ends.descriptors(concurrency), report);
    let range = files::read_text(Path::new("/proc/sys/net/ipv4/ip_local_port_range")).ok();
    if let Some(ports) = range.as_deref().and_then(port_count) {
        check_ports(concurrency, ports, report);
    }
}

fn check_descriptors(needed: u64, report: &mut PreflightReport) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= needed {
        return;
    }
    let wanted = needed.min(hard);
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok();
    if raised && wanted >= needed {
        return;
    }
    report.find(
        FindingCode::Descriptors,
        Severity::Fatal,
        format!("{needed} descriptors are needed and this process may open {}", soft.max(wanted)),
        "raise the limit (`ulimit -n`, `LimitNOFILE=`), or lower the concurrency",
    );
}

fn check_ports(concurrency: u32, ports: u32, report: &mut PreflightReport) {
    if concurrency < ports {
        return;
    }
    report.find(
        FindingCode::Ports,
        Severity::Fatal,
        format!(
            "{concurrency} connections to one address are needed and this machine has {ports} ports"
        ),
        "widen `net.ipv4.ip_local_port_range`, or lower the concurrency",
    );
}

/// The ports of `ip_local_port_range`: `32768 60999`, both ends included (ip(7)).
fn port_count(range: &str) -> Option<u32> {
    let mut ends = range.split_whitespace().map(str::parse::<u32>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (high >= low).then(|| high - low + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_with_both_ends() {
        assert_eq!(port_count("32768\t60999\n"), Some(28232));
        assert_eq!(port_count("5 4"), None);
        assert_eq!(port_count("x"), None);
    }

    #[test]
    fn too_few_ports_are_fatal_and_enough_are_not() {
        let mut report = PreflightReport::default();
        check_ports(100, 28232, &mut report);
        assert!(report.fatal().is_none());
        check_ports(30000, 28232, &mut report);
        assert!(report.fatal().unwrap().to_string().contains("28232 ports"));
    }

    #[test]
    fn an_embedded_server_takes_a_descriptor_for_its_end_too() {
        assert_eq!(Ends::Client.descriptors(100), 100 + OWN_DESCRIPTORS);
        assert_eq!(Ends::Both.descriptors(100), 200 + OWN_DESCRIPTORS);
        assert_eq!(Ends::Both.descriptors(u32::MAX), 2 * u64::from(u32::MAX) + OWN_DESCRIPTORS);
    }

    #[test]
    fn descriptors_beyond_the_hard_limit_are_fatal() {
        let mut report = PreflightReport::default();
        check_descriptors(8, &mut report);
        assert!(report.fatal().is_none());
        if getrlimit(Resource::RLIMIT_NOFILE).unwrap().1 < u64::MAX {
            check_descriptors(u64::MAX, &mut report);
            assert!(report.fatal().unwrap().render().contains("ulimit -n"));
        }
    }
}
