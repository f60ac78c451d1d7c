//! Fault: a way in which the embedded server misbehaves on purpose, and on which requests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::units::parse_duration;

/// What goes wrong. Each is a behaviour that some real server, proxy or network has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// 401 whatever the key.
    Unauthorized,
    /// 429 with `Retry-After`.
    RateLimit,
    /// 500 with a JSON error.
    ServerError,
    /// 502 with an HTML page, as gateways answer.
    BadGateway,
    /// 503 with vLLM's words for a full queue.
    Unavailable,
    /// 400 for any request that carries `ignore_eos`.
    RejectIgnoreEos,
    /// The connection is reset and the port closed for a while.
    Refuse,
    /// The connection is reset before the response.
    ResetBefore,
    /// A reused connection is reset before the response: the server had closed it already.
    Stale,
    /// The response's head comes late.
    LateHead,
    /// The first token comes late, after the head.
    LateToken,
    /// The connection is reset after some tokens.
    ResetDuring,
    /// The connection ends after some tokens without the last chunk of the chunked encoding.
    Truncate,
    /// An error object inside the 200 stream after some tokens, then `[DONE]`.
    ErrorObject,
    /// An error string inside the 200 stream after some tokens, then the end.
    ErrorString,
    /// 200 with an empty body.
    EmptyBody,
    /// 200 with a stream that holds no token.
    NoTokens,
    /// `[DONE]` after some tokens without a finish reason.
    Interrupted,
    /// A pause in the middle of the stream.
    Stall,
    /// Each event in three writes with a pause between them.
    Drip,
    /// The role-only chunk at once, long before the first token (chat).
    RoleFirst,
    /// Several tokens in one event.
    Burst,
    /// Several events in one write.
    Coalesce,
    /// Multi-byte text, and writes that end inside a character.
    SplitUtf8,
    /// `: keep-alive` comments while the client waits.
    KeepAlive,
    /// No usage although it was asked for.
    NoUsage,
    /// Usage in the finish chunk, with choices.
    UsageWithChoices,
    /// Usage that counts seven tokens too many.
    WrongUsage,
    /// No `[DONE]`.
    NoDone,
    /// `max_tokens` is ignored: twice as many tokens come.
    IgnoreMaxTokens,
    /// The first tokens are reasoning, in `reasoning` (chat).
    Reasoning,
    /// The first tokens are reasoning, in `reasoning_content` (chat).
    ReasoningContent,
    /// Lines end with CRLF.
    Crlf,
    /// `data:` without the space.
    NoSpace,
    /// A connection is closed after this many requests.
    CloseAfter,
    /// An idle connection is closed after a while.
    IdleClose,
}

#[derive(Clone, Copy)]
enum Argument {
    None,
    Count(u32),
    TimeMs(u64),
}

