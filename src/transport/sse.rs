//! Server-sent events from bytes.
