//! NVIDIA GPUs, by `nvidia-smi` where there is one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::TelemetrySource;
use super::command::output_within;

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

/// Silent so often in a row, `nvidia-smi` is not asked again: one that hangs costs 5 s each time.
const MOST_SILENCES: u32 = 3;

/// Samples of all GPUs: utilisation, clock and temperature as means, memory and power as sums.
#[derive(Debug, Default)]
pub struct NvidiaSource {
    /// In a row.
    silences: u32,
}

impl NvidiaSource {
    /// A source that falls silent where there is no GPU.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl TelemetrySource for NvidiaSource {
    fn sample(&mut self) -> BTreeMap<String, f64> {
        if self.silences >= MOST_SILENCES {
            return BTreeMap::new();
        }
        let gpus = query();
        self.silences = if gpus.is_some() { 0 } else { self.silences + 1 };
        gpus.map(|gpus| fold(&gpus)).unwrap_or_default()
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

    #[test]
    fn an_error_text_is_no_gpu() {
        assert_eq!(parse("NVIDIA-SMI has failed because it couldn't communicate, with"), vec![]);
    }
}
