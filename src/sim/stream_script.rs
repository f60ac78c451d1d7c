//! Script: what a stream writes for each token, faults included; pure.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::config::Offer;
use super::fault::{Active, FaultKind};
use super::player::Tick;
use super::request::{Api, Form, TokenIds, UsageAt};
use super::scheduler::EventKind;
use super::vocabulary;
use super::wire::{self, Field, Piece, Place, RequestTimes, Usage, Writer};
use crate::units::ns_to_ms;

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With the last chunk of the chunked encoding.
    Clean,
    /// Without it.
    Cut,
    /// By a reset of the connection.
    Reset,
}

/// One thing to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Write bytes; with them this many tokens have been delivered.
    Write { bytes: Bytes, tokens: u32 },
    /// Write nothing for a while.
    Pause(Duration),
    /// Stop.
    End(Ending),
}

/// What is to be done, in order. Bounded: a few steps for each token.
pub(crate) type Steps = VecDeque<Step>;

/// Long enough that what was written before has left the process.
const FLUSH: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Once {
    Ahead,
    Done,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Script {
    form: Form,
    writer: Writer,
    active: Active,
    interval: u32,
    usage: UsageAt,
    metrics: Offer,
    times: Times,
    role: Once,
    stall: Once,
    produced: u32,
    written: u32,
    pending: Vec<u8>,
    pending_events: u32,
    pending_tokens: u32,
}

/// When things happened to a request, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) queued_ns: u64,
    pub(crate) scheduled_ns: u64,
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
}

impl Times {
    pub(crate) fn see(&mut self, tick: Tick) {
        self.queued_ns = tick.queued_ns;
        self.scheduled_ns = tick.scheduled_ns;
        self.first_ns.get_or_insert(tick.at_ns);
        self.last_ns = tick.at_ns;
    }

    /// As vLLM counts: its time to first token leaves the queue out.
    pub(crate) fn report(&self, tokens: u32) -> RequestTimes {
        let first_ns = self.first_ns.unwrap_or(self.last_ns);
        let span = |from: u64, to: u64| ns_to_ms(to.saturating_sub(from));
        let generation_ms = span(first_ns, self.last_ns);
        let total_s = span(self.scheduled_ns, self.last_ns).max(1e-6) / 1e3;
        RequestTimes {
            time_to_first_token_ms: span(self.scheduled_ns, first_ns),
            generation_time_ms: generation_ms,
            queue_time_ms: span(self.queued_ns, self.scheduled_ns),
            mean_itl_ms: (tokens > 1).then(|| generation_ms / f64::from(tokens - 1)),
            tokens_per_second: f64::from(tokens) / total_s,
        }
    }
}

impl Script {
    pub(crate) fn new(
        form: Form,
        writer: Writer,
        active: Active,
        stream_interval: u32,
        metrics: Offer,
    ) -> Self {
        let burst = active.get(FaultKind::Burst).map_or(stream_interval, |fault| fault.count);
        let usage = if active.has(FaultKind::NoUsage) { UsageAt::Nowhere } else { form.usage };
        Self {
            form,
            writer,
            interval: burst.max(1),
            usage,
            active,
            metrics,
            times: Times::default(),
            role: Once::Ahead,
            stall: Once::Ahead,
            produced: 0,
            written: 0,
            pending: Vec::new(),
            pending_events: 0,
            pending_tokens: 0,
        }
    }

    /// What is written before any token.
    pub(crate) fn open(&mut self, steps: &mut Steps) {
        if self.active.has(FaultKind::EmptyBody) {
            steps.push_back(Step::End(Ending::Clean));
        } else if let Some(id) = self.form.bad_token {
            self.push_event(&wire::bad_token(id), 0);
            self.close(steps);
        } else if self.active.has(FaultKind::NoTokens) {
            self.push_role();
            self.close(steps);
        } else if self.active.has(FaultKind::RoleFirst) {
            self.push_role();
            self.flush(steps);
        }
        if let Some(fault) = self.active.get(FaultKind::LateToken) {
            steps.push_back(Step::Pause(fault.duration));
        }
    }

