//! `run`, `preflight`, `plan` and `list`: the commands that take scenarios and a server.

use std::path::PathBuf;
use std::pin::Pin;

use clap::{Args, ValueEnum};

use super::args::RunArgs;
use super::lengths;
use crate::analysis::Conclusion;
use crate::compare::gate;
use crate::compare::gate_reason::INTERRUPTED;
use crate::drive::{Interrupt, Urgency, raise_on_signals};
use crate::error::{Error, ErrorKind, Result};
use crate::harness::{Action, Detail, Entry, Harness, OutputFormat, Selection, Surface};
use crate::plan::ListFormat;
use crate::record::FindingCode;
use crate::report;
use crate::report::progress::{self, Event, Reporter, Silent, Stream};
use crate::report::terminal::{self, Color};
use crate::scenario::{Length, Load, Scenario, ScenarioGroup, Slo, file};
use crate::settings::{BaselineChoice, Settings};
use crate::store::files;

/// The loads where none are given: the ones people loop over by hand.
const DEFAULT_CONCURRENCY: [u32; 5] = [1, 4, 16, 64, 128];
/// The simulator's: a run of them takes under a minute.
const SIMULATED_CONCURRENCY: [u32; 4] = [1, 4, 16, 64];
/// The lengths where none are given: a chat turn.
const DEFAULT_INPUT_LEN: u32 = 512;
const DEFAULT_OUTPUT_LEN: u32 = 128;
/// The group of scenarios made from flags.
const FLAG_GROUP: &str = "run";

/// Scenarios from a file or from flags, and a server.
#[derive(Debug, Args)]
pub(super) struct RunCommand {
    /// Scenarios in TOML [default: made from the flags]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Run load points whose id matches; repeatable
    #[arg(long = "filter", value_name = "REGEX")]
    filters: Vec<String>,
    /// Filters are whole ids, not regular expressions
    #[arg(long)]
    exact: bool,
    /// Format of `list`
    #[arg(long, value_enum, default_value = "pretty", hide = true)]
    format: ListFormatArg,
    #[command(flatten)]
    run: RunArgs,
}

/// libtest's words for `--list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ListFormatArg {
    /// With a count at the end
    #[default]
    Pretty,
    /// `id: benchmark`, for tools
    Terse,
}

impl From<ListFormatArg> for ListFormat {
    fn from(arg: ListFormatArg) -> Self {
        match arg {
            ListFormatArg::Pretty => Self::Pretty,
            ListFormatArg::Terse => Self::Terse,
        }
    }
}

impl RunCommand {
    fn harness(&self) -> Result<Harness> {
        let read = |path: &std::path::Path| files::read_text(path);
        let mut settings = self.run.defaults();
        let mut groups = Vec::new();
        if let Some(path) = &self.file {
            let text = read(path).map_err(|error| match path.to_str() {
                Some(what @ ("rate" | "concurrency")) => {
                    error.with_hint(format!("what is searched is written `--search={what}`"))
                }
                _ => error.with_hint("the argument of `run` is a file of scenarios in TOML"),
            })?;
            let parsed = file::parse(&text, &path.display().to_string())?;
            if parsed.target.is_some() && self.run.server.simulate.is_none() {
                settings = Settings::for_url("");
            }
            parsed.apply(&mut settings);
            groups = parsed.groups;
        }
        self.run.apply(&mut settings, &read)?;
        if groups.is_empty() {
            groups.push(self.group_from_flags(&settings)?);
        }
        let mut harness = Harness::new(settings)
            .with_selection(Selection {
                filters: self.filters.clone(),
                exact: self.exact,
                ..Selection::default()
            })
            .with_surface(self.run.output.surface(Action::Run, Entry::Command));
        harness.groups(groups);
        Ok(harness)
    }

