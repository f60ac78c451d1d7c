//! `bench-serve`: the command, the printed table and the result file of `vllm bench serve`.

pub(crate) mod flags;
