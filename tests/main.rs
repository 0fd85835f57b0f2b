//! Tests of the command, the host interfaces and their parts, as one binary.
//!
//! `cargo test` needs nothing beyond Rust. `cargo real` adds the tests that need Node.js, Python, Redis or Chromium.
//!
//! Parts of manifests and documents are generated: `UPDATE=1 cargo test -p openclaw-remote-agent-cli --test suite contract::`
//! updates them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports
)]

mod acp;
mod call;
mod callers;
mod cli;
mod conformance;
mod conformance_command;
mod contract;
mod credentials;
mod cuts;
mod egress;
mod faults;
mod gateway;
mod host_abi;
mod mcp;
mod package;
mod serve;
#[cfg(all(feature = "real", target_os = "linux"))]
mod soak;
mod support;