    /// One scenario per pair of lengths: `run/512x128/c16`.
    fn group_from_flags(&self, settings: &Settings) -> Result<ScenarioGroup> {
        let load = &self.run.load;
        let spread = |given: &[Length], default: u32| -> Result<Vec<Length>> {
            let given = if given.is_empty() { &[Length::Fixed(default)] } else { given };
            given
                .iter()
                .map(|length| lengths::spread(length.clone(), load.random_range_ratio))
                .collect()
        };
        let loads = loads(load, settings)?;
        let slo = slo(&load.goodput)?;
        let mut group = ScenarioGroup::new(FLAG_GROUP);
        let outputs = spread(&load.random_output_len, DEFAULT_OUTPUT_LEN)?;
        if let Some(path) = &load.prompts {
            for output in outputs {
                let mut scenario =
                    Scenario::new(format!("prompts-{}", output.label())).output(output);
                scenario = scenario.prompts_from(path.clone());
                scenario.loads.clone_from(&loads);
                scenario.slo = slo;
                group.scenario(scenario);
            }
            return Ok(group);
        }
        for input in spread(&load.random_input_len, DEFAULT_INPUT_LEN)? {
            for output in &outputs {
                let name = format!("{}x{}", input.label(), output.label());
                let mut scenario = Scenario::new(name).input(input.clone()).output(output.clone());
                scenario.loads.clone_from(&loads);
                scenario.slo = slo;
                group.scenario(scenario);
            }
        }
        Ok(group)
    }

    pub(super) fn run(&self) -> Result<u8> {
        drive(self.harness()?)
    }

    pub(super) fn preflight(&self) -> Result<u8> {
        let harness = self.harness()?;
        let mut reporter = reporter(harness.surface());
        let interrupt = Interrupt::new();
        until_told_to_leave(&interrupt, Urgency::None, harness.preflight(&mut *reporter))?;
        Ok(gate::FINE)
    }

    pub(super) fn plan(&self) -> Result<u8> {
        let harness = self.harness()?;
        terminal::print(&harness.plan()?.describe(terminal::width()))?;
        for sentence in harness.foresee()? {
            terminal::print(&format!("calibrated: {sentence}\n"))?;
        }
        Ok(gate::FINE)
    }

    pub(super) fn calibrate(&self) -> Result<u8> {
        let harness = self.harness()?;
        let mut reporter = reporter(harness.surface());
        let interrupt = Interrupt::new();
        let job = harness.calibrate(&mut *reporter, &interrupt);
        let calibrated = until_told_to_leave(&interrupt, Urgency::Drain, job)?;
        drop(reporter);
        terminal::print(&super::calibrate::describe(&calibrated))?;
        let stopped = interrupt.urgency() != Urgency::None;
        Ok(if stopped { gate::INTERRUPTED } else { gate::FINE })
    }

    pub(super) fn list(&self) -> Result<u8> {
        terminal::print(&self.harness()?.list(self.format.into())?)?;
        Ok(gate::FINE)
    }
}

/// Runs a harness and shows what came of it; returns the gate's exit code.
pub(super) fn drive(mut harness: Harness) -> Result<u8> {
    let surface = harness.surface();
    if let Action::List(format) = surface.action {
        terminal::print(&harness.list(format)?)?;
        return Ok(gate::FINE);
    }
    let baseline = harness.baseline().clone();
    let is_judged = baseline.compare.is_some() || harness.settings().against.is_some();
    let told = BaselineTold { baseline: &baseline, is_judged };
    let mut reporter = reporter_before_report(surface);
    let interrupt = Interrupt::new();
    let job = harness.run(&mut *reporter, &interrupt);
    let ended = until_told_to_leave(&interrupt, Urgency::Drain, job);
    if ended.is_err() {
        reporter.event(&Event::RunFailed)?;
    }
    drop(reporter);
    let conclusion = ended.map_err(|error| match interrupt.urgency() {
        Urgency::Leave => error.with_hint("`inferometer report` shows the rounds that had ended"),
        Urgency::None | Urgency::Drain => error,
    })?;
    let code = present(&conclusion, surface, Some(told))?;
    if code == gate::INTERRUPTED {
        terminal::print_message(&format!("{INTERRUPTED}\n"))?;
    }
    Ok(code)
}

