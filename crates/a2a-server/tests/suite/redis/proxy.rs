//! A proxy between a server and Redis that can fail and lie, and a listener that is no Redis.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The number of replies of a line each with which Redis confirms the settings of a connection.
const SETUP_LINES: usize = 2;

/// What happens to the replies of Redis.
#[derive(Clone, PartialEq)]
enum Mode {
    Open,
    LoseNextReply,
    Silent,
    /// Each reply becomes these bytes, except for those that confirm the settings of a connection.
    Replace {
        reply: Vec<u8>,
        is_used: bool,
    },
}

/// A proxy that forwards until a test makes it fail.
pub(crate) struct Proxy {
    address: SocketAddr,
    mode: Arc<Mutex<Mode>>,
    _connections: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy for the Redis at a loopback port.
    pub(crate) async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(Mutex::new(Mode::Open));
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
        self.set(Mode::LoseNextReply);
    }

    /// Returns whether the reply was lost.
    pub(crate) fn has_lost_reply(&self) -> bool {
        *self.mode.lock().unwrap() != Mode::LoseNextReply
    }

    /// Holds back all replies without closing connections.
    pub(crate) fn hold_replies(&self) {
        self.set(Mode::Silent);
    }

    /// Replaces all replies.
    pub(crate) fn replace_replies(&self, reply: &[u8]) {
        self.set(Mode::Replace {
            reply: reply.to_vec(),
            is_used: false,
        });
    }

    /// Returns whether a reply was replaced.
    pub(crate) fn has_replaced_reply(&self) -> bool {
        matches!(
            *self.mode.lock().unwrap(),
            Mode::Replace { is_used: true, .. }
        )
    }

    /// Forwards all replies again.
    pub(crate) fn forward(&self) {
        self.set(Mode::Open);
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }
}

async fn forward_requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn forward_replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: Arc<Mutex<Mode>>) {
    let mut buffer = vec![0; 64 * 1024];
    // The lines of the replies that confirm the settings of the connection.
    let mut setup_lines = SETUP_LINES;
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let current = {
            let mut mode = mode.lock().unwrap();
            let current = mode.clone();
            match &mut *mode {
                Mode::LoseNextReply => *mode = Mode::Open,
                Mode::Replace { is_used, .. } => *is_used |= setup_lines == 0,
                Mode::Open | Mode::Silent => {}
            }
            current
        };
        let reply = match &current {
            Mode::LoseNextReply => return,
            Mode::Silent => continue,
            Mode::Replace { reply, .. } if setup_lines == 0 => reply,
            Mode::Open | Mode::Replace { .. } => &buffer[..count],
        };
        if to.write_all(reply).await.is_err() {
            return;
        }
        let lines = buffer[..count].iter().filter(|byte| **byte == b'\n');
        setup_lines = setup_lines.saturating_sub(lines.count());
    }
}

/// A listener on loopback that answers whatever a connection sends with the same bytes, and returns its address.
pub(crate) async fn start_impostor(answer: &'static [u8]) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = JoinSet::new();
    connections.spawn(async move {
        let mut open = JoinSet::new();
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            open.spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(1..) = connection.read(&mut buffer).await {
                    if connection.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, connections)
}
