//! A reporter that never fails: what cannot be written is counted and ends no run.

use super::progress::{Event, Reporter};
use crate::error::Error;
use crate::record::{Finding, FindingCode, Severity};

/// Passes events on. The first error is kept, later ones are counted.
pub struct LossyReporter<'a> {
    inner: &'a mut dyn Reporter,
    first: Option<Error>,
    lost: u64,
}

impl std::fmt::Debug for LossyReporter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LossyReporter").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl<'a> LossyReporter<'a> {
    /// Passes events on to `inner`.
    pub fn new(inner: &'a mut dyn Reporter) -> Self {
        Self { inner, first: None, lost: 0 }
    }

    /// Reports what happened, if it can be written.
    pub fn event(&mut self, event: &Event<'_>) {
        if let Err(error) = self.inner.event(event) {
            self.first.get_or_insert(error);
            self.lost += 1;
        }
    }

    /// What could not be written; `None` if all was.
    #[must_use]
    pub fn loss(&self) -> Option<Finding> {
        let error = self.first.as_ref()?;
        let messages = if self.lost == 1 { "message" } else { "messages" };
        let text = format!("{} progress {messages} could not be written: {error}", self.lost);
        let hint = "no figure is missing: `inferometer report` shows all of them";
        Some(Finding::new(FindingCode::OutputLost, Severity::Note, text).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that takes one message and is full from then on.
    struct Full {
        room: u32,
    }

    impl Reporter for Full {
        fn event(&mut self, _: &Event<'_>) -> crate::Result<()> {
            if self.room == 0 {
                return Err(Error::store("no space left"));
            }
            self.room -= 1;
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let mut full = Full { room: 1 };
        let mut lossy = LossyReporter::new(&mut full);
        lossy.event(&Event::Note { text: "a" });
        assert_eq!(lossy.loss(), None);
        lossy.event(&Event::Note { text: "b" });
        lossy.event(&Event::Note { text: "c" });
        let text = lossy.loss().unwrap().text;
        assert_eq!(text, "2 progress messages could not be written: no space left");
    }
}
