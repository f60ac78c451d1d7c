//! Server-sent events from bytes.
//!
//! By the WHATWG standard (HTML, 9.2.6), on bytes: lines end at LF, CR or CRLF and nowhere else,
//! so that U+2028 inside JSON does not split a line; comments and unknown fields are skipped; a
//! byte-order mark at the start is dropped; an event that the stream breaks off is discarded.
//! An event whose only `data` line lies within one chunk is handed out without a copy.
//!
//! One thing goes beyond the standard: a field `error` is data of an event named so, as older
//! llama-servers break off an answer.

use std::ops::{ControlFlow, Range};

/// The longest event, bytes: its data, and any one line. Real servers have sent errors of
/// 2.7 MB; a line beyond this limit is not a token.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event beyond the decoder's limit. The decoder takes nothing more after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized {
    /// The limit, bytes.
    pub limit_bytes: usize,
}

/// What an event is named by its `event` field, as far as it matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Name {
    /// Anything else, or nothing.
    #[default]
    Other,
    /// `error`.
    Error,
}

/// One whole event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its name.
    pub name: Name,
    /// Its data lines, joined by LF.
    pub data: &'a [u8],
}

/// An incremental decoder: chunks in, split anywhere; the data of whole events out.
#[derive(Debug)]
pub struct Decoder {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The data lines so far of an event whose end has not come yet, joined by LF.
    data: Vec<u8>,
    pending: Pending,
    name: Name,
    start: Start,
    after_cr: bool,
    limit_bytes: usize,
}

/// Where the data of the event in progress lies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    /// It has none yet.
    None,
    /// One line, still in the chunk at hand.
    InChunk(Range<usize>),
    /// In `data`.
    Copied,
}

