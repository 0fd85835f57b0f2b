//! What cases cannot say: bounds on time, order and connections, and that whatever comes in, one envelope goes out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_json;
mod bad_requests;
mod cards;
mod connections;
mod credentials;
mod ends;
#[path = "../support/filter.rs"]
mod filter;
#[path = "../support/in_process.rs"]
#[allow(dead_code, reason = "its driver serves the recorded cases")]
mod in_process;
mod memory;
mod newer_version;
mod redundant;
mod rig;
mod side_by_side;
mod signed_cards;
mod speech;
mod turns;
mod updates;
