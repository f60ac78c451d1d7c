//! The report: one value that terminal, HTML, Markdown, JSON, CSV and JUnit all show. Pure.

mod cell_text;
pub mod chart;
pub mod csv;
pub mod detail;
pub mod document;
pub mod explain;
pub mod html;
mod input;
pub mod json;
pub mod junit;
pub mod lossy;
pub mod markdown;
pub mod progress;
mod table;
pub mod terminal;
pub mod trend;
pub mod view;

pub use crate::compare::knee::{Knee, Multiple, Turning};
pub use input::{Lengths, PointInput, PointSide, ReportInput, Samples, SideInput, StartSummary};

/// A report: the input, and the document that is made of it.
#[derive(Debug, Clone)]
pub struct Report {
    input: ReportInput,
    document: document::Document,
}

impl Report {
    /// Makes the report of `input`. Adds the findings that only a report can see, such as two sides
    /// with identical settings.
    #[must_use]
    pub fn new(mut input: ReportInput) -> Self {
        for point in &mut input.points {
            point.sides.resize_with(input.sides.len(), || None);
        }
        let twins = view::compare::identical_sides(&input);
        input.findings.extend(twins);
        let document = document::Document::new(&input);
        Self { input, document }
    }

    /// What it is made of.
    #[must_use]
    pub fn input(&self) -> &ReportInput {
        &self.input
    }

    /// What `report.json` holds.
    #[must_use]
    pub fn document(&self) -> &document::Document {
        &self.document
    }
}
