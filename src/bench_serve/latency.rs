//! A latency in vLLM's words: its name in flags and files, its heading in the table.

/// A latency that vLLM's client reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Latency {
    Ttft,
    Tpot,
    Itl,
    E2el,
    ClientQueueTime,
    E2elIncludingClientQueue,
}

impl Latency {
    /// All of them, in the order in which they are printed and written.
    pub(crate) const ALL: [Self; 6] = [
        Self::Ttft,
        Self::Tpot,
        Self::Itl,
        Self::E2el,
        Self::ClientQueueTime,
        Self::E2elIncludingClientQueue,
    ];

    /// Its name in flags and fields.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2el => "e2el",
            Self::ClientQueueTime => "client_queue_time",
            Self::E2elIncludingClientQueue => "e2el_including_client_queue",
        }
    }

    /// Its name in the table, and its heading there.
    pub(crate) const fn heading(self) -> (&'static str, &'static str) {
        match self {
            Self::Ttft => ("TTFT", "Time to First Token"),
            Self::Tpot => ("TPOT", "Time per Output Token (excl. 1st token)"),
            Self::Itl => ("ITL", "Inter-token Latency"),
            Self::E2el => ("E2EL", "End-to-end Latency"),
            Self::ClientQueueTime => ("Client Queue Time", "Client-side Queueing"),
            Self::E2elIncludingClientQueue => {
                ("E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency")
            }
        }
    }
}
