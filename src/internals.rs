//! The inside, for the fuzz targets, the benches and the tests of the binary. Nothing of it is promised.

macro_rules! rooms {
    ($($name:ident { $($inner:ident)* })*) => {
        $(pub mod $name {
            pub use crate::$name::*;
            $(pub mod $inner { pub use crate::$name::$inner::*; })*
        })*
    };
}

rooms! {
    analysis {}
    api { chat completions template_cache }
    clock {}
    compare {}
    drive {}
    harness {}
    plan {}
    record { request stored }
    scenario {}
    selftest { fidelity }
    settings {}
    sim {}
    store { files }
    telemetry { host }
    transport { client sse }
    units {}
}
