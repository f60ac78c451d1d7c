//! Test mode of a bench: two requests a load point, as `cargo test --benches` and nextest call it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::run::until_told_to_leave;
use crate::clock::Clock;
use crate::compare::gate;
use crate::drive::{Interrupt, Urgency};
use crate::error::{Error, Result};
use crate::harness::{Detail, Harness};
use crate::plan::ListFormat;
use crate::report::progress::{Event, Reporter};
use crate::report::terminal;
use crate::settings::{BaselineChoice, Settings, Target};
use crate::units;

/// Set to 1, the requests of test mode go to the configured server.
const TEST_URL: &str = "INFEROMETER_TEST_URL";
/// A request of a test that takes longer than this fails, on the simulator.
const SIMULATED_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether a bench that was called without `--bench` is one that cargo built as a bench: examples call
/// [`Harness::from_env`] too, and cargo passes them nothing.
pub(super) fn is_bench(executable: Option<&Path>) -> bool {
    let folder = executable.and_then(Path::parent).and_then(Path::file_name);
    folder != Some(OsStr::new("examples"))
}

/// Whether the requests go to the configured server rather than to the simulator.
pub(super) fn wants_the_server() -> bool {
    std::env::var_os(TEST_URL).is_some_and(|value| value == "1")
}

/// Two requests a load point, nothing else, and no result that outlives the test.
pub(super) fn shrink(settings: &mut Settings, on_server: bool) {
    if !on_server {
        let simulated = Settings::for_simulator("demo");
        settings.target = Target { ..simulated.target };
        settings.model = Some("sim".to_owned());
        settings.skip.preflight = true;
        settings.api_key = None;
        settings.ca_cert = None;
        settings.headers.clear();
        settings.extra_body.clear();
        settings.timeouts = simulated.timeouts;
        settings.timeouts.total = Some(SIMULATED_TIMEOUT);
    }
    settings.against = None;
    settings.num_prompts = Some(1);
    settings.measurement_time = None;
    settings.starts = Some(1);
    settings.rounds = 1;
    settings.looks.clear();
    settings.budget = None;
    settings.search = None;
    settings.resume = None;
    settings.skip.reference = true;
    settings.skip.warm_up = true;
    settings.skip.burn_in = true;
    settings.cool_down = Duration::ZERO;
    settings.baseline = BaselineChoice::default();
}

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let now = jiff::Timestamp::now().as_nanosecond();
        Self(std::env::temp_dir().join(format!("inferometer-test-{}-{now}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's folder for temporary files changes no result.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What became of one load point.
struct Tested {
    point: String,
    /// `None` if it passed.
    failure: Option<String>,
}

/// Collects what became of each load point.
#[derive(Default)]
struct Collector {
    tested: Vec<Tested>,
}

impl Reporter for Collector {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let Event::RoundEnded { point, summary, status, .. } = event else { return Ok(()) };
        let failed = summary.failed;
        let failure = match (failed, summary.completed) {
            (0, 1..) => None,
            (0, 0) => Some(format!("no request was completed {status}")),
            _ => Some(format!("{failed} request failed {status}")),
        };
        let failure = failure.map(|text| text.trim_end().to_owned());
        self.tested.push(Tested { point: (*point).to_owned(), failure });
        Ok(())
    }
}

/// Tests the selected load points and prints what libtest prints; returns the exit code.
pub(super) fn run(mut harness: Harness) -> Result<u8> {
    let clock = Clock::start();
    for scenario in harness.all_groups().iter_mut().flat_map(|group| &mut group.scenarios) {
        scenario.measurement_time_s = None;
        scenario.num_prompts = Some(1);
    }
    let listed = harness.list(ListFormat::Terse)?;
    let quiet = harness.surface().detail == Detail::Quiet;
    let count = listed.lines().count();
    let on_server = !harness.settings().is_simulated();
    if !quiet {
        terminal::print(&headline(count, on_server))?;
    }
    let mut collector = Collector::default();
    if count > 0 {
        let scratch = Scratch::new();
        harness.settings().output_dir.clone_from(&scratch.0);
        let interrupt = Interrupt::new();
        let job = harness.test(&mut collector, &interrupt);
        until_told_to_leave(&interrupt, Urgency::None, job)?;
    }
    let failed = collector.tested.iter().filter(|tested| tested.failure.is_some()).count();
    terminal::print(&results(&collector.tested, quiet, clock.now_ns()))?;
    if failed == 0 && collector.tested.len() == count {
        return Ok(gate::FINE);
    }
    let text = format!("{failed} of {count} load points failed in test mode");
    let hint = if on_server {
        "`inferometer preflight` checks the server".to_owned()
    } else {
        format!("`{TEST_URL}=1` sends the requests to the configured server instead")
    };
    Err(Error::server(text).with_hint(hint))
}

fn headline(count: usize, on_server: bool) -> String {
    let tests = units::plural(count, "test");
    let server = if on_server { "the configured server" } else { "the embedded simulator" };
    format!("\nrunning {tests}: two requests per load point on {server}; `cargo bench` measures\n")
}

fn results(tested: &[Tested], quiet: bool, took_ns: u64) -> String {
    let mut text = String::new();
    for Tested { point, failure } in tested {
        match failure {
            Some(failure) => text.push_str(&format!("test {point} ... FAILED: {failure}\n")),
            None if quiet => {}
            None => text.push_str(&format!("test {point} ... ok\n")),
        }
    }
    let failed = tested.iter().filter(|tested| tested.failure.is_some()).count();
    let passed = tested.len() - failed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let took_s = std::time::Duration::from_nanos(took_ns).as_secs_f64();
    text.push_str(&format!(
        "\ntest result: {word}. {passed} passed; {failed} failed; finished in {took_s:.2} s\n\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ApiKey, Launch};

    #[test]
    fn a_bench_without_its_flag_is_tested_and_an_example_runs() {
        assert!(is_bench(Some(Path::new("target/debug/deps/serving-0123"))));
        assert!(is_bench(None));
        assert!(!is_bench(Some(Path::new("target/debug/examples/vllm"))));
    }

    #[test]
    fn the_configured_server_gets_nothing_unless_it_is_asked_for() {
        let mut settings = Settings::for_url("http://paid.example");
        settings.api_key = Some(ApiKey::new("sk-secret"));
        settings.against = Some(Target::new("http://other.example", Launch::External));
        settings.baseline.save = Some("main".into());
        let mut on_server = settings.clone();
        shrink(&mut settings, false);
        assert!(settings.is_simulated());
        assert_eq!((&settings.api_key, &settings.against), (&None, &None));
        shrink(&mut on_server, true);
        assert_eq!(on_server.target.url, "http://paid.example");
        for settings in [settings, on_server] {
            assert_eq!((settings.num_prompts, settings.starts), (Some(1), Some(1)));
            assert_eq!(settings.baseline, BaselineChoice::default());
        }
    }

    #[test]
    fn the_result_counts_failures() {
        let tested = [
            Tested { point: "chat/short/c1".into(), failure: None },
            Tested { point: "chat/short/c4".into(), failure: Some("1 request failed".into()) },
        ];
        assert_eq!(
            results(&tested, false, 250_000_000),
            "test chat/short/c1 ... ok\ntest chat/short/c4 ... FAILED: 1 request failed\n\n\
             test result: FAILED. 1 passed; 1 failed; finished in 0.25 s\n\n"
        );
    }
}
