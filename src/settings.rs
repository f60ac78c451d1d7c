//! Every setting of a run, with its default and the reason for it.
