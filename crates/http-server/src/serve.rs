//! Accepts connections and serves HTTP on them, with a timeout for writes.

use std::convert::Infallible;
use std::future::Future as _;
use std::io;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use base::config::millis;
use base::settings;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

use crate::connection_limit::{ActiveGuard, ConnectionLimiter, ConnectionPermit};
use crate::host::TrustedProxies;

/// How long to wait after a failed `accept`, for example because the process has no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The minimum time between two warnings of the same kind.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

settings! {
    /// The limits and timeouts of connections.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct ConnectionConfig {
        /// The maximum number of connections. Beyond it, a new connection evicts the longest idle one.
        #[serde(rename = "connections")]
        pub total: usize = 2048,
        /// The maximum number of connections of one IPv4 address or IPv6 /64 network.
        #[serde(skip)]
        pub per_address: usize = 512,
        /// The trusted proxies, whose connections count only towards `total`.
        #[serde(skip)]
        pub proxies: Option<TrustedProxies>,
        /// The maximum size of a request head in bytes, at least 8192. A larger head results in the status 431.
        #[serde(skip)]
        pub max_header_bytes: usize = 64 << 10,
        /// How long a TLS handshake may take.
        #[serde(skip)]
        pub handshake_timeout: Duration = Duration::from_secs(10),
        /// How long a request head may take to arrive. This is also the maximum idle time of a connection.
        #[serde(rename = "headerTimeoutMs", deserialize_with = "millis")]
        pub header_timeout: Duration = Duration::from_secs(15),
        /// How long a client may leave a pending response unread.
        #[serde(skip)]
        pub write_timeout: Duration = Duration::from_secs(30),
        /// How long an evicted connection may remain open while sockets are available. When many clients connect at once,
        /// the server may not yet have read its request.
        #[serde(skip)]
        pub eviction_grace: Duration = Duration::ZERO,
        /// How long pending responses may take after `stop` is cancelled.
        #[serde(rename = "shutdownTimeoutMs", deserialize_with = "millis")]
        pub drain_timeout: Duration = Duration::from_secs(10),
    }
}

/// A connection, as an extension of its requests. A request that outlives the connection, such as an upgraded one, must
/// keep this value to keep the slot.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Admitted>);

#[derive(Debug)]
struct Admitted {
    permit: ConnectionPermit,
    certificate: Option<CertificateDer<'static>>,
    _socket: OwnedSemaphorePermit,
}

impl Connection {
    fn new(
        permit: ConnectionPermit,
        certificate: Option<CertificateDer<'static>>,
        socket: OwnedSemaphorePermit,
    ) -> Self {
        Self(Arc::new(Admitted {
            permit,
            certificate,
            _socket: socket,
        }))
    }

    /// Begins an authenticated request. The connection cannot be evicted until the guard is dropped.
    pub fn begin(&self) -> ActiveGuard {
        self.0.permit.begin()
    }

    /// Returns whether the connection is evicted.
    pub fn is_evicted(&self) -> bool {
        self.0.permit.is_evicted()
    }

    /// Returns the client's certificate, if TLS requires one.
    pub fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.0.certificate.as_ref()
    }
}

/// The state that all connections share.
struct Server {
    tls: Option<TlsAcceptor>,
    app: Router,
    config: ConnectionConfig,
    /// Permits for the sockets that may be open, including those of evicted connections.
    sockets: Arc<Semaphore>,
    /// Notified when all sockets are in use, so that evicted connections are closed at once.
    out_of_sockets: Notify,
    stop: CancellationToken,
}

/// Serves `app` until `stop` is cancelled. Then stops accepting connections, finishes the requests in progress, and
/// aborts those that take longer than `config.drain_timeout`. Calls `warn` with errors of accepting.
///
/// Each request has two extensions: [`ConnectInfo`] with the remote address, and [`Connection`].
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Router,
    config: ConnectionConfig,
    stop: CancellationToken,
    warn: impl Fn(&str),
) {
    let limiter = ConnectionLimiter::new(config.total, config.per_address);
    let running = TaskTracker::new();
    let cut = CancellationToken::new();
    let server = Arc::new(Server {
        sockets: Arc::new(Semaphore::new(2 * config.total)),
        out_of_sockets: Notify::new(),
        tls,
        app,
        config,
        stop: stop.clone(),
    });
    let (mut failed, mut rejected) = (WarningLimiter::default(), WarningLimiter::default());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = server.accept(&listener) => accepted,
        };
        let (stream, remote, socket) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(since) = failed.admit() {
                    warn(&format!("cannot accept a connection: {error}{since}"));
                }
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let proxies = server.config.proxies.as_ref();
        let admitted = match proxies.is_some_and(|proxies| proxies.contains(remote.ip())) {
            true => limiter.admit_proxy(),
            false => limiter.admit(remote.ip()),
        };
        let permit = match admitted {
            Ok(permit) => permit,
            Err(error) => {
                if let Some(since) = rejected.admit() {
                    warn(&format!(
                        "cannot accept a connection of {}: {error}; raise `connections` or `connectionsPerAddress` unless this is an attack{since}",
                        remote.ip()
                    ));
                }
                continue;
            }
        };
        let (server, cut) = (Arc::clone(&server), cut.clone());
        running.spawn(async move {
            let served = server.accept_connection(stream, remote, permit, socket);
            cut.run_until_cancelled(served).await;
        });
    }
    drop(listener);
    running.close();
    if timeout(server.config.drain_timeout, running.wait())
        .await
        .is_err()
    {
        warn(&format!(
            "cutting {} connections that did not end in time",
            running.len()
        ));
        cut.cancel();
        running.wait().await;
    }
}

