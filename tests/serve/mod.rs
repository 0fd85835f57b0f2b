//! The command `remote-agent serve`, as a process, with real clients in front of it.

#[cfg(feature = "real")]
mod chromium;
mod cli;
#[cfg(feature = "real")]
mod clients;
mod crash;
pub(crate) use crate::contract::generated;
#[path = "../peers/hook.rs"]
mod hook;
#[path = "../openclaw/http.rs"]
mod http;
#[path = "../openclaw/journal.rs"]
mod journal;
#[cfg(feature = "real")]
mod page;
mod plain;
#[cfg(feature = "real")]
mod redis;
#[cfg(feature = "real")]
#[path = "../../crates/a2a-server/tests/support/redis_server.rs"]
mod redis_server;
mod removal;
mod safety;
pub(crate) use crate::support::sdk;
#[cfg(unix)]
mod secrets;
mod server;
mod tasks;

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
