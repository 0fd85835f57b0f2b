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

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "config",
        run: tool::config,
    },
    Target {
        name: "request",
        run: tool::request,
    },
    Target {
        name: "continuation",
        run: tool::continuation,
    },
    Target {
        name: "card",
        run: tool::card,
    },
    Target {
        name: "reply_v0_3",
        run: tool::reply_v0_3,
    },
    Target {
        name: "reply_v1_0",
        run: tool::reply_v1_0,
    },
    Target {
        name: "reply_http_json",
        run: tool::reply_http_json,
    },
    Target {
        name: "stream_v0_3",
        run: tool::stream_v0_3,
    },
    Target {
        name: "stream_v1_0",
        run: tool::stream_v1_0,
    },
    Target {
        name: "collective_frame",
        run: parsers::collective_frame,
    },
    Target {
        name: "jws",
        run: parsers::jws,
    },
    Target {
        name: "api_request",
        run: parsers::api_request,
    },
    Target {
        name: "openclaw_frames",
        run: frames::openclaw,
    },
    Target {
        name: "a2a_v1_frames",
        run: frames::a2a_v1,
    },
    Target {
        name: "serve_request",
        run: servers::serve_request,
    },
    Target {
        name: "mcp_request",
        run: servers::mcp_request,
    },
    Target {
        name: "gateway_frames",
        run: servers::gateway_frames,
    },
];

/// Returns the target with this name.
#[must_use]
pub fn target(name: &str) -> Option<fn(&[u8])> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.map(|target| target.run)
}
