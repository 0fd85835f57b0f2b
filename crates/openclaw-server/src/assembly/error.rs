//! Errors that prevent the server from starting.

use std::io;
use std::net::SocketAddr;

use crate::clients::ClientFileError;
use base::config::ConfigError;
use egress::NetError;

/// An error that prevents the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file in it, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client file cannot be used.
    #[error(transparent)]
    Clients(#[from] ClientFileError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The configured listen address.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The client for outgoing connections cannot be created.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The executor cannot be created.
    #[error("{0}")]
    Executor(String),
    /// The task store cannot be opened.
    #[error("cannot open the task store: {0}")]
    Store(String),
}
