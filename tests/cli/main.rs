//! The command as people and scripts use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod demo;
mod embedded;
mod failures;
mod follow_up;
mod gateway;
mod local_gateway;
mod package;
#[path = "../support/process.rs"]
mod process;
mod support;
