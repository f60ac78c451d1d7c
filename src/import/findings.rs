//! Findings about imported results: what the files lack, and what in them is doubtful.

use super::check;
use super::details::Details;
use super::imported::Sends;
use super::result::{Offered, ToolResult};
use super::source::PassedOver;
use crate::record::{Finding, FindingCode, Severity};
use crate::scenario::Load;

/// Files that are named one by one in a finding.
const MOST_NAMED: usize = 5;

/// One finding for each reason for which files were passed over.
pub(super) fn of_passed_over(all: &[PassedOver]) -> Vec<Finding> {
    let mut reasons: Vec<(&str, Severity, Vec<String>)> = Vec::new();
    for PassedOver { path, reason, severity } in all {
        let name = format!("`{}`", path.display());
        match reasons.iter_mut().find(|(known, ..)| known == reason) {
            Some((_, _, files)) => files.push(name),
            None => reasons.push((reason, *severity, vec![name])),
        }
    }
    let finding = |(reason, severity, files): (&str, Severity, Vec<String>)| {
        let mut named = files[..files.len().min(MOST_NAMED)].join(", ");
        if files.len() > MOST_NAMED {
            named.push_str(&format!(" and {} more", files.len() - MOST_NAMED));
        }
        Finding::new(FindingCode::PassedOver, severity, format!("passed over {named}: {reason}"))
    };
    reasons.into_iter().map(finding).collect()
}

/// What is true of all files, or how many of them lack something.
pub(super) fn of_run(results: &[&ToolResult]) -> Vec<Finding> {
    let note = |code: FindingCode, text: String| Finding::new(code, Severity::Note, text);
    let Some(tool) = results.first().map(|result| result.tool) else { return Vec::new() };
    let mut findings = vec![
        Finding::new(
            FindingCode::NoStarts,
            Severity::Warning,
            "the files do not say when the server was restarted: those of one import are taken as one start, against which only large changes can be called",
        )
        .with_hint("import the files of each further start with `--append`; or `inferometer run --server-cmd … --against-cmd …` restarts both sides"),
        note(
            FindingCode::Imported,
            format!("measured by `{}`, by its definitions: {}", tool.name, tool.measures),
        ),
    ];
    let all = results.len();
    let mut lacking =
        |code: FindingCode, lacks: &dyn Fn(&ToolResult) -> bool, what: &str, hint: &str| {
            let place = match results.iter().filter(|result| lacks(result)).count() {
                0 => return,
                n if n == all => String::new(),
                n => format!(" in {n} of {all} results"),
            };
            findings.push(note(code, what.replace("{where}", &place)).with_hint(hint));
        };
    let detailed = tool.keeps_requests;
    lacking(
        FindingCode::NoRequests,
        &|r| r.details.is_none(),
        "no times of single requests are kept{where}: means and percentiles are those that the tool reports",
        detailed,
    );
    let some = |r: &ToolResult, lacks: fn(&Details) -> bool| r.details.as_ref().is_some_and(lacks);
    lacking(
        FindingCode::NoEnds,
        &|r| some(r, |d| !d.has_ends()),
        "no ends of single requests are kept{where}: TPOT and E2EL are those that the tool reports",
        detailed,
    );
    lacking(
        FindingCode::NoGaps,
        &|r| some(r, |d| d.itls.is_none()),
        "no gaps between tokens are kept{where}: ITL is that which the tool reports, and stalls do not show",
        detailed,
    );
    lacking(
        FindingCode::NoSends,
        &|r| some(r, |d| d.sends() == Sends::Unknown),
        "no send times are kept{where}: nothing is shown over time, and waves do not show",
        detailed,
    );
    lacking(
        FindingCode::NoFailures,
        &|r| r.failed.is_none(),
        "the number of failed requests is not kept{where}: the error rate is not known and shown as 0",
        detailed,
    );
    lacking(
        FindingCode::NoDate,
        &|r| r.written_at.is_none(),
        "no date is kept{where}: the time is that of the import",
        "none is needed to compare",
    );
    lacking(
        FindingCode::Drain,
        &|r| matches!(r.load, Load::RequestRate(_)),
        "QPS at an offered rate divides by the run with its drain{where}: it reads below the rate though nothing need be saturated",
        "`inferometer run --request-rate …` measures inside a window",
    );
    findings
}

/// What is true of one result.
pub(super) fn of_result(id: &str, result: &ToolResult) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |code: FindingCode, severity, text: String| {
        findings.push(Finding::new(code, severity, text).at(id));
    };
    if let Some(failed) = result.failed.filter(|failed| *failed > 0) {
        let text = format!("{failed} of {} requests failed", result.attempted());
        find(FindingCode::Failures, Severity::Warning, text);
    }
    match result.offered {
        Offered::AsSaid => {}
        Offered::AtOnce => {
            let text =
                "no rate and no limit of concurrency was set: all requests were sent at once";
            find(FindingCode::AtOnce, Severity::Warning, text.to_owned());
        }
        Offered::Ramp => {
            let text = "the rate rose while it was measured: the load is its last, the figures are of all of it";
            find(FindingCode::RampUp, Severity::Warning, text.to_owned());
        }
    }
    let told = result.details.as_ref().filter(|d| d.errors.is_some()).map(Details::completed);
    if let Some(told) = told.filter(|told| *told != result.completed) {
        let text =
            format!("the file counts {} completed requests, its details {told}", result.completed);
        find(FindingCode::CountsDiffer, Severity::Invalid, text);
    }
    for text in check::contradictions(result) {
        find(FindingCode::Contradiction, Severity::Invalid, text);
    }
    for note in &result.notes {
        find(note.code.clone(), note.severity, note.text.clone());
    }
    findings
}
