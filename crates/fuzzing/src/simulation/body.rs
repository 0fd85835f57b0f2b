//! Transports bytes with faults: response bodies and WebSocket streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use egress::{Duplex, NetError, NetFault, Sent};
use futures_util::StreamExt as _;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::random::Random;
use super::world::World;

/// The placeholder that a peer replaces with the credential that it received.
pub(super) const ECHOED: &str = "CREDENTIAL";

/// Transports a response body.
pub(super) struct Pump {
    pub(super) fault: Fault,
    pub(super) random: Random,
    pub(super) secret: Option<Vec<u8>>,
    pub(super) sender: mpsc::Sender<Result<Bytes, NetError>>,
    pub(super) sent: usize,
}

impl Pump {
    /// Transports the body and returns the number of bytes that the server sent.
    pub(super) async fn run(mut self, body: Body, closed: CancellationToken) -> usize {
        let sender = self.sender.clone();
        tokio::select! {
            biased;
            // The client dropped the response.
            () = sender.closed() => {}
            () = closed.cancelled() => self.cut().await,
            () = self.pieces(body) => {}
        }
        self.sent
    }

    async fn cut(&self) {
        let cut = NetError::new(NetFault::Cut, Sent::Unknown, "simulated");
        let _ = self.sender.send(Err(cut)).await;
    }

    async fn pieces(&mut self, body: Body) {
        let mut body = body.into_data_stream();
        let mut delayed = None;
        let mut number = 0;
        while let Some(piece) = body.next().await {
            let Ok(piece) = piece else {
                return self.cut().await;
            };
            let piece = self.echoing(piece);
            let turn = number;
            number += 1;
            if self.fault == Fault::DuplicateEvent(turn) && !self.send(piece.clone()).await {
                return;
            }
            if self.fault == Fault::ReorderEvents(turn) {
                delayed = Some(piece);
                continue;
            }
            for piece in [Some(piece), delayed.take()].into_iter().flatten() {
                if !self.send(piece).await {
                    return;
                }
            }
        }
        if let Some(piece) = delayed {
            self.send(piece).await;
        }
    }

    /// Replaces the placeholder in a piece with the credential of the request.
    fn echoing(&self, piece: Bytes) -> Bytes {
        let Some(secret) = &self.secret else {
            return piece;
        };
        let Some(at) = memmem::find(&piece, ECHOED.as_bytes()) else {
            return piece;
        };
        let rest = self.echoing(piece.slice(at + ECHOED.len()..));
        [&piece[..at], secret, &rest].concat().into()
    }

    /// Sends a piece in parts, up to the fault. Returns whether more pieces follow.
    async fn send(&mut self, piece: Bytes) -> bool {
        let begins = self.sent;
        self.sent += piece.len();
        let inside = |at: usize| (begins..self.sent).contains(&at).then(|| at - begins);
        match self.fault {
            Fault::Cut(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    self.cut().await;
                    return false;
                }
            }
            Fault::End(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    return false;
                }
            }
            Fault::Stall(at) => {
                if let Some(at) = inside(at) {
                    self.parts(piece.slice(..at)).await;
                    return std::future::pending().await;
                }
            }
            Fault::Corrupt(at) => {
                if let Some(at) = inside(at) {
                    let mut changed = BytesMut::from(&piece[..]);
                    changed[at] ^= 1 << self.random.below(8);
                    return self.parts(changed.freeze()).await;
                }
            }
            Fault::Delay => sleep(self.random.millis(500)).await,
            _ => {}
        }
        self.parts(piece).await
    }

    async fn parts(&mut self, mut piece: Bytes) -> bool {
        if piece.len() > 1 && self.random.percent(30) {
            let at = self.random.index(piece.len());
            if self.sender.send(Ok(piece.split_to(at))).await.is_err() {
                return false;
            }
            sleep(self.random.millis(20)).await;
        }
        self.sender.send(Ok(piece)).await.is_ok()
    }
}

/// Transports the bytes of a WebSocket in both directions, up to the fault.
pub(super) async fn wire(
    mut near: tokio::io::DuplexStream,
    mut far: Box<dyn Duplex>,
    fault: Fault,
    mut random: Random,
    closed: CancellationToken,
    planned: Option<Arc<World>>,
) {
    let (mut up, mut down) = (vec![0; 4096], vec![0; 4096]);
    let mut carried = 0;
    loop {
        let (upwards, length) = tokio::select! {
            biased;
            () = closed.cancelled() => return,
            length = near.read(&mut up) => (true, length.unwrap_or(0)),
            length = far.read(&mut down) => (false, length.unwrap_or(0)),
        };
        if length == 0 {
            return;
        }
        let piece = if upwards {
            &mut up[..length]
        } else {
            &mut down[..length]
        };
        let inside = |at: usize| {
            (carried..carried + length)
                .contains(&at)
                .then(|| at - carried)
        };
        let (mut length_sent, mut stalls, mut ends) = (length, false, false);
        match fault {
            Fault::Cut(at) | Fault::End(at) => {
                if let Some(at) = inside(at) {
                    (length_sent, ends) = (at, true);
                }
            }
            Fault::Stall(at) => {
                if let Some(at) = inside(at) {
                    (length_sent, stalls) = (at, true);
                }
            }
            Fault::Corrupt(at) => {
                if let Some(at) = inside(at) {
                    piece[at] ^= 1 << random.below(8);
                }
            }
            Fault::Delay => sleep(random.millis(500)).await,
            _ => {}
        }
        carried += length;
        if let Some(world) = &planned {
            world.carried.store(carried, Ordering::Relaxed);
        }
        let piece = &piece[..length_sent];
        let written = match upwards {
            true => far.write_all(piece).await,
            false => near.write_all(piece).await,
        };
        if written.is_err() || ends {
            return;
        }
        if stalls {
            // A stall: neither end receives anything, until one of them closes.
            let mut discarded = (sink(), sink());
            tokio::select! {
                () = closed.cancelled() => {}
                _ = copy(&mut near, &mut discarded.0) => {}
                _ = copy(&mut far, &mut discarded.1) => {}
            }
            return;
        }
        sleep(random.millis(3)).await;
    }
}
