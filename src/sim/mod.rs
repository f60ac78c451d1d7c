//! The embedded server: a continuous-batching scheduler with known truth.
