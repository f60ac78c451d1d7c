//! A histogram of gaps between tokens: what ITL and ICL are kept in.

/// Gaps in nanoseconds, to four significant digits.
#[derive(Debug, Clone)]
pub struct GapHistogram {}
