//! Limits open connections, in total and for each client address.
//!
//! A new connection evicts a silent one: of its own address if that has its share, of any address if the server has its
//! total. The caller reports the address of each connection, and the begin and end of authenticated requests.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Returns the address that shares are counted by: an IPv4 address, or the /64 network of an IPv6 address, which is one
/// site.
pub fn end_site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

/// Admits connections up to a total and up to a share of each address. Clones share it.
#[derive(Debug, Clone)]
pub struct ConnectionLimiter {
    state: Arc<Mutex<State>>,
    total: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct State {
    connections: HashMap<u64, Connection>,
    /// Counts admissions and ends of requests, which orders them without a clock.
    events: u64,
}

#[derive(Debug)]
struct Connection {
    /// `None` for a proxy, which has no share of its own.
    network: Option<IpAddr>,
    /// Whether an authenticated request has begun on it.
    authenticated: bool,
    /// The authenticated requests in progress.
    active: usize,
    /// The event at which its silence began.
    silent_since: u64,
    evicted: CancellationToken,
}

impl Connection {
    /// Returns the order of eviction, lowest first; `None` for a connection in use.
    fn rank(&self) -> Option<(bool, u64)> {
        (self.active == 0).then_some((self.authenticated, self.silent_since))
    }
}

/// An error of an admission: no connection can be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionLimitError {
    /// Every connection of the address is in use by an authenticated client.
    #[error("the address has its share of connections, and all are in use")]
    Address,
    /// Every connection of the server is in use.
    #[error("the server has as many connections as it may have, and all are in use")]
    Total,
}

impl ConnectionLimiter {
    /// Creates a limiter for `total` connections, and `per_address` of one address or IPv6 /64 network.
    pub fn new(total: usize, per_address: usize) -> Self {
        Self {
            state: Arc::default(),
            total,
            per_address,
        }
    }

    /// Admits a connection from `address`. Evicts the longest idle connection if necessary, preferring those without
    /// an authenticated request so far. A connection with a request in progress stays.
    ///
    /// # Errors
    /// Every connection that could be evicted is in use.
    pub fn admit(&self, address: IpAddr) -> Result<ConnectionPermit, ConnectionLimitError> {
        self.admit_as(Some(end_site(address)))
    }

    /// Admits a connection of a proxy, which carries the requests of many clients: it counts only towards the total.
    ///
    /// # Errors
    /// Every connection of the server is in use.
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
    /// Removes the longest idle of these connections. Looks at each: that is less work than accepting one.
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

/// The slot of an open connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    id: u64,
    evicted: CancellationToken,
}

impl ConnectionPermit {
    /// Returns once the connection is evicted and has to close.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Returns whether the connection is evicted.
    pub fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    /// Begins an authenticated request. The connection is not evicted before the guard is dropped, and its silence
    /// restarts then.
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

/// A request in progress. Dropping it ends the request.
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
