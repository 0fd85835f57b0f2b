//! The local gateway: the bridge against real and scripted gateways, and the reference gateway itself.

// Printing is for the tables of results, under `--nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub
)]

#[path = "../support/authority.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod authority;
mod crash;
mod dialects;
mod errors;
#[path = "../support/filter.rs"]
mod filter;
#[path = "../support/folder.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod folder;
mod heard;
mod hostile;
#[path = "../support/in_process.rs"]
#[allow(dead_code, reason = "its driver serves the recorded cases")]
mod in_process;
mod javascript;
#[path = "../support/node.rs"]
#[allow(unreachable_pub, reason = "other test binaries show it to theirs")]
mod npm;
mod resolutions;
#[path = "../faults/rig.rs"]
#[allow(dead_code, reason = "half of it is about peers elsewhere")]
mod rig;
mod served;
mod server;
mod spoken;
mod support;
mod tallies;