/// Allows one warning per [`WARNING_INTERVAL`], and counts the suppressed ones.
#[derive(Debug, Default)]
struct WarningLimiter {
    admitted: Option<Instant>,
    suppressed: u64,
}

impl WarningLimiter {
    /// Returns the suffix of a warning with the number of suppressed warnings; `None` if this warning is suppressed.
    fn admit(&mut self) -> Option<String> {
        if self
            .admitted
            .is_some_and(|at| at.elapsed() < WARNING_INTERVAL)
        {
            self.suppressed += 1;
            return None;
        }
        self.admitted = Some(Instant::now());
        Some(match std::mem::take(&mut self.suppressed) {
            0 => String::new(),
            more => format!(" ({more} more since the last warning)"),
        })
    }
}

impl Server {
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        if self.sockets.available_permits() == 0 {
            self.out_of_sockets.notify_waiters();
        }
        let socket = Arc::clone(&self.sockets).acquire_owned().await;
        let socket = socket.map_err(std::io::Error::other)?;
        let (stream, remote) = listener.accept().await?;
        Ok((stream, remote, socket))
    }

    /// Performs the TLS handshake if the server has TLS, and serves the connection until it ends.
    async fn accept_connection(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        permit: ConnectionPermit,
        socket: OwnedSemaphorePermit,
    ) {
        // Disable Nagle's algorithm, because responses are small and latency matters.
        let _ = stream.set_nodelay(true);
        let stream = WriteTimeout::new(stream, self.config.write_timeout);
        let Some(tls) = &self.tls else {
            let connection = Connection::new(permit, None, socket);
            return self.serve_connection(stream, remote, connection).await;
        };
        let handshake = timeout(self.config.handshake_timeout, tls.accept(stream));
        let secured = tokio::select! {
            secured = handshake => secured,
            () = self.evicted(&permit) => return,
        };
        match secured {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                let certificate = chain.and_then(|chain| chain.first()).cloned();
                let connection = Connection::new(permit, certificate, socket);
                self.serve_connection(stream, remote, connection).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(client = %remote.ip(), "the TLS handshake failed: {error}");
            }
            Err(_) => {
                tracing::debug!(client = %remote.ip(), "the TLS handshake timed out");
            }
        }
    }

    /// Waits until an evicted connection has to be closed.
    async fn evicted(&self, permit: &ConnectionPermit) {
        permit.evicted().await;
        tokio::select! {
            () = sleep(self.config.eviction_grace) => {}
            () = self.out_of_sockets.notified() => {}
        }
    }

    /// Serves HTTP on a connection until it ends or a request upgrades it.
    async fn serve_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        remote: SocketAddr,
        connection: Connection,
    ) {
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let mut app = self.app.clone();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(remote));
            request.extensions_mut().insert(connection.clone());
            async move {
                Ok::<_, Infallible>(
                    app.call(request)
                        .await
                        .unwrap_or_else(|never| match never {}),
                )
            }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.config.header_timeout)
            .max_buf_size(self.config.max_header_bytes)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut serving = pin!(serving);
        let served = async {
            tokio::select! {
                ended = serving.as_mut() => ended,
                () = self.stop.cancelled() => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            }
        };
        tokio::select! {
            biased;
            ended = served => if let Err(error) = ended {
                tracing::debug!(client = %remote.ip(), "the connection ended: {error}");
            },
            () = self.evicted(&connection.0.permit) => {
                tracing::debug!(client = %remote.ip(), "closed the longest idle connection, because the server is full");
            }
        }
    }
}

/// A stream whose writes fail after a time without progress. Without it, a client that stops reading would occupy its
/// connection and the pending response forever.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Runs while a write is pending.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps `stream`. A write fails if it is pending for `timeout`.
    pub(crate) fn new(stream: S, timeout: Duration) -> Self {
        Self {
            stream,
            timeout,
            sleep: None,
        }
    }

    fn wait<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.sleep = None;
            return written;
        }
        let timeout = self.timeout;
        let expired = self.sleep.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(expired.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            ErrorKind::TimedOut,
            "the client does not read",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wait(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, shut)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod write_timeout_tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn write_fails_when_the_other_side_does_not_read() {
        let (near, _far) = duplex(8);
        let mut near = WriteTimeout::new(near, TIMEOUT);
        let started_at = Instant::now();
        let error = near.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(started_at.elapsed().as_secs(), TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_gets_everything() {
        let (near, mut far) = duplex(1);
        let mut near = WriteTimeout::new(near, TIMEOUT);
        let slow = tokio::spawn(async move {
            let mut all = Vec::new();
            while let Ok(byte) = far.read_u8().await {
                all.push(byte);
                sleep(TIMEOUT / 2).await;
            }
            all
        });
        near.write_all(b"12345678").await.unwrap();
        drop(near);
        assert_eq!(slow.await.unwrap(), b"12345678");
    }
}

#[cfg(test)]
mod tests;
