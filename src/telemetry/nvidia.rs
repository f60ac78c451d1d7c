//! NVIDIA GPUs, by `nvidia-smi` where there is one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::TelemetrySource;
use super::command::output_within;
use crate::clock::Clock;

/// How long `nvidia-smi` may take. It answers in about 50 ms; a driver in trouble hangs for minutes.
const QUERY_LIMIT: Duration = Duration::from_secs(5);

const FIELDS: &str = "--query-gpu=name,driver_version,utilization.gpu,memory.used,memory.total,\
                      clocks.sm,power.draw,temperature.gpu";

/// One GPU as it is now. A field that the driver does not tell is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gpu {
    /// `NVIDIA H200`.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// Share of time with a kernel running, percent.
    pub utilization_percent: Option<f64>,
    /// Memory in use, MiB.
    pub memory_used_mib: Option<f64>,
    /// Memory in all, MiB.
    pub memory_total_mib: Option<f64>,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<f64>,
    /// Power drawn, W.
    pub power_w: Option<f64>,
    /// Temperature, °C.
    pub temperature_c: Option<f64>,
}

/// The GPUs of this machine; `None` if there is no `nvidia-smi`, or it fails or hangs.
/// Blocks up to 5 s.
#[must_use]
pub fn query() -> Option<Vec<Gpu>> {
    let text =
        output_within("nvidia-smi", &[FIELDS, "--format=csv,noheader,nounits"], QUERY_LIMIT)?;
    let gpus = parse(&text);
    (!gpus.is_empty()).then_some(gpus)
}

/// Reads the answer of `nvidia-smi --format=csv,noheader,nounits`; lines of another shape are
/// passed over.
#[must_use]
pub fn parse(csv: &str) -> Vec<Gpu> {
    csv.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Gpu> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let &[name, driver, utilization, used, total, clock, power, temperature] = fields.as_slice()
    else {
        return None;
    };
    // `[N/A]`, `[Not Supported]`
    let number = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite());
    Some(Gpu {
        name: name.to_owned(),
        driver: driver.to_owned(),
        utilization_percent: number(utilization),
        memory_used_mib: number(used),
        memory_total_mib: number(total),
        clock_mhz: number(clock),
        power_w: number(power),
        temperature_c: number(temperature),
    })
}

/// Between two samples, ms.
const PERIOD_MS: &str = "500";
/// A reading that is older is none: the program has stalled or ended.
const FRESH_NS: u64 = 5_000_000_000;
/// The longest line that is read, bytes.
const LONGEST_LINE: u64 = 4096;

/// Samples of GPUs: utilisation, clock and temperature as means, memory and power as sums.
///
/// One `nvidia-smi` runs as long as this does: starting one for every sample costs 25 ms of CPU each,
/// which shows in the tail of ITL where client and sampler share a core.
#[derive(Debug)]
pub struct NvidiaSource {
    clock: Clock,
    latest: Arc<Mutex<Readings>>,
    child: Option<Child>,
}

/// Each GPU's newest reading and its time in ns, by its number.
type Readings = BTreeMap<u32, (u64, Gpu)>;

impl NvidiaSource {
    /// Begins to sample the GPUs of this machine, or those that `devices` names as
    /// `CUDA_VISIBLE_DEVICES` does. Falls silent where there is none.
    #[must_use]
    pub fn start(devices: Option<&str>) -> Self {
        Self::by("nvidia-smi", devices)
    }

    fn by(program: &str, devices: Option<&str>) -> Self {
        let fields = FIELDS.replacen('=', "=index,", 1);
        let mut command = Command::new(program);
        command.args([fields.as_str(), "--format=csv,noheader,nounits", "-lms", PERIOD_MS]);
        command.args(devices.iter().flat_map(|devices| ["-i", devices]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut source =
            Self { clock: Clock::start(), latest: Arc::default(), child: command.spawn().ok() };
        let stdout = source.child.as_mut().and_then(|child| child.stdout.take());
        if let Some(stdout) = stdout {
            let (latest, clock) = (Arc::clone(&source.latest), source.clock);
            // It ends when the pipe closes, with the program.
            std::thread::spawn(move || read(stdout, clock, &latest));
        }
        source
    }
}

/// Notes every line until there are no more.
fn read(stdout: ChildStdout, clock: Clock, latest: &Mutex<Readings>) {
    let mut lines = BufReader::new(stdout);
    let mut text = String::new();
    while matches!(lines.by_ref().take(LONGEST_LINE).read_line(&mut text), Ok(1..)) {
        let reading = text.trim_end().split_once(',');
        let number =
            reading.and_then(|(number, rest)| Some((number.trim().parse().ok()?, line(rest)?)));
        if let Some((number, gpu)) = number {
            let now = clock.now_ns();
            latest.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (now, gpu));
        }
        text.clear();
    }
}

impl TelemetrySource for NvidiaSource {
    fn sample(&mut self) -> BTreeMap<String, f64> {
        let now_ns = self.clock.now_ns();
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = latest.values().filter(|(at, _)| now_ns.saturating_sub(*at) < FRESH_NS);
        let gpus: Vec<Gpu> = fresh.map(|(_, gpu)| gpu.clone()).collect();
        fold(&gpus)
    }
}

impl Drop for NvidiaSource {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // no effect where it has ended
            let _ = child.wait();
        }
    }
}

