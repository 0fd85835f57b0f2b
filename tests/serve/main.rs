//! The command `remote-agent serve`, as a process, with real clients in front of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

mod chromium;
mod cli;
mod clients;
mod crash;
#[path = "../contract/generated.rs"]
#[allow(dead_code)]
mod generated;
#[path = "../peers/hook.rs"]
#[allow(dead_code)]
mod hook;
#[path = "../openclaw/http.rs"]
#[allow(dead_code)]
mod http;
#[path = "../openclaw/journal.rs"]
#[allow(dead_code)]
mod journal;
mod page;
mod plain;
mod redis;
#[path = "../../server/tests/support/redis_server.rs"]
#[allow(dead_code)]
mod redis_server;
mod removal;
mod safety;
#[path = "../support/sdk/mod.rs"]
#[allow(dead_code)]
mod sdk;
#[cfg(unix)]
mod secrets;
mod server;
mod tasks;

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
