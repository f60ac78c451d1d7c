//! Export: results in the files of other tools.

pub(crate) mod vllm;
