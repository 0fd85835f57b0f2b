//! Limits the open connections, in total and for each client address.
//!
//! At a limit, a new connection evicts an idle one: of the same address at the limit of the address, or of any address
//! at the total. The server reports the address of each connection, and the start and end of authenticated requests.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Returns the address for the limit of an address: an IPv4 address, or the /64 network of an IPv6 address, which
/// belongs to one site.
pub fn end_site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

/// Admits connections up to a total and up to a maximum for each address. Clones share the state.
#[derive(Debug, Clone)]
pub struct ConnectionLimiter {
    state: Arc<Mutex<State>>,
    total: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct State {
    connections: HashMap<u64, Connection>,
    /// The number of admissions and ends of requests so far. It orders these events without a clock.
    events: u64,
}

#[derive(Debug)]
struct Connection {
    /// The network of the client; `None` for a proxy, to which only the total applies.
    network: Option<IpAddr>,
    /// Whether the connection has had an authenticated request.
    authenticated: bool,
    /// The number of authenticated requests in progress.
    active: usize,
    /// The event since which the connection is idle.
    silent_since: u64,
    evicted: CancellationToken,
}

impl Connection {
    /// Returns the sort key for eviction, the lowest first; `None` for a connection in use.
    fn rank(&self) -> Option<(bool, u64)> {
        (self.active == 0).then_some((self.authenticated, self.silent_since))
    }
}

/// An error of an admission, because no connection can be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionLimitError {
    /// Authenticated clients use every connection of the address.
    #[error("the address has its share of connections, and all are in use")]
    Address,
    /// Authenticated clients use every connection of the server.
    #[error("the server has as many connections as it may have, and all are in use")]
    Total,
}

impl ConnectionLimiter {
    /// Creates a limiter for `total` connections, and `per_address` connections of one IPv4 address or IPv6 /64
    /// network.
    pub fn new(total: usize, per_address: usize) -> Self {
        Self {
            state: Arc::default(),
            total,
            per_address,
        }
    }

    /// Admits a connection from `address`. At a limit, evicts the connection that has been idle longest, and prefers
    /// those without an authenticated request so far. A connection with an authenticated request in progress is never
    /// evicted.
    ///
    /// # Errors
    /// All connections that could be evicted are in use.
    pub fn admit(&self, address: IpAddr) -> Result<ConnectionPermit, ConnectionLimitError> {
        self.admit_as(Some(end_site(address)))
    }

    /// Admits a connection from a proxy. It counts only towards the total, because it carries the requests of many
    /// clients.
    ///
    /// # Errors
    /// All connections of the server are in use.
    pub fn admit_proxy(&self) -> Result<ConnectionPermit, ConnectionLimitError> {
        self.admit_as(None)
    }

    fn admit_as(&self, network: Option<IpAddr>) -> Result<ConnectionPermit, ConnectionLimitError> {
        let mut state = self.state.lock();
        if network.is_some() {
            let of_address = |connection: &Connection| connection.network == network;
            let all = state.connections.values();
            if all.filter(|connection| of_address(connection)).count() >= self.per_address {
                state
                    .evict(of_address)
                    .ok_or(ConnectionLimitError::Address)?;
            }
        }
        if state.connections.len() >= self.total {
            state.evict(|_| true).ok_or(ConnectionLimitError::Total)?;
        }
        let id = state.next_event();
        let evicted = CancellationToken::new();
        let connection = Connection {
            network,
            authenticated: false,
            active: 0,
            silent_since: id,
            evicted: evicted.clone(),
        };
        state.connections.insert(id, connection);
        Ok(ConnectionPermit {
            limiter: self.clone(),
            id,
            evicted,
        })
    }
}

impl State {
    /// Evicts the longest idle connection that matches `among`. Scans all connections, which costs less than accepting
    /// one.
    fn evict(&mut self, among: impl Fn(&Connection) -> bool) -> Option<()> {
        let candidates = self.connections.iter();
        let (_, id) = candidates
            .filter(|(_, connection)| among(connection))
            .filter_map(|(id, connection)| Some((connection.rank()?, *id)))
            .min()?;
        self.connections.remove(&id)?.evicted.cancel();
        Some(())
    }

    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }
}

/// The slot of an open connection. Dropping it releases the slot.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    id: u64,
    evicted: CancellationToken,
}

impl ConnectionPermit {
    /// Waits until the connection is evicted. The caller then has to close it.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Returns whether the connection is evicted.
    pub fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    /// Begins an authenticated request. Until the guard is dropped, the connection cannot be evicted. Its idle time
    /// restarts when the guard is dropped.
    pub fn begin(&self) -> ActiveGuard {
        if let Some(connection) = self.limiter.state.lock().connections.get_mut(&self.id) {
            connection.authenticated = true;
            connection.active += 1;
        }
        ActiveGuard {
            limiter: self.limiter.clone(),
            id: self.id,
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.state.lock().connections.remove(&self.id);
    }
}

/// An authenticated request in progress. Dropping it ends the request.
#[derive(Debug)]
pub struct ActiveGuard {
    limiter: ConnectionLimiter,
    id: u64,
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        let now = state.next_event();
        if let Some(connection) = state.connections.get_mut(&self.id) {
            connection.active = connection.active.saturating_sub(1);
            connection.silent_since = now;
        }
    }
}

#[cfg(test)]
mod tests;
