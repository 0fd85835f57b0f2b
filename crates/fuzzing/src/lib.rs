//! Fuzz targets, which check properties that hold for every external input, and [a deterministic simulation](simulation) of
//! many processes with faults.
//!
//! Each [`Target`] passes bytes to one entry point of the product and panics if a property does not hold: the product
//! panics, an envelope violates its schema, a result contains a secret, or a server no longer responds. `fuzz/` runs the
//! targets with cargo-fuzz for hours. `tests/smoke.rs` runs each one on its corpus in `fuzz/seeds/` and on some mutations.
//!
//! ```
//! let card = openclaw_remote_agent_fuzzing::target("card").unwrap();
//! card(br#"{"name": "Desk", "supportedInterfaces": 7}"#);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken property is a panic"
)]

mod frames;
mod parsers;
mod servers;
pub mod simulation;
mod tool;

pub use tool::{check_schema, envelope};

/// An entry point for arbitrary bytes.
pub struct Target {
    /// The name of the target, of its corpus and of its program in `fuzz/`.
    pub name: &'static str,
    /// Passes the bytes to the entry point. Panics if a property does not hold.
    pub run: fn(&[u8]),
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self { name, run }
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::new("config", tool::config),
    Target::new("request", tool::request),
    Target::new("continuation", tool::continuation),
    Target::new("card", tool::card),
    Target::new("reply_v0_3", tool::reply_v0_3),
    Target::new("reply_v1_0", tool::reply_v1_0),
    Target::new("reply_http_json", tool::reply_http_json),
    Target::new("stream_v0_3", tool::stream_v0_3),
    Target::new("stream_v1_0", tool::stream_v1_0),
    Target::new("collective_frame", parsers::collective_frame),
    Target::new("jws", parsers::jws),
    Target::new("api_request", parsers::api_request),
    Target::new("openclaw_frames", frames::openclaw),
    Target::new("a2a_v1_frames", frames::a2a_v1),
    Target::new("serve_request", servers::serve_request),
    Target::new("mcp_request", servers::mcp_request),
    Target::new("gateway_frames", servers::gateway_frames),
];

/// Returns the target with this name.
#[must_use]
pub fn target(name: &str) -> Option<fn(&[u8])> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.map(|target| target.run)
}