/// Runs a job that ends by itself at the first Ctrl-C; beyond `patience` it is dropped where it
/// stands, which stops the servers it launched. What was measured before is on disk.
pub(super) fn until_told_to_leave<T>(
    interrupt: &Interrupt,
    patience: Urgency,
    job: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut result = None;
    let kept = async { result = Some(job.await) };
    to_its_end(interrupt, patience, Box::pin(kept))?;
    result.unwrap_or_else(|| Err(interrupted()))
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted")
}

/// As above, compiled once for all jobs.
fn to_its_end(
    interrupt: &Interrupt,
    patience: Urgency,
    job: Pin<Box<dyn Future<Output = ()> + '_>>,
) -> Result<()> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        raise_on_signals(interrupt)?;
        let told = interrupt.clone();
        tokio::spawn(async move {
            if told.beyond(Urgency::None).await == Urgency::Drain && patience == Urgency::Drain {
                let _ = terminal::print_message(
                    "interrupted: letting requests in flight end; Ctrl-C again leaves at once\n",
                );
            }
        });
        tokio::select! {
            () = job => Ok(()),
            _ = interrupt.beyond(patience) => Err(interrupted()),
        }
    });
    // A thread that still waits for a file or a name must not hold the process.
    runtime.shutdown_background();
    result
}

/// Who tells of the run: nobody where only the result is wanted; on stderr where stdout carries it.
fn reporter(surface: Surface) -> Box<dyn Reporter> {
    match (surface.detail, surface.format) {
        (Detail::Quiet, _) => Box::new(Silent),
        (_, OutputFormat::Terminal) => Box::new(progress::Terminal::new(Stream::Stdout)),
        _ => Box::new(progress::Terminal::new(Stream::Stderr)),
    }
}

/// As above, where the report follows that lists findings and figures.
fn reporter_before_report(surface: Surface) -> Box<dyn Reporter> {
    let stream = match (surface.detail, surface.format) {
        (Detail::Quiet, _) => return Box::new(Silent),
        (_, OutputFormat::Terminal) => Stream::Stdout,
        _ => Stream::Stderr,
    };
    Box::new(progress::Terminal::before_report(stream, surface.detail))
}

/// What a run was told of baselines.
#[derive(Debug, Clone, Copy)]
pub(super) struct BaselineTold<'a> {
    baseline: &'a BaselineChoice,
    /// Against a baseline that was named, or against another side; the last run is advice only.
    is_judged: bool,
}

/// Shows a report on stdout, in the format asked for; returns the gate's exit code. `baseline` is
/// what a run was told of baselines; `None` if nothing was measured.
pub(super) fn present(
    conclusion: &Conclusion,
    surface: Surface,
    baseline: Option<BaselineTold<'_>>,
) -> Result<u8> {
    let text = match surface.format {
        OutputFormat::Json => report::json::render(&conclusion.report)?,
        OutputFormat::Markdown => report::markdown::render(&conclusion.report, None),
        OutputFormat::Terminal => {
            let color = Color::of(&std::io::stdout());
            let mut text =
                terminal::render(&conclusion.report, terminal::width(), color, surface.detail);
            // The first decides; the verdicts above tell the others.
            if let Some((first, others)) = conclusion.gate.reasons.split_first() {
                let more = match others.len() {
                    0 => String::new(),
                    n => format!(" (and {n} more)"),
                };
                let code = conclusion.gate.exit_code;
                let line = format!("gate: exit code {code}: {first}{more}");
                text.push_str(&super::broken(&line, terminal::width()));
                text.push('\n');
            }
            if surface.detail != Detail::Quiet {
                let told = baseline.map(|told| baseline_line(told, conclusion, surface.entry));
                text.push_str(&told.unwrap_or_default());
                text.push_str(&format!("report: {}\n", conclusion.page.display()));
            }
            text
        }
    };
    terminal::print(&text).map_err(|error| {
        let page = conclusion.page.display();
        error.with_hint(format!("nothing that was measured is lost: the report is `{page}`"))
    })?;
    Ok(conclusion.gate.exit_code)
}

