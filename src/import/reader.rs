//! The reader: which client wrote a file, and the results that it holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::result::{Tool, ToolResult};
use super::source::{Listing, PassedOver, Source};
use super::{aiperf, guidellm, inference_perf, llm_d, sglang, vllm};
use crate::error::{Error, Result};
use crate::record::Severity;

/// More results than this in one file are no sweep of one configuration.
const MOST_RESULTS: usize = 1_000;

/// The clients whose files are read, for messages.
const KNOWN: &str = "vllm bench serve, sglang.bench_serving, guidellm, aiperf, inference-perf, llm-d benchmark reports 0.2";

fn read_hint() -> String {
    format!("result files of these clients are read: {KNOWN}")
}

/// The client whose results wait for the requests beside them.
const STAGES: Tool = inference_perf::TOOL;

/// What came of all files.
#[derive(Debug, Default)]
pub(super) struct Readings {
    pub(super) results: Vec<ToolResult>,
    pub(super) passed_over: Vec<PassedOver>,
}

/// Why a file gave no results.
enum Refusal {
    /// It is something else: the reason.
    Foreign(String),
    /// It is a result that cannot be read, or nothing at all.
    Broken(Error),
}

/// What one file holds.
enum Content {
    /// Whole results.
    Results(Vec<ToolResult>),
    /// The figures of aiperf.
    AiperfSummary(Map<String, Value>),
    /// The requests of aiperf, or those of all stages of inference-perf.
    Requests(&'static Tool, Vec<Map<String, Value>>),
    /// The figures of all stages of inference-perf together.
    AllStages,
}

/// Reads every file of a listing. A file that cannot be read is passed over if another one can.
///
/// # Errors
/// If no file holds a result: the error of the first one.
pub(super) fn read_all(listing: Listing) -> Result<Readings> {
    let mut readings = Readings { passed_over: listing.passed_over, ..Readings::default() };
    let mut first_error = None;
    let mut refused = |readings: &mut Readings, path: PathBuf, refusal: Refusal| {
        let (severity, reason, error) = refusal.told(&path);
        readings.passed_over.push(PassedOver { path, reason, severity });
        first_error.get_or_insert(error);
    };
    let mut folders: BTreeMap<PathBuf, Folder> = BTreeMap::new();
    for path in listing.files {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        match read_file(&path) {
            Ok(Content::Results(results)) if results.iter().all(|r| *r.tool == STAGES) => {
                folders.entry(folder).or_default().stages.extend(results);
            }
            Ok(Content::Results(results)) => readings.results.extend(results),
            Ok(part) => folders.entry(folder).or_default().parts.push((path, part)),
            Err(refusal) => refused(&mut readings, path, refusal),
        }
    }
    for folder in folders.into_values() {
        for (path, refusal) in folder.join(&mut readings) {
            refused(&mut readings, path, refusal);
        }
    }
    repeated_reports(&mut readings);
    repeated_results(&mut readings);
    if readings.results.is_empty() {
        let nothing = || Error::store("no file holds a result").with_hint(read_hint());
        return Err(first_error.unwrap_or_else(nothing));
    }
    Ok(readings)
}

/// A report that sums up results which are read themselves would count them twice.
fn repeated_reports(readings: &mut Readings) {
    let is_report = |result: &ToolResult| *result.tool == llm_d::TOOL;
    if readings.results.iter().all(is_report) {
        return;
    }
    let (reports, results) = std::mem::take(&mut readings.results).into_iter().partition(is_report);
    readings.results = results;
    let reports: Vec<ToolResult> = reports;
    readings.passed_over.extend(reports.into_iter().map(|report| PassedOver {
        path: report.source.into(),
        reason: "it sums up results that are read themselves".to_owned(),
        severity: Severity::Note,
    }));
}

/// A copy of a result would pass for a second measurement that agrees to the last digit.
fn repeated_results(readings: &mut Readings) {
    let mut kept: Vec<ToolResult> = Vec::new();
    for result in std::mem::take(&mut readings.results) {
        match kept.iter().find(|known| known.repeats(&result)) {
            Some(known) => readings.passed_over.push(PassedOver {
                reason: format!("it repeats the result of `{}`", known.source),
                path: result.source.into(),
                severity: Severity::Note,
            }),
            None => kept.push(result),
        }
    }
    readings.results = kept;
}

impl Refusal {
    /// How much it matters beside files that were read, the reason, and the error if none was.
    fn told(self, path: &Path) -> (Severity, String, Error) {
        match self {
            Self::Foreign(reason) => {
                let error =
                    Error::store(format!("`{}` cannot be imported: {reason}", path.display()))
                        .with_hint(read_hint());
                (Severity::Note, reason, error)
            }
            Self::Broken(error) => {
                let cause = std::error::Error::source(&error);
                let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
                let reason =
                    error.to_string().replace(&format!("`{}`", path.display()), "the file");
                (Severity::Warning, format!("{reason}{cause}"), error)
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Content, Refusal> {
    let source = Source::read(path).map_err(Refusal::Broken)?;
    let name = source.name();
    let mut objects = objects(source)?;
    let all = |is: fn(&Map<String, Value>) -> bool| objects.iter().all(is);
    if all(aiperf::is_record) {
        return Ok(Content::Requests(&aiperf::TOOL, objects));
    }
    if all(inference_perf::is_request) {
        return Ok(Content::Requests(&inference_perf::TOOL, objects));
    }
    if let [only] = &mut objects[..] {
        if inference_perf::is_lifecycle(only) && !inference_perf::names_a_load(only) {
            return Ok(Content::AllStages);
        }
        if aiperf::is_summary(only) && aiperf::is_warm_up(path) {
            return Err(Refusal::Foreign("it is of the warm-up".to_owned()));
        }
        if aiperf::is_summary(only) {
            return Ok(Content::AiperfSummary(std::mem::take(only)));
        }
        if guidellm::recognises(only) {
            let mut results =
                guidellm::read(&name, std::mem::take(only)).map_err(Refusal::Broken)?;
            results.iter_mut().for_each(ToolResult::complete);
            return Ok(Content::Results(results));
        }
    }
    if objects.len() > MOST_RESULTS {
        let error = Error::store(format!("`{name}` holds more than {MOST_RESULTS} results"));
        return Err(Refusal::Broken(error));
    }
    let several = objects.len() > 1;
    let mut results = Vec::new();
    for (index, object) in objects.into_iter().enumerate() {
        let place = if several { format!("{name} #{}", index + 1) } else { name.clone() };
        results.push(result(place, object)?);
    }
    Ok(Content::Results(results))
}

/// The objects of a file: its documents, or the members of its lists.
fn objects(source: Source) -> Result<Vec<Map<String, Value>>, Refusal> {
    let name = source.name();
    let mut objects = Vec::new();
    for document in source.documents {
        let members = match document {
            Value::Array(list) => list,
            other => vec![other],
        };
        for member in members {
            let Value::Object(object) = member else {
                let error =
                    Error::store(format!("`{name}` is not a result file: it holds no JSON object"))
                        .with_hint("give a JSON file that a benchmark client wrote");
                return Err(Refusal::Broken(error));
            };
            objects.push(object);
        }
    }
    if objects.is_empty() {
        let error = Error::store(format!("`{name}` is not a result file: its list is empty"))
            .with_hint(read_hint());
        return Err(Refusal::Broken(error));
    }
    Ok(objects)
}

fn result(place: String, object: Map<String, Value>) -> Result<ToolResult, Refusal> {
    let read = match () {
        () if llm_d::recognises(&object) => llm_d::read(place, object),
        () if inference_perf::is_lifecycle(&object) => inference_perf::read(place, object),
        () if sglang::recognises(&object) => sglang::read(place, object),
        () if vllm::recognises(&object) => vllm::read(place, object),
        () => return Err(Refusal::Foreign(foreign(&object))),
    };
    let mut result = read.map_err(Refusal::Broken)?;
    result.complete();
    Ok(result)
}

/// What an object is that no reader takes.
fn foreign(object: &Map<String, Value>) -> String {
    let has = |names: &[&str]| names.iter().all(|name| object.contains_key(*name));
    if has(&["benchmark", "metric"]) {
        "it holds records for PyTorch's benchmark database, which vLLM writes beside its result; they repeat it".to_owned()
    } else if has(&["avg_latency", "percentiles"]) {
        "it is a result of `vllm bench latency`: one batch, no serving load".to_owned()
    } else if has(&["elapsed_time", "tokens_per_second"]) {
        "it is a result of `vllm bench throughput`: offline, no serving load".to_owned()
    } else {
        "it is not a result file of a known client".to_owned()
    }
}

/// Files of one folder that belong together.
#[derive(Default)]
struct Folder {
    stages: Vec<ToolResult>,
    parts: Vec<(PathBuf, Content)>,
}

impl Folder {
    /// Joins figures with the requests beside them; returns the files that could not be read.
    fn join(mut self, readings: &mut Readings) -> Vec<(PathBuf, Refusal)> {
        let mut refused = Vec::new();
        let mut records: Vec<(PathBuf, Vec<Map<String, Value>>)> = Vec::new();
        let mut summaries = Vec::new();
        for (path, part) in self.parts {
            match part {
                Content::AiperfSummary(object) => summaries.push((path, object)),
                Content::Requests(tool, objects) if *tool == aiperf::TOOL => {
                    records.push((path, objects))
                }
                Content::Requests(_, objects) => {
                    let reason = match self.stages.is_empty() {
                        true => Err("its stages are not there, and it names no load"),
                        false => inference_perf::share_out(&mut self.stages, objects),
                    };
                    refused
                        .extend(reason.err().map(|why| (path, Refusal::Foreign(why.to_owned()))));
                }
                Content::AllStages if self.stages.is_empty() => {
                    let error = inference_perf::no_load(&path.display().to_string());
                    refused.push((path, Refusal::Broken(error)));
                }
                Content::AllStages => {
                    let why = "it sums up all stages, which are read themselves".to_owned();
                    refused.push((path, Refusal::Foreign(why)));
                }
                Content::Results(results) => readings.results.extend(results),
            }
        }
        // With several figures in one folder nobody knows whose the requests are.
        let joined = summaries.len() == 1;
        let own = if joined { records.pop() } else { None };
        for (path, object) in summaries {
            let source = path.display().to_string();
            match aiperf::read(source, object, own.as_ref().map(|(_, objects)| &objects[..])) {
                Ok(mut result) => {
                    result.complete();
                    readings.results.push(result);
                }
                Err(error) => refused.push((path, Refusal::Broken(error))),
            }
        }
        refused.extend(records.into_iter().map(|(path, _)| {
            let why = "it holds requests without their load: `profile_export_aiperf.json`, which names it, is not beside it, or not alone".to_owned();
            (path, Refusal::Foreign(why))
        }));
        readings.results.extend(self.stages);
        refused
    }
}
