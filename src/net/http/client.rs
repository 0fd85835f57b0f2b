//! Clients: a pool of connections each.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::Connector;

/// An idle connection is given up before the usual server does it (Node.js and uvicorn close after 5 seconds): a request
/// written to a connection that is being closed fails, and nobody can tell whether it arrived.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_PER_HOST: usize = 64;

/// Sends a request over a kept connection, or a new one. It repeats a request only where a kept connection turned out to
/// be closed before the first byte was written.
pub(super) type Client = legacy::Client<Connector, Full<Bytes>>;

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It carries requests, one after another.
    Exchange,
    /// It becomes something else than HTTP.
    Upgrade,
}

/// A client without connections.
pub(super) fn new(connector: Connector, used: Use) -> Client {
    let idle = match used {
        Use::Exchange => IDLE_PER_HOST,
        Use::Upgrade => 0,
    };
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        .set_host(false)
        .build(connector)
}
