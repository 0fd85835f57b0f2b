//! A proxy between a server and Redis that can fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const OPEN: u8 = 0;
const LOSE_NEXT_REPLY: u8 = 1;
const SILENT: u8 = 2;

/// A proxy that forwards until a test makes it fail.
pub(crate) struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy for the Redis at a loopback port.
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(AtomicU8::new(OPEN));
        let mut connections = JoinSet::new();
        let shared = mode.clone();
        connections.spawn(async move {
            let mut pumps = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let (near_reads, near_writes) = near.into_split();
                let (far_reads, far_writes) = far.into_split();
                pumps.spawn(forward_requests(near_reads, far_writes));
                pumps.spawn(forward_replies(far_reads, near_writes, shared.clone()));
            }
        });
        Self {
            address,
            mode,
            _connections: connections,
        }
    }

    /// Returns the URL of Redis through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Loses the next reply, and closes its connection.
    pub(crate) fn lose_next_reply(&self) {
        self.mode.store(LOSE_NEXT_REPLY, Ordering::SeqCst);
    }

    /// Returns whether the reply was lost.
    pub(crate) fn has_lost_reply(&self) -> bool {
        self.mode.load(Ordering::SeqCst) != LOSE_NEXT_REPLY
    }

    /// Holds back all replies without closing connections.
    pub(crate) fn hold_replies(&self) {
        self.mode.store(SILENT, Ordering::SeqCst);
    }
}

async fn forward_requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn forward_replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: Arc<AtomicU8>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if mode
            .compare_exchange(LOSE_NEXT_REPLY, OPEN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
        {
            return;
        }
        if mode.load(Ordering::SeqCst) == SILENT {
            continue;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
