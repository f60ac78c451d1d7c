//! The client's machine and code: facts stored with a run. No secret is among them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::store::files;
use crate::telemetry::command::output_within;
use crate::telemetry::nvidia;

/// The fact that names this machine's GPUs; absent where it has none.
pub const GPU: &str = "gpu";

/// How long `git` and `uname` may take: a repository on a dead network drive must not hold a run.
const COMMAND_LIMIT: Duration = Duration::from_secs(2);

/// Collects the facts: name → value. A fact that this machine does not tell is absent. Blocks up to
/// some seconds where programs hang.
#[must_use]
pub fn collect() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    put("client_version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    put("os", Some(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)));
    put("hostname", read("/proc/sys/kernel/hostname").or_else(|| command("hostname", &[])));
    put("kernel", read("/proc/sys/kernel/osrelease").or_else(|| command("uname", &["-r"])));
    put("cpu_model", cpu_model());
    let cores = std::thread::available_parallelism().ok();
    put("cpu_cores", cores.map(|cores| cores.to_string()));
    put("memory_mib", read("/proc/meminfo").as_deref().and_then(memory_mib));
    put("container", container().map(str::to_owned));
    put("git_revision", git_revision());
    if let Some(gpus) = nvidia::query() {
        let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        put(GPU, Some(summary(&names)));
        put("gpu_driver", gpus.first().map(|gpu| gpu.driver.clone()));
    }
    facts
}

fn read(path: &str) -> Option<String> {
    files::read_text(Path::new(path)).ok().map(|text| text.trim().to_owned())
}

fn command(program: &str, arguments: &[&str]) -> Option<String> {
    output_within(program, arguments, COMMAND_LIMIT).map(|text| text.trim().to_owned())
}

fn cpu_model() -> Option<String> {
    read("/proc/cpuinfo")
        .as_deref()
        .and_then(model_name)
        .or_else(|| command("sysctl", &["-n", "machdep.cpu.brand_string"]))
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_mib(meminfo: &str) -> Option<String> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some((kib / 1024).to_string())
}

/// A hint that we run in a container, whose limits and neighbours differ from the host's.
fn container() -> Option<&'static str> {
    if Path::new("/.dockerenv").exists() {
        Some("docker")
    } else if Path::new("/run/.containerenv").exists() {
        Some("podman")
    } else if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        Some("kubernetes")
    } else {
        None
    }
}

/// The revision of the working directory, with `-dirty` where tracked files differ from it.
fn git_revision() -> Option<String> {
    let revision = command("git", &["rev-parse", "HEAD"])?;
    let status = command("git", &["status", "--porcelain", "--untracked-files=no"]);
    Some(if status.is_some_and(|s| !s.is_empty()) { format!("{revision}-dirty") } else { revision })
}

/// `2 × NVIDIA H200`, or the names one by one where they differ.
fn summary(names: &[&str]) -> String {
    match names {
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|name| name == first) => {
            format!("{} × {first}", names.len())
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernel_s_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nmodel name\t: other\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("Some CPU @ 2.0GHz"));
        assert_eq!(memory_mib("MemTotal:       8388608 kB\n").as_deref(), Some("8192"));
        assert_eq!(memory_mib("MemFree: 1 kB"), None);
    }

    #[test]
    fn equal_gpus_are_counted() {
        assert_eq!(summary(&["A", "A"]), "2 × A");
        assert_eq!(summary(&["A"]), "A");
        assert_eq!(summary(&["A", "B"]), "A, B");
    }

    #[test]
    fn always_tells_the_client_and_its_cores() {
        let facts = collect();
        assert_eq!(facts["client_version"], env!("CARGO_PKG_VERSION"));
        assert!(facts["cpu_cores"].parse::<u32>().unwrap() >= 1);
        assert!(facts.values().all(|value| !value.is_empty()));
    }
}
