//! The reference gateway of the collective protocol `a2a-v1`.
//!
//! Agents and their callers connect over WebSockets. `server.rs` accepts a connection, `upgrade.rs` answers its HTTP request, and
//! `connection.rs` reads its frames through `socket.rs`, which bounds them. `handlers/` takes each frame: it parses the envelope,
//! asks [`access`] whether the client may send it, and stores it in [`sessions`]. A message goes to the `outbox.rs` of the
//! agent that `registry.rs` names, and waits in `connected_client.rs` for its reply. A proposal goes to `proposals.rs`, which
//! counts the votes of the triad. A request to a service leaves over HTTP. The reply takes the same way back, and [`audit`] writes
//! one line.
//!
//! `links.rs` names the agents of other gateways. The connection of another gateway is a client like others.
//!
//! `state.rs` holds what all connections share, with the limits of one identity in `shares.rs`, subscribers in `channels.rs` and
//! the keys of agents in `signing.rs`.
//! [`config`] has every setting. `manage.rs` is what an operator may do with sessions, while the gateway runs or not.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use base::{environment::SystemEnvironment, log::Silent};
//! use openclaw_remote_agent_gateway::{Server, config::ServerConfig};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let state_dir = std::env::temp_dir().join("gateway-example");
//! let config = ServerConfig {
//!     listen: "127.0.0.1:0".parse()?,
//!     state_dir: state_dir.clone(),
//!     ..ServerConfig::default()
//! };
//! let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent)).await?;
//! assert!(server.url().starts_with("ws://127.0.0.1:"));
//!
//! let shutdown = CancellationToken::new();
//! shutdown.cancel();
//! server.run(shutdown).await;
//! # std::fs::remove_dir_all(state_dir)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod access;
mod agent;
pub mod audit;
mod channels;
pub mod config;
mod connected_client;
mod connection;
mod frames;
mod handlers;
mod links;
mod local;
pub mod manage;
mod outbox;
mod probe;
mod proposals;
mod refusals;
mod registry;
mod server;
pub mod sessions;
mod shares;
mod signing;
mod socket;
mod state;
mod upgrade;

use std::path::Path;

use base::config::ConfigError;

pub use local::{LocalAgent, LocalLink};
pub use probe::{Occupant, identify_occupant};
pub use server::{Server, StartError};
pub use state::Timeouts;

/// Reads the configuration file at `path` and every file that it names, like the gateway at startup.
///
/// # Errors
/// The first problem, with its JSON Pointer.
pub fn validate(path: &Path) -> Result<config::ServerConfig, ConfigError> {
    let config = config::ServerConfig::read(path)?;
    access::Keyring::load(&config)?;
    links::Links::load(&config)?;
    if let Some(encryption) = &config.sessions.encryption {
        sessions::EncryptionKeys::load(encryption, |name| std::env::var(name).ok())?;
    }
    signing::Signing::load(&config, 0)?;
    if let Some(files) = &config.tls {
        server::tls_acceptor(files)?;
    }
    Ok(config)
}