/// Whether a byte-order mark may still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    FirstLine,
    Later,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a stream, with the limit [`MAX_EVENT_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    /// A decoder with another limit, bytes.
    #[must_use]
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            pending: Pending::None,
            name: Name::Other,
            start: Start::FirstLine,
            after_cr: false,
            limit_bytes,
        }
    }

    /// Bytes of the event in progress that it holds between chunks.
    #[must_use]
    pub fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Takes the next bytes and hands every event they complete to `sink`, in order.
    /// Stops early, with the rest of the chunk dropped, where `sink` breaks.
    ///
    /// # Errors
    /// [`Oversized`] where an event, or a line, outgrows the limit.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Oversized> {
        let mut at = 0;
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            at = usize::from(chunk[0] == b'\n');
        }
        while let Some(length) = memchr::memchr2(b'\n', b'\r', &chunk[at..]) {
            let end = at + length;
            let flow = if self.line.is_empty() {
                self.take_line(chunk, at..end, &mut sink)?
            } else {
                self.carry(&chunk[at..end])?;
                self.take_carried(chunk, &mut sink)?
            };
            if flow.is_break() {
                self.pending = Pending::None;
                return Ok(flow);
            }
            at = end + 1;
            if chunk[end] == b'\r' {
                match chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
        }
        self.carry(&chunk[at..])?;
        self.keep_pending(chunk)?;
        Ok(ControlFlow::Continue(()))
    }

    /// One line that lies whole within `chunk`.
    fn take_line(
        &mut self,
        chunk: &[u8],
        mut range: Range<usize>,
        sink: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Oversized> {
        if range.len() > self.limit_bytes {
            return Err(Oversized { limit_bytes: self.limit_bytes });
        }
        if self.start == Start::FirstLine {
            self.start = Start::Later;
            if chunk[range.clone()].starts_with(BYTE_ORDER_MARK) {
                range.start += BYTE_ORDER_MARK.len();
            }
        }
        let line = &chunk[range.clone()];
        if line.is_empty() {
            return Ok(self.dispatch(chunk, sink));
        }
        let field = Field::of(line);
        self.name = field.name().unwrap_or(self.name);
        if let Some(offset) = field.data_at() {
            if self.pending == Pending::None {
                self.pending = Pending::InChunk(range.start + offset..range.end);
            } else {
                self.keep_pending(chunk)?;
                self.append(&line[offset..])?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// One line that began in an earlier chunk: its bytes are in `line`.
    fn take_carried(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Oversized> {
        let mut line = std::mem::take(&mut self.line);
        let result = self.take_carried_line(&line, chunk, sink);
        line.clear();
        self.line = line;
        result
    }

    fn take_carried_line(
        &mut self,
        line: &[u8],
        chunk: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Oversized> {
        let mut line = line;
        if self.start == Start::FirstLine {
            self.start = Start::Later;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch(chunk, sink));
        }
        let field = Field::of(line);
        self.name = field.name().unwrap_or(self.name);
        if let Some(offset) = field.data_at() {
            self.keep_pending(chunk)?;
            self.append(&line[offset..])?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The blank line: the event is whole.
    fn dispatch(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let name = std::mem::take(&mut self.name);
        match std::mem::replace(&mut self.pending, Pending::None) {
            Pending::None => ControlFlow::Continue(()),
            Pending::InChunk(range) => sink(Event { name, data: &chunk[range] }),
            Pending::Copied => {
                let flow = sink(Event { name, data: &self.data });
                self.data.clear();
                flow
            }
        }
    }

    /// Copies what still lies in the chunk, before the chunk goes or another line joins it.
    fn keep_pending(&mut self, chunk: &[u8]) -> Result<(), Oversized> {
        if let Pending::InChunk(range) = self.pending.clone() {
            self.pending = Pending::None;
            self.append(&chunk[range])?;
        }
        Ok(())
    }

    fn append(&mut self, value: &[u8]) -> Result<(), Oversized> {
        if self.data.len() + value.len() + 1 > self.limit_bytes {
            return Err(Oversized { limit_bytes: self.limit_bytes });
        }
        if self.pending == Pending::Copied {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.pending = Pending::Copied;
        Ok(())
    }

    fn carry(&mut self, part: &[u8]) -> Result<(), Oversized> {
        if self.line.len() + part.len() > self.limit_bytes {
            return Err(Oversized { limit_bytes: self.limit_bytes });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

/// The content of a line.
enum Field {
    /// Data, from this byte on.
    Data(usize),
    /// Data of an error, from this byte on.
    ErrorData(usize),
    Name(Name),
    /// A comment, `id`, `retry`, or a field unknown.
    Other,
}

impl Field {
    fn of(line: &[u8]) -> Self {
        let (name, value_at) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (&line[..colon], colon + 1 + space)
            }
            None => (line, line.len()),
        };
        match name {
            b"data" => Self::Data(value_at),
            b"error" => Self::ErrorData(value_at),
            b"event" if &line[value_at..] == b"error" => Self::Name(Name::Error),
            b"event" => Self::Name(Name::Other),
            _ => Self::Other,
        }
    }

    fn data_at(&self) -> Option<usize> {
        match *self {
            Self::Data(at) | Self::ErrorData(at) => Some(at),
            Self::Name(_) | Self::Other => None,
        }
    }

    fn name(&self) -> Option<Name> {
        match *self {
            Self::ErrorData(_) => Some(Name::Error),
            Self::Name(name) => Some(name),
            Self::Data(_) | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        for chunk in chunks {
            let flow = decoder.feed(chunk, |event| {
                events.push(event.data.to_vec());
                ControlFlow::Continue(())
            });
            assert_eq!(flow, Ok(ControlFlow::Continue(())));
        }
        events
    }

    #[track_caller]
    fn check(stream: &str, expect: &[&str]) {
        let expect: Vec<Vec<u8>> = expect.iter().map(|e| e.as_bytes().to_vec()).collect();
        assert_eq!(decode(&[stream.as_bytes()]), expect, "whole");
        for at in 0..=stream.len() {
            let (a, b) = stream.as_bytes().split_at(at);
            assert_eq!(decode(&[a, b]), expect, "split at {at}");
        }
        let single: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(decode(&single), expect, "byte by byte");
    }

    #[test]
    fn line_ends() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\r\n\ndata: b\n\r\n", &["a", "b"]);
    }

    #[test]
    fn fields() {
        check("data:a\n\ndata:  b\n\n", &["a", " b"]);
        check("data: a\ndata: b\ndata\ndata:c\n\n", &["a\nb\n\nc"]);
        check("data\n\ndata:\n\n", &["", ""]);
        check("event: x\nid: 1\nretry: 5\ndata: a\n\nevent: y\n\ndatum: z\n\n", &["a"]);
        check(" data: a\n\nDATA: b\n\n", &[]);
    }

    #[test]
    fn an_error_is_told_by_its_name_or_by_its_field() {
        let stream = "event: error\ndata: a\n\ndata: b\n\nevent:error\n\ndata: c\n\n\
            error: {}\n\nevent: error\nevent: message\ndata: d\n\ndata\nerror\n\n";
        let expect =
            [(true, "a"), (false, "b"), (false, "c"), (true, "{}"), (false, "d"), (true, "\n")];
        for size in [1, 3, stream.len()] {
            let mut decoder = Decoder::new();
            let mut events = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                let flow = decoder.feed(chunk, |event| {
                    let data = String::from_utf8(event.data.to_vec()).unwrap();
                    events.push((event.name == Name::Error, data));
                    ControlFlow::Continue(())
                });
                assert_eq!(flow, Ok(ControlFlow::Continue(())));
            }
            let events: Vec<(bool, &str)> = events.iter().map(|(e, d)| (*e, d.as_str())).collect();
            assert_eq!(events, expect, "{size}");
        }
    }

    #[test]
    fn comments_and_blank_lines() {
        check(": keep-alive\n\n:\n\n\n\ndata: a\n: in an event\ndata: b\n\n", &["a\nb"]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]);
        check("\u{feff}\ndata: a\n\n", &["a"]);
    }

    #[test]
    fn newline_like_characters_do_not_split() {
        check(
            "data: x\u{2028}y\u{2029}z\u{85}\u{b}\u{c}é\n\n",
            &["x\u{2028}y\u{2029}z\u{85}\u{b}\u{c}é"],
        );
    }

    #[test]
    fn a_broken_off_event_is_discarded() {
        check("data: a\n\ndata: b\n", &["a"]);
        check("data: a\n\ndata: b", &["a"]);
    }

    #[test]
    fn the_sink_can_stop() {
        let mut decoder = Decoder::new();
        let mut seen = 0;
        let flow = decoder.feed(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((flow, seen), (Ok(ControlFlow::Break(())), 1));
    }

    #[test]
    fn a_limit_holds_however_the_bytes_come() {
        let line = [b"data: ".as_slice(), &[b'x'; 100]].concat();
        let sink = |_: Event<'_>| ControlFlow::Continue(());
        let oversized = Err(Oversized { limit_bytes: 64 });
        let whole = [line.as_slice(), b"\n\n"].concat();
        assert_eq!(Decoder::with_limit(64).feed(&whole, sink), oversized, "whole");
        assert_eq!(Decoder::with_limit(64).feed(&line, sink), oversized, "without an end");
        let many = b"data: 0123456789\n".repeat(8);
        assert_eq!(Decoder::with_limit(64).feed(&many, sink), oversized, "many lines");
        assert_eq!(
            Decoder::with_limit(128).feed(&whole, sink),
            Ok(ControlFlow::Continue(())),
            "within the limit"
        );
    }

    #[test]
    fn a_limit_is_met_or_not_wherever_the_bytes_are_split() {
        let met = |stream: &[u8], at: usize| {
            let mut decoder = Decoder::with_limit(16);
            let (a, b) = stream.split_at(at);
            let sink = |_: Event<'_>| ControlFlow::Continue(());
            decoder.feed(a, sink).is_err() || decoder.feed(b, sink).is_err()
        };
        for (stream, expect) in [
            ("data: 0123456789\n\n", false),
            ("data: 0123456789a\n\n", true),
            ("data:0123456789ab\n\n", true),
            (": a comment of 17\n\n", true),
            (": a comment, 16.\n\n", false),
            ("retry: 1234567890\n", true),
            ("\u{feff}data: 01234567\n\n", true),
            ("data: 0123456\ndata: 01234567\n\n", false),
            ("data: 01234567\ndata: 01234567\n\n", true),
        ] {
            for at in 0..=stream.len() {
                assert_eq!(met(stream.as_bytes(), at), expect, "{stream:?} at {at}");
            }
        }
    }

    #[test]
    fn a_line_of_many_mebibytes() {
        let long = "y".repeat(15 * 1024 * 1024);
        let stream = format!("data: {long}\n\n");
        let chunks: Vec<&[u8]> = stream.as_bytes().chunks(65_536).collect();
        let events = decode(&chunks);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].len(), long.len());
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_give_the_same_events(
            bytes in proptest::collection::vec(
                prop_oneof![
                    Just(b"data".to_vec()), Just(b"data: ".to_vec()), Just(b":".to_vec()),
                    Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b"\r\n".to_vec()),
                    Just(BYTE_ORDER_MARK.to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let stream = bytes.concat();
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
            prop_assert_eq!(decode(&[&stream]), decode(&chunks));
        }
    }
}
