//! The trait [`Peer`]: an agent that accepts work over some protocol.
//!
//! The tool knows agents only through [`Directory`], which discovers and opens them, [`Peer`], and the types of the crate
//! `a2a`. These have the shape of A2A 0.3 JSON (`kind`, `completed`), whatever protocol the agent speaks. The crates
//! `a2a_client` and `gateway_bridge` implement the traits.
//!
//! Every failure is a [`PeerError`]. It says whether the agent may have received the message ([`Delivered`]) and whether a
//! repeated call can succeed.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_peer::{Delivered, PeerError, PeerErrorKind};
//!
//! let error = PeerError::new(PeerErrorKind::Unreachable, "connection refused");
//! let error = error.undelivered().during("cannot fetch the agent card");
//! assert_eq!(error.to_string(), "cannot fetch the agent card: connection refused");
//! assert_eq!(error.delivered, Delivered::No);
//! ```

#![forbid(unsafe_code)]

mod config;
mod error;
mod excerpt;
mod local;
mod options;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use a2a::{Card, Event, Reply, SendRequest, Task};
use common::redact::Secrets;

pub use config::{CardKeys, CardLocation, NegotiatedProtocol, PeerConfig};
pub use error::{Delivered, PeerError, PeerErrorKind, Transports};
pub use excerpt::excerpt;
pub use local::{Connection, ConnectionState, LocalGateway, Member, MemberStatus};
pub use options::{CallOptions, HostSession};

/// A boxed future, so that peers can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A peer as one call sees it: the chosen interface, with this call's parameters.
pub trait Peer: Send + Sync {
    /// Returns the protocol. If the card leaves it open, a call decides it, so it is final after a call.
    fn protocol(&self) -> NegotiatedProtocol;

    /// Returns the credentials that were sent so far. No response contains one in one piece, but several together may.
    fn secrets(&self) -> Arc<Secrets> {
        Arc::default()
    }

    /// Returns the card the peer shows to this caller in particular (A2A 0.3 §7.10, 1.0 §3.1.11: the extended card).
    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>>;

    /// Hands over one message and waits for the one answer.
    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>>;

    /// Hands over one message and listens to what follows.
    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>>;

    /// Returns the task as it stands. `history_length` asks for at most so many of the newest messages.
    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>>;

    /// Returns the newest tasks that the client may see, at most a page of them (A2A 1.0 §3.1.4).
    fn list_tasks(&self) -> BoxFuture<'_, Result<Vec<Task>, PeerError>> {
        let message = "this protocol cannot list tasks";
        let error = PeerError::new(PeerErrorKind::UnsupportedVersion, message).undelivered();
        Box::pin(std::future::ready(Err(error)))
    }

    /// Asks the peer to cancel; the task that comes back says whether it did.
    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>>;

    /// Listens to a task that is under way.
    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>>;
}

/// A stream of events of a peer. Dropping it closes the connection; the peer's task goes on.
pub trait EventStream: Send {
    /// Returns the next event with the bytes of JSON that it came in, and `None` where the body ended after an event. An
    /// error means that the connection broke, or that the peer reported an error in the stream. No event follows either
    /// end, and neither says anything about the task: only its state does.
    fn next(&mut self) -> BoxFuture<'_, NextEvent>;

    /// Returns whether the peer answered with one plain response in place of a stream, which is the only event.
    fn is_plain_response(&self) -> bool {
        false
    }
}

/// The item of [`EventStream::next`].
pub type NextEvent = Option<Result<(Event, usize), PeerError>>;

/// Finds peers of one protocol: reads their cards and opens them.
pub trait Directory: Send + Sync {
    /// Reads the peer's card from where `reach` says. `known` lets the peer answer that the card has not changed.
    fn discover<'a>(
        &'a self,
        reach: &'a PeerConfig,
        known: Option<&'a Validator>,
    ) -> BoxFuture<'a, Result<Discovered, PeerError>>;

    /// Opens a peer for one call, on the interface that `reach` and `card` agree on.
    ///
    /// # Errors
    /// [`PeerErrorKind::UnsupportedTransport`] or [`PeerErrorKind::UnsupportedVersion`] when no interface can be spoken,
    /// [`PeerErrorKind::ExtensionRequired`] when the peer demands what we do not have, [`PeerErrorKind::AddressRefused`] when it may not be
    /// called.
    fn open(
        &self,
        reach: &PeerConfig,
        card: &Card,
        opening: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError>;
}

/// The validator of a card, for a conditional request (RFC 9110 §8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// The URL of the card.
    pub url: url::Url,
    /// The `ETag`, as received.
    pub etag: http::HeaderValue,
}

/// The outcome of discovery.
#[derive(Debug)]
pub enum Discovered {
    /// The card that [`Validator`] stands for still holds.
    Unchanged {
        /// The lifetime that the peer set.
        max_age: Option<std::time::Duration>,
        /// The time on the peer's clock.
        date: Option<std::time::SystemTime>,
    },
    /// A card.
    Card {
        /// The card.
        card: Box<Card>,
        /// The validator for the next request.
        validator: Option<Validator>,
        /// The lifetime that the peer set.
        max_age: Option<std::time::Duration>,
        /// The time on the peer's clock.
        date: Option<std::time::SystemTime>,
    },
}
