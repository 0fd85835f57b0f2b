//! Stores across the end of their process: SQLite, and with the feature `real` several servers on one Redis.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod record;
#[cfg(feature = "real")]
mod redis;
mod sqlite_crash;
