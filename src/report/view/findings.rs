//! The view of findings: equal ones once, with the load points that they concern.

use serde::Serialize;

use crate::record::{Finding, FindingCode};

/// A finding ready to print.
#[derive(Debug, Clone, Serialize)]
pub struct FindingView {
    /// `note`, `warning`, …
    pub severity: String,
    /// Its class.
    pub class: String,
    /// The sentence.
    pub text: String,
    /// How to fix it; may be empty.
    pub hint: String,
    /// The load points it concerns: the first, and how many more.
    pub points: String,
}

/// Equal findings reported once, each with the load points it concerns. Texts that differ are never merged.
#[must_use]
pub fn findings(all: &[&Finding]) -> Vec<FindingView> {
    let mut views: Vec<(&FindingCode, FindingView, Vec<&str>)> = Vec::new();
    for finding in all {
        let known = views.iter_mut().find(|(code, view, points)| {
            **code == finding.code && view.text == finding.text && !points.is_empty()
        });
        if let (Some((_, _, points)), Some(point)) = (known, &finding.point) {
            points.push(point);
            continue;
        }
        let view = FindingView {
            severity: super::severity_label(finding.severity).to_owned(),
            class: super::severity_class(finding.severity).to_owned(),
            text: finding.text.clone(),
            hint: finding.hint.clone().unwrap_or_default(),
            points: String::new(),
        };
        views.push((&finding.code, view, finding.point.as_deref().into_iter().collect()));
    }
    let named = |(_, view, points): (&FindingCode, FindingView, Vec<&str>)| FindingView {
        points: point_names(&points),
        ..view
    };
    views.into_iter().map(named).collect()
}

/// Load points that are named one by one; of more, the rest is counted.
const POINTS_NAMED: usize = 6;

/// `chat/short/c1, c4, c16`: of load points of one scenario, only the first with its path.
fn point_names(points: &[&str]) -> String {
    let path = |id: &str| id.rfind('/').map_or(0, |at| at + 1);
    let mut names: Vec<&str> = Vec::new();
    let mut last = "";
    for id in points.iter().take(POINTS_NAMED) {
        let (here, load) = id.split_at(path(id));
        names.push(if here == last && !here.is_empty() { load } else { id });
        last = here;
    }
    let named = names.join(", ");
    match points.len().saturating_sub(POINTS_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Severity;

    #[test]
    fn equal_findings_are_one_that_names_its_load_points() {
        let finding = |text: &str, point: &str| {
            Finding::new(FindingCode::Lockstep, Severity::Warning, text).at(point)
        };
        let all = [finding("a", "g/s/c1"), finding("a", "g/s/c4"), finding("b", "g/s/c4")];
        let views = findings(&all.iter().collect::<Vec<_>>());
        assert_eq!(views.len(), 2, "equal text alone merges");
        assert_eq!(views[0].points, "g/s/c1, c4");
        assert_eq!(views[1].points, "g/s/c4");
    }

    #[test]
    fn many_load_points_are_counted() {
        assert_eq!(point_names(&["a/b/c1", "a/d/c1"]), "a/b/c1, a/d/c1");
        let many = ["x/y/c1"; 9];
        assert!(point_names(&many).ends_with(" and 3 more"));
        assert_eq!(point_names(&[]), "");
    }
}
