//! The reference gateway of `a2a-v1`: the collective's agents connect to it, and it passes their messages on.
//!
//! `config/` says how it is set up, `access/` who may do what, `sessions/` keeps what was said, `audit.rs` who said
//! something to whom, and `tls.rs` secures connections.
//!
//! `server.rs` listens (`probe.rs` finds out who else does). `upgrade.rs` opens a WebSocket where
//! `access_control.rs` allows it, `connection.rs` carries it: `outbox.rs`
//! holds what waits for it, `watch.rs` its time, `talk.rs` what it says, frame by frame. `hub.rs` is what all connections
//! share: `registry.rs` knows who is there and `watchers.rs` who wants to hear of it; `greet.rs`, `deliver.rs`, `replies.rs`,
//! `lists.rs`, `broadcast.rs`, `services.rs`, `own_service.rs` and `triad.rs` each answer a group of message types.

#![forbid(unsafe_code)]

pub mod access;
mod access_control;
pub mod audit;
mod broadcast;
mod client;
pub mod clients;
pub mod config;
mod connection;
mod deliver;
mod frames;
mod greet;
mod hub;
mod lists;
pub mod manage;
mod names;
mod outbox;
mod own_service;
mod pace;
mod probe;
mod proposals;
mod questions;
mod refusal;
mod registry;
mod replies;
mod reply_context;
mod server;
mod services;
pub mod sessions;
mod shutdown;
mod socket;
mod status;
mod talk;
pub mod tls;
mod triad;
mod upgrade;
mod watch;
mod watchers;

use std::path::Path;

use common::config::ConfigError;

pub use pace::Pace;
pub use probe::{Occupant, who_answers};
pub use server::{Server, StartError};
pub use services::{Health, health};

/// Reads the configuration in the file at `path`, and every file it names, as a gateway that starts would.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn validate(path: &Path) -> Result<config::ServerConfig, ConfigError> {
    let config = config::ServerConfig::read(path)?;
    access::Keyring::load(&config)?;
    if let Some(files) = &config.tls {
        tls::acceptor(files)?;
    }
    Ok(config)
}