/// Every kind: its name and its argument with the default.
const KINDS: [(FaultKind, &str, Argument); 36] = [
    (FaultKind::Unauthorized, "401", Argument::None),
    (FaultKind::RateLimit, "429", Argument::TimeMs(2000)),
    (FaultKind::ServerError, "500", Argument::None),
    (FaultKind::BadGateway, "502", Argument::None),
    (FaultKind::Unavailable, "503", Argument::None),
    (FaultKind::RejectIgnoreEos, "reject-ignore-eos", Argument::None),
    (FaultKind::Refuse, "refuse", Argument::TimeMs(500)),
    (FaultKind::ResetBefore, "reset-before", Argument::None),
    (FaultKind::Stale, "stale", Argument::None),
    (FaultKind::LateHead, "late-head", Argument::TimeMs(500)),
    (FaultKind::LateToken, "late-token", Argument::TimeMs(500)),
    (FaultKind::ResetDuring, "reset-during", Argument::Count(3)),
    (FaultKind::Truncate, "truncate", Argument::Count(3)),
    (FaultKind::ErrorObject, "error-object", Argument::Count(3)),
    (FaultKind::ErrorString, "error-string", Argument::Count(3)),
    (FaultKind::EmptyBody, "empty", Argument::None),
    (FaultKind::NoTokens, "no-tokens", Argument::None),
    (FaultKind::Interrupted, "interrupted", Argument::Count(3)),
    (FaultKind::Stall, "stall", Argument::TimeMs(500)),
    (FaultKind::Drip, "drip", Argument::TimeMs(2)),
    (FaultKind::RoleFirst, "role-first", Argument::None),
    (FaultKind::Burst, "burst", Argument::Count(4)),
    (FaultKind::Coalesce, "coalesce", Argument::Count(3)),
    (FaultKind::SplitUtf8, "split-utf8", Argument::None),
    (FaultKind::KeepAlive, "keep-alive", Argument::TimeMs(5)),
    (FaultKind::NoUsage, "no-usage", Argument::None),
    (FaultKind::UsageWithChoices, "usage-with-choices", Argument::None),
    (FaultKind::WrongUsage, "wrong-usage", Argument::None),
    (FaultKind::NoDone, "no-done", Argument::None),
    (FaultKind::IgnoreMaxTokens, "ignore-max-tokens", Argument::None),
    (FaultKind::Reasoning, "reasoning", Argument::Count(4)),
    (FaultKind::ReasoningContent, "reasoning-content", Argument::Count(4)),
    (FaultKind::Crlf, "crlf", Argument::None),
    (FaultKind::NoSpace, "no-space", Argument::None),
    (FaultKind::CloseAfter, "close-after", Argument::Count(100)),
    (FaultKind::IdleClose, "idle-close", Argument::TimeMs(5000)),
];

/// A fault and the requests it strikes: of the generation requests after the first `skip`, every `every`-th,
/// at most `limit` of them. Parsed from `every=10,kind=stall:500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultSpec {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Its count, for kinds with one (tokens, events or requests).
    pub count: u32,
    /// Its duration, for kinds with one.
    pub duration: Duration,
    /// Strikes every n-th request; at least 1.
    pub every: u64,
    /// Spares this many requests first.
    pub skip: u64,
    /// Strikes at most this many.
    pub limit: u64,
}

impl FaultSpec {
    /// This kind with its default argument, on every request.
    #[must_use]
    pub fn new(kind: FaultKind) -> Self {
        let argument = KINDS.iter().find(|k| k.0 == kind).map_or(Argument::None, |k| k.2);
        let (count, ms) = match argument {
            Argument::None => (0, 0),
            Argument::Count(count) => (count, 0),
            Argument::TimeMs(ms) => (0, ms),
        };
        let duration = Duration::from_millis(ms);
        Self { kind, count, duration, every: 1, skip: 0, limit: u64::MAX }
    }

    /// The names of all kinds, each with its default argument where it takes one: `stall[:500ms]`.
    #[must_use]
    pub fn kinds() -> Vec<String> {
        let with_argument = |(_, name, argument): &(FaultKind, &str, Argument)| match argument {
            Argument::None => (*name).to_owned(),
            Argument::Count(default) => format!("{name}[:{default}]"),
            Argument::TimeMs(default) => format!("{name}[:{default}ms]"),
        };
        KINDS.iter().map(with_argument).collect()
    }

    /// Whether it strikes generation request number `index`, counted from 0.
    #[must_use]
    pub fn strikes(&self, index: u64) -> bool {
        let Some(after) = index.checked_sub(self.skip) else { return false };
        let every = self.every.max(1);
        (after + 1).is_multiple_of(every) && after / every < self.limit
    }
}

impl FromStr for FaultSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (mut every, mut skip, mut limit) = (1, 0, u64::MAX);
        let mut spec = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or(("kind", part));
            let number = || {
                value.parse::<u64>().map_err(|_| {
                    Error::usage(format!("`{key}={value}` in fault `{text}` is not a whole number"))
                })
            };
            match key {
                "kind" => spec = Some(parse_kind(value)?),
                "every" => every = number()?.max(1),
                "skip" => skip = number()?,
                "limit" => limit = number()?,
                _ => {
                    return Err(Error::usage(format!("unknown word `{key}` in fault `{text}`"))
                        .with_hint("words: `kind`, `every`, `skip`, `limit`, as in `every=10,kind=stall:500ms`"));
                }
            }
        }
        let spec = spec.ok_or_else(|| unknown_kind(text))?;
        Ok(Self { every, skip, limit, ..spec })
    }
}

