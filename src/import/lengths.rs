//! The lengths of an imported load point, and the scenario's name that they make.

use super::result::ToolResult;
use crate::scenario::Length;

/// Lengths within 2 % of their mean (or one token) count as fixed: vLLM's random prompts differ by
/// a token or two after they were tokenised again.
const FIXED_WITHIN: f64 = 0.02;

/// The lengths of a load point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lengths {
    pub(super) input: Length,
    pub(super) output: Length,
}

impl Lengths {
    /// As asked for; else from the lengths of the completed requests, or from the totals where only those are kept.
    pub(super) fn of(result: &ToolResult) -> Self {
        let details = result.details.as_ref();
        let completed = |lens: Option<&Vec<u32>>| -> Option<Vec<f64>> {
            let details = details?;
            let all_failed = details.completed() == 0;
            let kept = lens?.iter().enumerate();
            let kept = kept.filter(|(index, _)| all_failed || !details.failed(*index));
            Some(kept.map(|(_, tokens)| f64::from(*tokens)).collect())
        };
        #[allow(clippy::cast_precision_loss)] // counts of tokens and requests
        let mean = |total: Option<u64>| {
            Some(vec![total? as f64 / result.completed as f64]).filter(|_| result.completed > 0)
        };
        let input = completed(details.and_then(|d| d.input_lens.as_ref()));
        let output = completed(details.and_then(|d| d.output_lens.as_ref()));
        Self {
            input: result
                .asked
                .input
                .map_or_else(|| length(input.or_else(|| mean(result.input_tokens))), Length::Fixed),
            output: result.asked.output.map_or_else(
                || length(output.or_else(|| mean(result.output_tokens))),
                Length::Fixed,
            ),
        }
    }

    /// `512x128`; `mixed` in place of a length that is not the same for all.
    pub(super) fn name(&self) -> String {
        let part = |length: &Length| match length {
            Length::Fixed(tokens) => tokens.to_string(),
            _ => "mixed".to_owned(),
        };
        format!("{}x{}", part(&self.input), part(&self.output))
    }
}

/// Fixed where all are about the same, else unknown: the file does not say what was asked for.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn length(tokens: Option<Vec<f64>>) -> Length {
    let tokens = tokens.unwrap_or_default();
    let mean = tokens.iter().sum::<f64>() / tokens.len() as f64;
    let near = |tokens: &f64| (tokens - mean).abs() <= f64::max(1.0, FIXED_WITHIN * mean);
    if mean.is_finite() && mean >= 0.5 && tokens.iter().all(near) {
        Length::Fixed(mean.round() as u32)
    } else {
        Length::OfPrompt
    }
}
