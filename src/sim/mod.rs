//! The embedded server: a continuous-batching scheduler with known truth.
//!
//! [`Engine`] is a pure state machine in virtual time; a virtual run plays loads against it without waiting,
//! [`SimServer`] plays it in real time over HTTP. It shares no reading of the protocol with the client's side.

pub mod config;
mod exposition;
pub mod fault;
mod http;
mod link;
pub mod noise;
mod player;
mod prefix_cache;
pub mod preset;
pub mod profile;
mod request;
mod routes;
pub mod scheduler;
mod stream;
mod stream_script;
pub mod truth;
mod vocabulary;
mod wire;

pub use config::SimConfig;

pub use http::SimServer;
pub use noise::start_seed;
pub use preset::Preset;
pub use profile::{FrontEnd, Profile};
pub use scheduler::{Engine, RequestSpec};
