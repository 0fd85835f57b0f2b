//! Credentials and certificates against servers that check them, and that none of them shows in anything that is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that is left out says so"
)]

mod authorization_server;
mod certificates;
mod echo;
#[path = "../support/in_process.rs"]
#[allow(dead_code, reason = "its driver serves the recorded cases")]
mod in_process;
mod oauth2;
mod pieces;
mod places;
#[path = "../faults/rig.rs"]
#[allow(dead_code, reason = "it serves the tests of faults as well")]
mod rig;
mod tls;
mod told;
