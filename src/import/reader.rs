//! The reader: which client wrote a file, and the results that it holds.

use std::path::Path;

use serde_json::{Map, Value};

use super::result::ToolResult;
use super::source::{Listing, PassedOver, Source};
use super::{sglang, vllm};
use crate::error::{Error, Result};
use crate::record::Severity;

/// More results than this in one file are no sweep of one configuration.
const MOST_RESULTS: usize = 1_000;

/// The clients whose files are read, for messages.
const KNOWN: &str = "vllm bench serve, sglang.bench_serving";

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

/// Reads every file of a listing. A file that cannot be read is passed over if another one can.
///
/// # Errors
/// If no file holds a result: the error of the first one.
pub(super) fn read_all(listing: Listing) -> Result<Readings> {
    let mut readings = Readings { passed_over: listing.passed_over, ..Readings::default() };
    let mut first_error = None;
    for path in listing.files {
        match read_file(&path) {
            Ok(results) => readings.results.extend(results),
            Err(refusal) => {
                let (severity, reason, error) = refusal.told(&path);
                readings.passed_over.push(PassedOver { path, reason, severity });
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error.filter(|_| readings.results.is_empty()) {
        Some(error) => Err(error),
        None => Ok(readings),
    }
}

impl Refusal {
    /// How much it matters beside files that were read, the reason, and the error if none was.
    fn told(self, path: &Path) -> (Severity, String, Error) {
        match self {
            Self::Foreign(reason) => {
                let error =
                    Error::store(format!("`{}` cannot be imported: {reason}", path.display()))
                        .with_hint(format!("result files of these clients are read: {KNOWN}"));
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

fn read_file(path: &Path) -> Result<Vec<ToolResult>, Refusal> {
    let source = Source::read(path).map_err(Refusal::Broken)?;
    let name = source.name();
    let objects = objects(source)?;
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
    Ok(results)
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
    Ok(objects)
}

fn result(place: String, object: Map<String, Value>) -> Result<ToolResult, Refusal> {
    let read = match () {
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
        format!("it is not a result file of a known client ({KNOWN})")
    }
}