fn parse_kind(text: &str) -> Result<FaultSpec> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    let found = KINDS.iter().find(|k| k.1 == name).ok_or_else(|| unknown_kind(text))?;
    let mut spec = FaultSpec::new(found.0);
    match (found.2, argument) {
        (_, None) => {}
        (Argument::None, Some(_)) => {
            return Err(Error::usage(format!("fault `{name}` takes no argument")));
        }
        (Argument::Count(_), Some(argument)) => {
            spec.count = argument.parse().map_err(|_| {
                Error::usage(format!("`{argument}` is not a count, in fault `{text}`"))
            })?;
        }
        (Argument::TimeMs(_), Some(argument)) => spec.duration = parse_duration(argument)?,
    }
    Ok(spec)
}

fn unknown_kind(text: &str) -> Error {
    let kinds = FaultSpec::kinds().join(", ");
    Error::usage(format!("no known fault in `{text}`"))
        .with_hint(format!("kinds, with their default arguments: {kinds}"))
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.every > 1 {
            write!(f, "every={},", self.every)?;
        }
        if self.skip > 0 {
            write!(f, "skip={},", self.skip)?;
        }
        if self.limit < u64::MAX {
            write!(f, "limit={},", self.limit)?;
        }
        let Some((_, name, argument)) = KINDS.iter().find(|k| k.0 == self.kind) else {
            return Ok(());
        };
        write!(f, "kind={name}")?;
        match argument {
            Argument::None => Ok(()),
            Argument::Count(_) => write!(f, ":{}", self.count),
            Argument::TimeMs(_) => write!(f, ":{}ms", self.duration.as_millis()),
        }
    }
}

/// The faults that strike one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active(Vec<FaultSpec>);

impl Active {
    pub(crate) fn of(faults: &[FaultSpec], index: u64) -> Self {
        Self(faults.iter().filter(|fault| fault.strikes(index)).copied().collect())
    }

    pub(crate) fn get(&self, kind: FaultKind) -> Option<&FaultSpec> {
        self.0.iter().find(|fault| fault.kind == kind)
    }

    pub(crate) fn has(&self, kind: FaultKind) -> bool {
        self.get(kind).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_parses_and_prints_back() {
        for (kind, name, _) in KINDS {
            let spec: FaultSpec = format!("every=10,kind={name}").parse().unwrap();
            assert_eq!(spec.kind, kind);
            assert_eq!(spec.to_string().parse::<FaultSpec>().unwrap(), spec);
        }
        let stall: FaultSpec = "every=10,skip=3,limit=2,kind=stall:1.5s".parse().unwrap();
        assert_eq!(stall.duration, Duration::from_millis(1500));
        assert_eq!("truncate:9".parse::<FaultSpec>().unwrap().count, 9);
    }

    #[test]
    fn errors_list_the_kinds() {
        for bad in ["", "kind=melt", "every=3"] {
            let error = bad.parse::<FaultSpec>().unwrap_err();
            assert!(error.hint().unwrap().contains("stall[:500ms]"), "{bad}");
        }
        for bad in ["every=x,kind=401", "kind=401:3", "kind=stall:3", "kind=burst:x", "when=1"] {
            assert!(bad.parse::<FaultSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn strikes_the_nth_after_the_skipped_up_to_the_limit() {
        let spec: FaultSpec = "every=3,skip=2,limit=2,kind=401".parse().unwrap();
        let struck: Vec<u64> = (0..20).filter(|i| spec.strikes(*i)).collect();
        assert_eq!(struck, [4, 7]);
    }
}
