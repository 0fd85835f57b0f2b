//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use crate::clients::ClientFileError;
use common::config::ConfigError;
use egress::NetError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file that it names, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file of clients cannot be used.
    #[error(transparent)]
    Clients(#[from] ClientFileError),
    /// The server cannot listen there.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Outgoing connections cannot be made.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The executor cannot be set up.
    #[error("{0}")]
    Executor(String),
    /// The store cannot be opened.
    #[error("the tasks cannot be kept: {0}")]
    Store(String),
}
