//! Bounds the connections whose client is not authenticated yet, so that silent ones keep no client out.

use std::future::Future;
use std::io;
use std::sync::Arc;

use http_server::connection_limit::{ConnectionLimiter, ConnectionPermit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::pace::Pace;

/// So many connections may have no authenticated client. One more takes the place of the longest-silent one.
const MAX_UNAUTHENTICATED: usize = 512;

/// So many of them may come from one address, or from one /64 network of IPv6.
const MAX_PER_ADDRESS: usize = 128;

/// Accepts connections.
pub(super) struct Admission {
    limiter: ConnectionLimiter,
    /// Evicted connections have a moment left. These are the sockets that may be open in all.
    sockets: Arc<Semaphore>,
    /// Every socket is in use: evicted connections have no moment left.
    full: Arc<Notify>,
}

/// The place of a connection, held until its client is authenticated.
pub(super) struct Place {
    permit: ConnectionPermit,
    _socket: OwnedSemaphorePermit,
    full: Arc<Notify>,
}

impl Admission {
    pub(super) fn new() -> Self {
        Self {
            limiter: ConnectionLimiter::new(MAX_UNAUTHENTICATED, MAX_PER_ADDRESS),
            sockets: Arc::new(Semaphore::new(2 * MAX_UNAUTHENTICATED)),
            full: Arc::default(),
        }
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The system gives no socket.
    pub(super) async fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, Place)> {
        if self.sockets.available_permits() == 0 {
            self.full.notify_waiters();
        }
        let socket = Arc::clone(&self.sockets).acquire_owned().await;
        let socket = socket.map_err(io::Error::other)?;
        let (stream, remote) = listener.accept().await?;
        let permit = self.limiter.admit(remote.ip()).map_err(io::Error::other)?;
        let place = Place {
            permit,
            _socket: socket,
            full: Arc::clone(&self.full),
        };
        Ok((stream, place))
    }
}

impl Place {
    /// Runs a step of opening the connection. Returns `None` when its time is over, or another connection has the place.
    ///
    /// An evicted connection has `pace.eviction` left while sockets are free: where many clients connect at once, what it sent may not be read yet.
    pub(super) async fn open<T>(&self, pace: &Pace, step: impl Future<Output = T>) -> Option<T> {
        let evicted = async {
            self.permit.evicted().await;
            tokio::select! {
                () = sleep(pace.eviction) => {}
                () = self.full.notified() => {}
            }
        };
        tokio::select! {
            biased;
            done = timeout(pace.opening, step) => done.ok(),
            () = evicted => None,
        }
    }

    /// Whether another connection has the place.
    pub(super) fn is_evicted(&self) -> bool {
        use futures_util::FutureExt as _;
        self.permit.evicted().now_or_never().is_some()
    }
}
