//! Truth: what the server itself knows of each request's times.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The server's own times of one generation request, in nanoseconds of [`super::SimServer::clock`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruthRecord {
    /// The id in the response (`cmpl-…` or `chatcmpl-…`).
    pub id: String,
    /// When the request had been read.
    pub received_ns: u64,
    /// When the first token was handed to the socket; `None` where none was.
    pub first_token_ns: Option<u64>,
    /// When the last token was handed to the socket.
    pub last_token_ns: Option<u64>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens handed to the socket.
    pub output_tokens: u32,
}

/// The log, bounded.
#[derive(Debug)]
pub(crate) struct TruthLog {
    records: Mutex<Vec<TruthRecord>>,
    limit: usize,
}

impl TruthLog {
    pub(crate) fn new(limit: usize) -> Self {
        Self { records: Mutex::new(Vec::new()), limit }
    }

    pub(crate) fn push(&self, record: TruthRecord) {
        let mut records = lock(&self.records);
        if records.len() < self.limit {
            records.push(record);
        }
    }

    pub(crate) fn take(&self) -> Vec<TruthRecord> {
        std::mem::take(&mut *lock(&self.records))
    }
}

/// A lock whose holder panicked is still whole here: each holder writes one value.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
