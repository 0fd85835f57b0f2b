//! Support of the integration suites: the command, real servers, packages below `target/`, generated documents.
//!
//! The module waits and panics as tests do, so it is behind the feature `support`, which only tests enable.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::len_without_is_empty,
    clippy::new_without_default,
    clippy::missing_panics_doc,
    reason = "used only in tests"
)]

pub mod driver;
pub mod generated;
pub mod host;
pub mod http;
pub mod journal;
pub mod jsonl_process;
pub mod node;
pub mod process;
pub mod redis_server;
pub mod sdk;
pub mod serve;
pub mod socket;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod trace;
pub mod webhook;

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a path below the checkout.
pub fn root(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// Reads a file of the checkout.
pub fn text(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("cannot read `{path}`: {error}"))
}

/// Returns a port for a process that needs its number before it listens.
///
/// The port is below the range from which the system chooses ports, so no other socket gets it in the meantime.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run side by side begin at different ports.
    let offset = std::process::id().wrapping_mul(64);
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + (offset.wrapping_add(next) % u32::from(COUNT)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Returns the directory that Cargo builds in.
pub fn target() -> PathBuf {
    let executable = env::current_exe().expect("a test has an executable");
    let mut folders = executable.ancestors();
    let target = folders.find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.expect("a test runs below `target/`").to_owned()
}

/// Returns the executable `remote-agent`, which Cargo builds beside the tests of its package.
pub fn command() -> PathBuf {
    let executable = env::current_exe().expect("a test has an executable");
    let profile = executable.parent().and_then(Path::parent);
    let name = format!("remote-agent{}", env::consts::EXE_SUFFIX);
    profile.expect("a test runs below `deps/`").join(name)
}