/// What became of baselines, or how to save the first.
fn baseline_line(told: BaselineTold<'_>, conclusion: &Conclusion, entry: Entry) -> String {
    let baseline = told.baseline;
    let mut text = String::new();
    let findings = &conclusion.report.input().findings;
    let kept_out = |name: &str| {
        let named = format!("`{name}`");
        findings.iter().find(|f| f.code == FindingCode::NotAppended && f.text.contains(&named))
    };
    let asked = [(&baseline.save, "now holds this run"), (&baseline.append, "holds this run too")];
    for (name, holds) in asked {
        let Some(name) = name else { continue };
        match kept_out(name) {
            Some(finding) => text.push_str(&format!("{}\n", finding.text)),
            None => text.push_str(&format!("baseline `{name}` {holds}\n")),
        }
    }
    let is_whole = !matches!(conclusion.gate.exit_code, gate::INTERRUPTED | gate::SERVER);
    if text.is_empty() && is_whole && !told.is_judged && baseline.load.is_none() {
        let dashes = if entry == Entry::Bench { "-- " } else { "" };
        text = format!("no baseline: save one with `{dashes}--save-baseline main`\n");
    }
    text
}

/// The client's runtime: one thread reads streams, others build bodies and write files.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|cause| {
        Error::new(ErrorKind::Client, "no async runtime could be started").with_cause(cause)
    })
}

fn loads(args: &super::args::LoadArgs, settings: &Settings) -> Result<Vec<Load>> {
    if args.request_rate.is_empty() {
        if args.burstiness.is_some() {
            return Err(Error::usage("`--burstiness` shapes arrivals, but there are none")
                .with_hint("add `--request-rate`"));
        }
        let given = &args.max_concurrency[..];
        let sweep = match (given.is_empty(), settings.is_simulated()) {
            (false, _) => given,
            (true, true) => &SIMULATED_CONCURRENCY[..],
            (true, false) => &DEFAULT_CONCURRENCY[..],
        };
        return Ok(sweep.iter().map(|n| Load::concurrency(*n)).collect());
    }
    if args.request_rate.iter().all(|rate| *rate == f64::INFINITY) {
        // vLLM's default: as fast as the cap lets it, which is the closed loop.
        if args.max_concurrency.is_empty() {
            return Err(Error::usage("`--request-rate inf` has no limit on requests in flight")
                .with_hint("add `--max-concurrency N`: a closed loop of N requests"));
        }
        return Ok(args.max_concurrency.iter().map(|n| Load::concurrency(*n)).collect());
    }
    if let Some(rate) = args.request_rate.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
        return Err(Error::usage(format!("`--request-rate {rate}` is no rate to sweep"))
            .with_hint("write rates above 0; `inf` stands alone, with `--max-concurrency N`"));
    }
    let cap = match args.max_concurrency[..] {
        [] => None,
        [cap] => Some(cap),
        _ => {
            return Err(Error::usage(
                "several values of `--max-concurrency` beside `--request-rate`",
            )
            .with_hint("beside a rate it is a cap on requests in flight: give one value"));
        }
    };
    let rate = |per_s: &f64| {
        let mut rate = Load::request_rate(*per_s);
        rate.burstiness = args.burstiness.unwrap_or(rate.burstiness);
        rate.max_concurrency = cap;
        rate.into()
    };
    Ok(args.request_rate.iter().map(rate).collect())
}

/// `ttft:200 tpot:30 e2el:5000`, in ms, as vLLM's `--goodput`.
fn slo(limits: &[String]) -> Result<Option<Slo>> {
    let mut slo = Slo::default();
    for limit in limits {
        let bad = || {
            Error::usage(format!("`{limit}` is not a limit of goodput"))
                .with_hint("write `ttft:200`, `tpot:30` or `e2el:5000`, in ms, and `share:0.99` for the share of good requests")
        };
        let (metric, ms) = limit.split_once(':').ok_or_else(bad)?;
        let ms: f64 =
            ms.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms > 0.0).ok_or_else(bad)?;
        match metric {
            "share" => slo.share = Some(ms),
            "ttft" => slo.ttft_ms = Some(ms),
            "tpot" => slo.tpot_ms = Some(ms),
            "e2el" | "e2e" => slo.e2el_ms = Some(ms),
            _ => return Err(bad()),
        }
    }
    Ok((!limits.is_empty()).then_some(slo))
}