fn fold(gpus: &[Gpu]) -> BTreeMap<String, f64> {
    let mut sample = BTreeMap::new();
    let mut put = |name: &str, values: Vec<f64>, mean: bool| {
        if !values.is_empty() {
            #[allow(clippy::cast_precision_loss)] // a handful of GPUs
            let divisor = if mean { values.len() as f64 } else { 1.0 };
            sample.insert(name.to_owned(), values.iter().sum::<f64>() / divisor);
        }
    };
    let all = |field: fn(&Gpu) -> Option<f64>| gpus.iter().filter_map(field).collect::<Vec<_>>();
    put("gpu_utilization_percent", all(|g| g.utilization_percent), true);
    put("gpu_memory_used_mib", all(|g| g.memory_used_mib), false);
    put("gpu_clock_mhz", all(|g| g.clock_mhz), true);
    put("gpu_power_w", all(|g| g.power_w), false);
    put("gpu_temperature_c", all(|g| g.temperature_c), true);
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "NVIDIA H200, 570.86.15, 97, 120000, 143771, 1980, 612.34, 61\n\
                       NVIDIA H200, 570.86.15, 3, 4, 143771, 345, [N/A], 30\n";

    #[test]
    fn reads_two_gpus_and_leaves_out_what_is_not_told() {
        let gpus = parse(TWO);
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].name, "NVIDIA H200");
        assert_eq!(gpus[0].driver, "570.86.15");
        assert_eq!(gpus[0].power_w, Some(612.34));
        assert_eq!(gpus[1].power_w, None);
        let sample = fold(&gpus);
        assert_eq!(sample["gpu_utilization_percent"], 50.0);
        assert_eq!(sample["gpu_memory_used_mib"], 120_004.0);
        assert_eq!(sample["gpu_power_w"], 612.34);
    }

    /// A program that notes its arguments and its number of starts, and answers as `nvidia-smi -lms` does.
    const LOOP: &str = r#"#!/bin/sh
echo "$@" >> "$0.started"
while :; do
    echo "0, NVIDIA H200, 570.86.15, 97, 120000, 143771, 1980, 612.34, 61"
    echo "1, NVIDIA H200, 570.86.15, 3, 4, 143771, 345, [N/A], 30"
    sleep 0.05
done
"#;

    #[test]
    #[allow(clippy::disallowed_methods)] // a program, which the store has no way to write
    fn one_program_gives_all_samples_and_ends_with_the_source() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("smi");
        std::fs::write(&path, LOOP).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begin = || NvidiaSource::by(path.to_str().unwrap(), Some("0,1"));
        let mut source = begin();
        // A process forked meanwhile by another test may still hold the file open for writing.
        while source.child.is_none() {
            std::thread::sleep(Duration::from_millis(10));
            source = begin();
        }
        let id = source.child.as_ref().map(Child::id).unwrap();
        let mut sample = source.sample();
        while sample.len() < 5 || sample["gpu_memory_used_mib"] < 120_004.0 {
            std::thread::sleep(Duration::from_millis(10));
            sample = source.sample();
        }
        assert_eq!(sample["gpu_utilization_percent"], 50.0);
        for _ in 0..3 {
            assert_eq!(source.sample()["gpu_power_w"], 612.34);
        }
        drop(source);
        let started = std::fs::read_to_string(folder.path().join("smi.started")).unwrap();
        assert_eq!(started.lines().count(), 1, "{started}");
        assert!(started.contains("--query-gpu=index,name,"), "{started}");
        assert!(started.trim_end().ends_with("-lms 500 -i 0,1"), "{started}");
        let gone = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id.cast_signed()), None);
        assert!(gone.is_err(), "the program has ended");
    }

    #[test]
    fn without_the_program_there_is_silence() {
        assert!(NvidiaSource::by("/no/such/program", None).sample().is_empty());
    }

    #[test]
    fn an_error_text_is_no_gpu() {
        assert_eq!(parse("NVIDIA-SMI has failed because it couldn't communicate, with"), vec![]);
    }
}
