//! Takes connections, and ends them.

mod impatient;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

use super::guard::Proxies;
use common::connection_limit::{ConnectionHandle, ConnectionLimiter};
use impatient::Impatient;

/// The longest head of a request, in bytes; a longer one is answered with 431.
const HEAD: usize = 64 << 10;

/// How long the listener waits when the system gives it no socket.
const BREATH: Duration = Duration::from_millis(100);

/// The shortest time between two warnings of connections that are not accepted.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How many connections there may be, and how long they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    /// So many at a time. Then the longest-silent is closed for a newcomer.
    pub most: usize,
    /// So many of one address, or of one IPv6 /64 network.
    pub per_address: usize,
    /// Connections of these addresses count against `most` alone.
    pub proxies: Option<Proxies>,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take to arrive, and so how long a connection may be silent.
    pub head: Duration,
    /// How long a client may take nothing of an answer that waits for it.
    pub write: Duration,
    /// How long answers may take to end once the server is told to.
    pub drain: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 2048,
            per_address: 512,
            proxies: None,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(15),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(10),
        }
    }
}

/// Serves whoever connects until `stop` is cancelled. Then nobody else is let in, what is being answered is answered to its
/// end, and what takes longer than `connections.drain` is cut.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Router,
    connections: Connections,
    stop: CancellationToken,
) {
    let limiter = ConnectionLimiter::new(connections.most, connections.per_address);
    let running = TaskTracker::new();
    let cut = CancellationToken::new();
    let mut warned = None::<Instant>;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let proxies = connections.proxies.as_ref();
        let admitted = match proxies.is_some_and(|proxies| proxies.trust(remote.ip())) {
            true => limiter.admit_proxy(),
            false => limiter.admit(remote.ip()),
        };
        let permit = match admitted {
            Ok(permit) => permit,
            Err(error) => {
                if warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
                    warned = Some(Instant::now());
                    tracing::warn!(client = %remote.ip(), "cannot accept a connection: {error}; raise `connections` or `connectionsPerAddress` if this is no attack");
                }
                continue;
            }
        };
        let (tls, app) = (tls.clone(), app.clone());
        let (stop, cut) = (stop.clone(), cut.clone());
        let Connections {
            handshake,
            head,
            write,
            ..
        } = connections;
        running.spawn(async move {
            let handle = permit.handle();
            // Answers are small and waited for.
            let _ = stream.set_nodelay(true);
            let stream = Impatient::new(stream, write);
            let whole = async {
                match tls {
                    None => one(stream, remote, handle, app, head, stop).await,
                    Some(tls) => {
                        let secured = tls.accept(stream);
                        match tokio::time::timeout(handshake, secured).await {
                            Ok(Ok(stream)) => one(stream, remote, handle, app, head, stop).await,
                            Ok(Err(error)) => {
                                tracing::debug!(client = %remote.ip(), "no TLS connection: {error}");
                            }
                            Err(_) => {
                                tracing::debug!(client = %remote.ip(), "no TLS connection in time");
                            }
                        }
                    }
                }
            };
            tokio::select! {
                () = cut.cancelled() => {}
                () = permit.evicted() => {
                    tracing::debug!(client = %remote.ip(), "closed a silent connection to make room");
                }
                () = whole => {}
            }
        });
    }
    drop(listener);
    running.close();
    if tokio::time::timeout(connections.drain, running.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            "{} connections had not ended in time and are cut",
            running.len()
        );
        cut.cancel();
        running.wait().await;
    }
}

/// One connection, to its end.
async fn one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    remote: SocketAddr,
    handle: ConnectionHandle,
    app: Router,
    head: Duration,
    stop: CancellationToken,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut app = app.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(remote));
        request.extensions_mut().insert(handle.clone());
        async move {
            Ok::<_, Infallible>(
                app.call(request)
                    .await
                    .unwrap_or_else(|never| match never {}),
            )
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(client = %remote.ip(), "the connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
