//! The reference gateway of the collective protocol `a2a-v1`.
//!
//! Agents connect over WebSockets. The gateway routes messages between them, stores messages in sessions, counts the
//! votes of the triad and calls HTTP services.
//!
//! | module | content |
//! |---|---|
//! | [`config`], [`access`] | configuration, authentication, authorization |
//! | [`sessions`], [`manage`], [`audit`] | session store, operations on it, audit log |
//! | `server`, `upgrade`, `connection` | the listener, the upgrade request, one WebSocket |
//! | `connection_timeouts`, `outbox`, `connected_client` | timeouts, send queue and pending requests of one client |
//! | `state` | what all connections share: `registry`, `subscriptions`, `events`, `proposals`, `services` |
//! | `handlers` | one handler per group of message types |
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use common::{environment::SystemEnvironment, log::Silent};
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
pub mod audit;
pub mod config;
mod connected_client;
mod connection;
mod connection_timeouts;
mod error;
mod events;
mod frames;
mod handlers;
mod local;
pub mod manage;
mod names;
mod origin_check;
mod outbox;
mod probe;
mod proposals;
mod registry;
mod reply_context;
mod server;
mod services;
pub mod sessions;
mod shares;
mod socket;
mod state;
mod status;
mod subscriptions;
mod timeouts;
pub mod tls;
mod upgrade;

use std::path::Path;

use common::config::ConfigError;

pub use local::LocalAgent;
pub use probe::{Occupant, identify_occupant};
pub use server::{Server, StartError};
pub use timeouts::Timeouts;

/// Reads the configuration file at `path` and every file that it names, like the gateway at startup.
///
/// # Errors
/// The first problem, with its JSON Pointer.
pub fn validate(path: &Path) -> Result<config::ServerConfig, ConfigError> {
    let config = config::ServerConfig::read(path)?;
    access::Keyring::load(&config)?;
    if let Some(files) = &config.tls {
        tls::acceptor(files)?;
    }
    Ok(config)
}