    /// What is written as tokens come.
    pub(crate) fn tick(&mut self, tick: Tick, steps: &mut Steps) {
        self.times.see(tick);
        self.produced += tick.tokens;
        let last = tick.kind == EventKind::Finished;
        let due = self.written == 0 || self.produced - self.written >= self.interval || last;
        if !due {
            return;
        }
        self.push_role();
        self.push_piece(if last { Place::End } else { Place::Middle });
        if self.break_off(steps) {
            return;
        }
        let hold = self.active.get(FaultKind::Coalesce).map_or(1, |fault| fault.count);
        if self.pending_events >= hold || last {
            self.flush(steps);
        }
        if let Some(fault) = self.active.get(FaultKind::Stall)
            && self.stall == Once::Ahead
            && self.written * 2 >= self.form.output_tokens
        {
            self.stall = Once::Done;
            steps.push_back(Step::Pause(fault.duration));
        }
        if last {
            self.finish(steps);
        }
    }

    /// The engine stopped under a stream.
    pub(crate) fn engine_gone(&mut self, steps: &mut Steps) {
        self.push_event(wire::ENGINE_GONE, 0);
        self.close(steps);
    }

    /// A comment that keeps proxies and clients waiting.
    pub(crate) fn keep_alive(&self) -> Step {
        let line = if self.active.has(FaultKind::Crlf) {
            ": keep-alive\r\n\r\n"
        } else {
            ": keep-alive\n\n"
        };
        Step::Write { bytes: Bytes::from_static(line.as_bytes()), tokens: 0 }
    }

    /// How often a comment is written while nothing else is.
    pub(crate) fn keep_alive_every(&self) -> Option<Duration> {
        self.active.get(FaultKind::KeepAlive).map(|fault| fault.duration)
    }

    fn usage(&self, completion: u32) -> Usage {
        let extra = if self.active.has(FaultKind::WrongUsage) { 7 } else { 0 };
        let prompt = u32::try_from(self.form.prompt.len()).unwrap_or(u32::MAX);
        Usage { prompt, completion: completion + extra }
    }

    fn push_role(&mut self) {
        if self.form.api == Api::Chat && self.role == Once::Ahead {
            self.role = Once::Done;
            let usage = (self.usage == UsageAt::Everywhere).then(|| self.usage(0));
            let json = self.writer.role(&self.form.prompt, usage);
            self.push_event(&json, 0);
        }
    }

    fn push_piece(&mut self, place: Place) {
        let ids: Vec<u32> = (self.written..self.produced)
            .map(|place| vocabulary::generated(self.form.text_seed, place))
            .collect();
        let text = if self.active.has(FaultKind::SplitUtf8) {
            " é日🔭".repeat(ids.len())
        } else {
            vocabulary::text_of_all(&ids)
        };
        let with_choices = self.active.has(FaultKind::UsageWithChoices) && place == Place::End;
        let usage =
            (self.usage == UsageAt::Everywhere || with_choices).then(|| self.usage(self.produced));
        let shows_prompt = self.written == 0
            && self.form.token_ids == TokenIds::Shown
            && self.form.api == Api::Completions;
        let ends_json = place == Place::End && self.usage == UsageAt::Nowhere;
        let json = self.writer.piece(&Piece {
            text: &text,
            ids: &ids,
            prompt_ids: shows_prompt.then_some(&self.form.prompt),
            field: self.field(),
            finish: (place == Place::End).then(|| self.form.reason.word()),
            usage,
            place: if ends_json { Place::End } else { Place::Middle },
        });
        let tokens = self.produced - self.written;
        self.written = self.produced;
        self.push_event(&json, tokens);
    }

    fn field(&self) -> Field {
        let within = |kind| self.active.get(kind).is_some_and(|fault| self.written < fault.count);
        if within(FaultKind::Reasoning) {
            Field::Reasoning
        } else if within(FaultKind::ReasoningContent) {
            Field::ReasoningContent
        } else {
            Field::Content
        }
    }

