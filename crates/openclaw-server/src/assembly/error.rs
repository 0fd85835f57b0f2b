//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use crate::clients::ClientFileError;
use common::config::ConfigError;
use egress::NetError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration or a file that it names is unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client file is unusable.
    #[error(transparent)]
    Clients(#[from] ClientFileError),
    /// The address is unusable.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The client for outgoing connections is unusable.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The executor is unusable.
    #[error("{0}")]
    Executor(String),
    /// The store is unusable.
    #[error("cannot open the task store: {0}")]
    Store(String),
}
