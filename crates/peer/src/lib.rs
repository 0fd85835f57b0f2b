//! The trait [`Peer`]: an agent that accepts work over some protocol.
//!
//! The tool uses agents only through [`PeerProvider`], which discovers and opens them, [`Peer`], and the types of the crate
//! `a2a`. These have the shape of A2A 0.3 JSON (`kind`, `completed`) for every protocol. The crates `a2a_client` and
//! `gateway_bridge` implement the traits.
//!
//! `lib.rs` has the traits. `config.rs` is what a provider needs of a target, `options.rs` what a single call adds. `local.rs` has the names of
//! agents behind the gateway, and `error.rs` the failures.
//!
//! Every failure is a [`PeerError`]. [`Delivered`] says whether the agent may have received the message.
//!
//! # Examples
//!
//! ```
//! use egress::NetFault;
//! use openclaw_remote_agent_peer::{Delivered, PeerError, PeerErrorKind};
//!
//! let error = PeerError::new(PeerErrorKind::Net(NetFault::Unreachable), "connection refused");
//! let error = error.undelivered().during("cannot fetch the agent card");
//! assert_eq!(error.to_string(), "cannot fetch the agent card: connection refused");
//! assert_eq!(error.delivered, Delivered::No);
//! ```

#![forbid(unsafe_code)]

mod config;
mod error;
mod keep_alive;
mod local;
mod options;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use a2a::{Card, Event, Reply, SendRequest, Task};
use async_trait::async_trait;
use base::redact::Secrets;

pub use base::text::excerpt;
pub use config::{
    CARD_LIMITS, CardKeys, CardLocation, Extension, MAX_CARD_BYTES, NegotiatedProtocol, PeerConfig,
};
pub use error::{Delivered, PeerError, PeerErrorKind, Transports};
pub use keep_alive::is_keep_alive;
pub use local::{Connection, ConnectionState, LocalGateway, Member, status_name};
pub use options::{CallOptions, HostSession};

/// A boxed future, so that peers can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A peer for one call: the chosen interface, with the parameters of the call.
#[async_trait]
pub trait Peer: Send + Sync {
    /// Returns the protocol. A call may still change it if the card leaves it open, so it is final only after a call.
    fn protocol(&self) -> NegotiatedProtocol;

    /// Returns the credentials that were sent so far. One event contains no whole credential, but several together may.
    fn secrets(&self) -> Arc<Secrets> {
        Arc::default()
    }

    /// Returns whether the peer has said that the extension with this URI is active. Many servers never say it.
    fn confirms_extension(&self, uri: &str) -> bool {
        let _ = uri;
        false
    }

    /// Returns the card that the peer shows to this caller (the extended card, A2A 0.3 §7.10, 1.0 §3.1.11).
    async fn card(&self) -> Result<Card, PeerError>;

    /// Sends one message and waits for the response.
    async fn send(&self, outgoing: &SendRequest) -> Result<Reply, PeerError>;

    /// Sends one message and subscribes to the events that follow.
    async fn stream(&self, outgoing: &SendRequest) -> Result<Box<dyn EventStream>, PeerError>;

    /// Returns the task in its current state, with at most `history_length` of the newest messages.
    async fn get_task(&self, task_id: &str, history_length: Option<u64>)
    -> Result<Task, PeerError>;

    /// Returns a page of the tasks that the client may see, the newest first: the first page, or that of the token in another
    /// one (A2A 1.0 §3.1.4).
    async fn list_tasks(&self, page_token: Option<&str>) -> Result<TaskPage, PeerError> {
        let _ = page_token;
        let message = "this protocol cannot list tasks";
        let error = PeerError::new(PeerErrorKind::UnsupportedVersion, message).undelivered();
        Err(error)
    }

    /// Requests cancellation. The returned task shows whether it succeeded.
    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError>;

    /// Subscribes to a running task.
    async fn resubscribe(&self, task_id: &str) -> Result<Box<dyn EventStream>, PeerError>;
}

/// A page of the tasks of a peer.
#[derive(Debug, Default)]
pub struct TaskPage {
    /// Its tasks, in the order of the peer.
    pub tasks: Vec<Task>,
    /// How many more of its elements are no tasks.
    pub unreadable: usize,
    /// The token of the next page; `None` after the last one.
    pub next_page_token: Option<String>,
}

/// A stream of a peer's events. Dropping it closes the connection; the peer's task continues.
#[async_trait]
pub trait EventStream: Send {
    /// Returns the next event and the size of its JSON in bytes. Returns `None` if the body ended after an event. An
    /// error means that the connection broke, or that the peer reported an error in the stream. No event follows either
    /// end. Only the task's state, not the end of the stream, says whether the task has ended.
    async fn next(&mut self) -> NextEvent;

    /// Returns whether the peer sent one plain response, the only event, in place of a stream.
    fn is_plain_response(&self) -> bool {
        false
    }
}

/// The item of [`EventStream::next`].
pub type NextEvent = Option<Result<(Event, usize), PeerError>>;

/// Finds peers of one protocol: reads their cards and opens them.
#[async_trait]
pub trait PeerProvider: Send + Sync {
    /// Reads the card of the peer at the location that `config` names. With `validator`, the peer can answer that the
    /// card is unchanged.
    async fn discover(
        &self,
        config: &PeerConfig,
        validator: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError>;

    /// Returns the place in `card` of the interface that calls prefer, if one can be called.
    fn preferred_interface(&self, config: &PeerConfig, card: &Card) -> Option<usize> {
        let _ = (config, card);
        None
    }

    /// Opens a peer for one call, on an interface that `config` and `card` both allow.
    ///
    /// # Errors
    /// [`PeerErrorKind::UnsupportedTransport`] or [`PeerErrorKind::UnsupportedVersion`] if no interface is supported,
    /// [`PeerErrorKind::ExtensionRequired`] if the peer requires an unsupported extension, and
    /// [`NetFault::AddressRefused`](egress::NetFault::AddressRefused) if the policy forbids the address.
    fn open(
        &self,
        config: &PeerConfig,
        card: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError>;
}

/// The entity tag of a card, the validator of a conditional request (RFC 9110 §8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardEtag {
    /// The URL of the card.
    pub url: url::Url,
    /// The `ETag`, as received.
    pub etag: http::HeaderValue,
}

/// The outcome of discovery.
#[derive(Debug)]
pub enum Discovered {
    /// The card of the given [`CardEtag`] is still valid.
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
        validator: Option<CardEtag>,
        /// The lifetime that the peer set.
        max_age: Option<std::time::Duration>,
        /// The time on the peer's clock.
        date: Option<std::time::SystemTime>,
    },
}