    /// Ends the stream early where a fault says so.
    fn break_off(&mut self, steps: &mut Steps) -> bool {
        let struck = |kind| self.active.get(kind).is_some_and(|fault| self.written >= fault.count);
        if struck(FaultKind::ResetDuring) {
            self.flush(steps);
            steps.extend([Step::Pause(FLUSH), Step::End(Ending::Reset)]);
        } else if struck(FaultKind::Truncate) {
            self.flush(steps);
            steps.extend([Step::Pause(FLUSH), Step::End(Ending::Cut)]);
        } else if struck(FaultKind::ErrorObject) {
            self.push_event(wire::ENGINE_GONE, 0);
            self.close(steps);
        } else if struck(FaultKind::ErrorString) {
            self.push_event(r#"{"error":"the model has left"}"#, 0);
            self.flush(steps);
            steps.push_back(Step::End(Ending::Clean));
        } else if struck(FaultKind::Interrupted) && self.written < self.form.output_tokens {
            self.close(steps);
        } else {
            return false;
        }
        true
    }

    fn finish(&mut self, steps: &mut Steps) {
        if self.usage != UsageAt::Nowhere && !self.active.has(FaultKind::UsageWithChoices) {
            let times = (self.metrics == Offer::On).then(|| self.times.report(self.produced));
            let json = self.writer.usage(self.usage(self.produced), times);
            self.push_event(&json, 0);
            self.flush(steps);
        }
        self.close(steps);
    }

    fn close(&mut self, steps: &mut Steps) {
        self.flush(steps);
        if !self.active.has(FaultKind::NoDone) {
            self.push_event("[DONE]", 0);
            self.flush(steps);
        }
        steps.push_back(Step::End(Ending::Clean));
    }

    fn push_event(&mut self, data: &str, tokens: u32) {
        let head = if self.active.has(FaultKind::NoSpace) { "data:" } else { "data: " };
        let tail = if self.active.has(FaultKind::Crlf) { "\r\n\r\n" } else { "\n\n" };
        for part in [head, data, tail] {
            self.pending.extend_from_slice(part.as_bytes());
        }
        self.pending_events += u32::from(tokens > 0);
        self.pending_tokens += tokens;
    }

    fn flush(&mut self, steps: &mut Steps) {
        if self.pending.is_empty() {
            return;
        }
        let bytes = Bytes::from(std::mem::take(&mut self.pending));
        let tokens = std::mem::take(&mut self.pending_tokens);
        self.pending_events = 0;
        let (cuts, pause) = if let Some(fault) = self.active.get(FaultKind::Drip) {
            (vec![bytes.len() / 3, bytes.len() * 2 / 3], fault.duration)
        } else if self.active.has(FaultKind::SplitUtf8) {
            // 0b10…: a byte in the middle of a character.
            (bytes.iter().position(|byte| byte >> 6 == 0b10).into_iter().collect(), FLUSH)
        } else {
            (Vec::new(), FLUSH)
        };
        let mut from = 0;
        for cut in cuts {
            let bytes = bytes.slice(from..cut);
            steps.extend([Step::Write { bytes, tokens: 0 }, Step::Pause(pause)]);
            from = cut;
        }
        steps.push_back(Step::Write { bytes: bytes.slice(from..), tokens });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::fault::FaultSpec;
    use crate::sim::request::{Rules, parse};

    fn play(api: Api, body: &str, faults: &[&str]) -> Steps {
        let rules = Rules { model: "sim", max_model_len: 100, stop_after_tokens: None };
        let form = parse(api, body.as_bytes(), rules).unwrap();
        let faults: Vec<FaultSpec> = faults.iter().map(|f| f.parse().unwrap()).collect();
        let writer = Writer::new(api, form.token_ids, "cmpl-1", "sim", 1);
        let total = form.output_tokens;
        let active = Active::of(&faults, 0);
        let mut script = Script::new(form, writer, active, 1, Offer::Off);
        let mut steps = Steps::new();
        script.open(&mut steps);
        for place in 1..=total {
            if steps.iter().any(|step| matches!(step, Step::End(_))) {
                break;
            }
            let kind = if place == total { EventKind::Finished } else { EventKind::Token };
            let at_ns = u64::from(place) * 1_000_000;
            script.tick(Tick { at_ns, queued_ns: 0, scheduled_ns: 0, tokens: 1, kind }, &mut steps);
        }
        steps
    }

    fn text(steps: &Steps) -> String {
        let bytes: Vec<u8> = steps
            .iter()
            .filter_map(|s| if let Step::Write { bytes, .. } = s { Some(bytes) } else { None })
            .flatten()
            .copied()
            .collect();
        String::from_utf8(bytes).unwrap()
    }

    fn tokens(steps: &Steps) -> u32 {
        steps.iter().map(|s| if let Step::Write { tokens, .. } = s { *tokens } else { 0 }).sum()
    }

    const BODY: &str =
        r#"{"prompt":[1,2],"max_tokens":10,"stream_options":{"include_usage":true}}"#;

    #[test]
    fn a_plain_stream_has_a_write_for_each_event() {
        let steps = play(Api::Completions, BODY, &[]);
        assert_eq!(steps.len(), 10 + 3); // ten tokens, usage, [DONE], the end
        assert_eq!(tokens(&steps), 10);
        let text = text(&steps);
        assert!(
            text.ends_with("\"system_fingerprint\":\"inferometer-sim-0\"}\n\ndata: [DONE]\n\n")
        );
        assert_eq!(text.matches("\"finish_reason\":\"length\"").count(), 1);
    }

    #[test]
    fn each_fault_shows_in_the_bytes() {
        let stream = |fault: &str| play(Api::Completions, BODY, &[fault]);
        assert!(!text(&stream("no-usage")).contains("usage"));
        assert!(!text(&stream("no-done")).contains("[DONE]"));
        assert!(text(&stream("wrong-usage")).contains("\"completion_tokens\":17}"));
        assert!(!text(&stream("usage-with-choices")).contains("\"choices\":[]"));
        assert_eq!(text(&stream("burst:4")).matches("\"text\"").count(), 4); // 1, 4, 4, 1
        assert_eq!(tokens(&stream("truncate:3")), 3);
        assert_eq!(stream("truncate:3").back(), Some(&Step::End(Ending::Cut)));
        assert_eq!(stream("reset-during:3").back(), Some(&Step::End(Ending::Reset)));
        assert!(text(&stream("error-object:3")).contains("{\"error\": {\"message\""));
        assert!(
            text(&stream("error-string:3")).ends_with("{\"error\":\"the model has left\"}\n\n")
        );
        let interrupted = text(&stream("interrupted:3"));
        assert!(interrupted.ends_with("data: [DONE]\n\n"), "{interrupted}");
        assert!(!interrupted.contains("\"finish_reason\":\""));
        assert_eq!(stream("empty"), [Step::End(Ending::Clean)]);
        assert_eq!(text(&stream("no-tokens")), "data: [DONE]\n\n");
        assert!(text(&stream("crlf")).ends_with("data: [DONE]\r\n\r\n"));
        assert!(text(&stream("no-space")).starts_with("data:{"));
        let pauses = |steps: &Steps| steps.iter().filter(|s| matches!(s, Step::Pause(_))).count();
        assert_eq!(pauses(&stream("stall:1s")), 1);
        assert_eq!(pauses(&stream("drip:1ms")), 2 * 12);
        assert_eq!(stream("coalesce:5").len(), 2 + 3);
    }

    #[test]
    fn split_writes_end_inside_a_character() {
        let steps = play(Api::Completions, BODY, &["split-utf8"]);
        let broken = steps
            .iter()
            .any(|s| matches!(s, Step::Write { bytes, .. } if std::str::from_utf8(bytes).is_err()));
        assert!(broken);
        assert_eq!(text(&steps).matches("é日🔭").count(), 10);
        assert_eq!(tokens(&steps), 10);
    }

    #[test]
    fn chat_brings_the_role_once_and_reasoning_under_either_name() {
        let body = r#"{"messages":[{"role":"user","content":"the"}],"max_tokens":6}"#;
        for (fault, word) in
            [("reasoning:2", "reasoning"), ("reasoning-content:2", "reasoning_content")]
        {
            let steps = play(Api::Chat, body, &[fault, "role-first"]);
            let Some(Step::Write { tokens: 0, bytes }) = steps.front() else { panic!() };
            assert!(std::str::from_utf8(bytes).unwrap().contains("\"role\":\"assistant\""));
            let text = text(&steps);
            assert_eq!(text.matches("\"role\"").count(), 1);
            assert_eq!(text.matches(&format!("{{\"{word}\":")).count(), 2);
            assert_eq!(text.matches("{\"content\":").count(), 4);
        }
    }
}
