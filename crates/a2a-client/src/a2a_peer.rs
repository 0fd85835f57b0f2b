//! A peer with fallbacks: to 0.3 if it rejects 1.0, and to another interface if the first is unreachable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use a2a::{Card, ErrorReason, Reply, SendRequest, Task, Transport, Version};
use async_trait::async_trait;
use base::redact::Secrets;
use egress::NetFault;
use peer::{
    BoxFuture, Delivered, EventStream, NegotiatedProtocol, NextEvent, Peer, PeerError,
    PeerErrorKind, TaskPage,
};
use tokio::time::timeout;

use super::error::{confirms_version, has_reason};
use super::http_json::is_unknown_path;
use super::negotiate::InterfaceState;

/// The peer of one call: its interface, in the version that it supports, and a fallback for an unreachable one.
pub(super) struct A2aPeer {
    first: VersionedInterface,
    fallback: Option<Fallback>,
}

/// One interface, in the versions that it may support.
pub(super) struct VersionedInterface {
    binding: Box<dyn Peer>,
    /// The same interface in 0.3, if the card declares 1.0 and no response has confirmed it.
    older: Option<Box<dyn Peer>>,
    /// Whether the interface uses 0.3.
    speaks_older: AtomicBool,
    /// Whether an answer in this call has confirmed the version: no later answer changes it.
    is_confirmed: AtomicBool,
    state: Arc<InterfaceState>,
}

/// The interface for calls if the first one is unreachable.
pub(super) struct Fallback {
    names: [String; 2],
    interface: Result<VersionedInterface, PeerError>,
    /// Whether it has answered in place of the first one.
    in_use: AtomicBool,
}

impl VersionedInterface {
    pub(super) fn new(
        binding: Box<dyn Peer>,
        older: Option<Box<dyn Peer>>,
        state: Arc<InterfaceState>,
    ) -> Self {
        Self {
            binding,
            older,
            speaks_older: AtomicBool::new(false),
            is_confirmed: AtomicBool::new(false),
            state,
        }
    }

    fn binding(&self) -> &dyn Peer {
        match &self.older {
            Some(older) if self.speaks_older.load(Ordering::Relaxed) => &**older,
            _ => &*self.binding,
        }
    }

    /// Returns the binding in 0.3, unless a response has confirmed a version.
    fn unconfirmed(&self) -> Option<&dyn Peer> {
        let confirmed = self.state.version() == Some(Version::V1_0)
            || self.speaks_older.load(Ordering::Relaxed)
            || self.is_confirmed.load(Ordering::Relaxed);
        self.older.as_deref().filter(|_| !confirmed)
    }
}

impl Fallback {
    /// Returns a fallback, or the reason why it may not be called. `names` are the names of both interfaces in errors.
    pub(super) fn new(
        names: [String; 2],
        interface: Result<VersionedInterface, PeerError>,
    ) -> Self {
        Self {
            names,
            interface,
            in_use: AtomicBool::new(false),
        }
    }
}

impl A2aPeer {
    pub(super) fn new(first: VersionedInterface, fallback: Option<Fallback>) -> Self {
        Self { first, fallback }
    }

    fn interface(&self) -> &VersionedInterface {
        match &self.fallback {
            Some(Fallback {
                interface: Ok(fallback),
                in_use,
                ..
            }) if in_use.load(Ordering::Relaxed) => fallback,
            _ => &self.first,
        }
    }

    /// Calls the interface in use, and the fallback if the first one is unreachable.
    async fn call<'a, T>(
        &'a self,
        operation: impl Fn(&'a dyn Peer) -> BoxFuture<'a, Result<T, PeerError>> + Send + Sync,
    ) -> Result<T, PeerError> {
        let interface = self.interface();
        let error = match Self::call_in_version(interface, &operation).await {
            Err(error) if is_unreachable(&error) => error,
            result => return result,
        };
        let is_first = std::ptr::eq(interface, &self.first);
        let Some(fallback) = self.fallback.as_ref().filter(|_| is_first) else {
            return Err(error);
        };
        let second = match &fallback.interface {
            Ok(interface) => Self::call_in_version(interface, &operation).await,
            Err(refused) => Err(refused.clone()),
        };
        match second {
            Ok(done) => {
                fallback.in_use.store(true, Ordering::Relaxed);
                Ok(done)
            }
            Err(mut second) => {
                let [first_name, second_name] = &fallback.names;
                second.message = format!(
                    "{first_name}: {}; {second_name}: {}",
                    error.message, second.message
                );
                Err(second)
            }
        }
    }

    /// Calls `interface` in its presumed version, and again in 0.3 if it rejects that version. A peer rejects a version before
    /// it executes anything, so no message is executed twice.
    async fn call_in_version<'a, T>(
        interface: &'a VersionedInterface,
        operation: &(impl Fn(&'a dyn Peer) -> BoxFuture<'a, Result<T, PeerError>> + Send + Sync),
    ) -> Result<T, PeerError> {
        let binding = interface.binding();
        let state = &interface.state;
        let protocol = binding.protocol();
        let answer = operation(binding).await;
        let refused = answer
            .as_ref()
            .is_err_and(|error| rejects_version(error, protocol.transport));
        if !refused {
            if confirms_version(&answer) {
                interface.is_confirmed.store(true, Ordering::Relaxed);
                if interface.older.is_some() {
                    state.set_version(Version::declared(protocol.version).ok().flatten());
                }
            }
            return answer;
        }
        if interface.is_confirmed.load(Ordering::Relaxed) {
            return answer;
        }
        let Some(older) = interface.unconfirmed() else {
            // The cached version may be outdated; the next call tries both again.
            state.set_version(None);
            return answer;
        };
        let second = operation(older).await;
        if confirms_version(&second) {
            interface.speaks_older.store(true, Ordering::Relaxed);
            state.set_version(Some(Version::V0_3));
        }
        match second {
            // The peer rejects both versions, and the first error says more.
            Err(error) if rejects_version(&error, protocol.transport) => answer,
            second => second,
        }
    }
}

/// Returns whether the peer rejects the version: by its error, or because the operation has no such name in its version
/// (in HTTP+JSON, no such path).
fn rejects_version(error: &PeerError, transport: Transport) -> bool {
    has_reason(error, ErrorReason::MethodNotFound)
        || has_reason(error, ErrorReason::VersionNotSupported)
        || (transport == Transport::HttpJson && is_unknown_path(error))
}

/// How long the first event of a stream may take that may be the refusal of a version.
const FIRST_EVENT_WAIT: Duration = Duration::from_secs(1);

/// Opens a stream in a version that the peer may reject, in a response or in the first event.
async fn open_in_doubt(
    peer: &dyn Peer,
    outgoing: &SendRequest,
) -> Result<Box<dyn EventStream>, PeerError> {
    let mut stream = peer.stream(outgoing).await?;
    match timeout(FIRST_EVENT_WAIT, stream.next()).await {
        Ok(Some(Err(error))) if rejects_version(&error, peer.protocol().transport) => Err(error),
        Ok(first) => Ok(Box::new(StreamFrom(Some(first), stream))),
        // The silent peer has accepted the message.
        Err(_) => Ok(stream),
    }
}

/// A stream whose first event has been read.
struct StreamFrom(Option<NextEvent>, Box<dyn EventStream>);

#[async_trait]
impl EventStream for StreamFrom {
    async fn next(&mut self) -> NextEvent {
        match self.0.take() {
            Some(first) => first,
            None => self.1.next().await,
        }
    }

    fn is_plain_response(&self) -> bool {
        self.1.is_plain_response()
    }
}

/// Returns whether no connection was opened, so that no byte was sent.
fn is_unreachable(error: &PeerError) -> bool {
    matches!(
        error.kind,
        PeerErrorKind::Net(NetFault::Dns | NetFault::Unreachable)
    ) && error.delivered == Delivered::No
}

#[async_trait]
impl Peer for A2aPeer {
    fn protocol(&self) -> NegotiatedProtocol {
        self.interface().binding().protocol()
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.interface().binding().secrets()
    }

    fn confirms_extension(&self, uri: &str) -> bool {
        self.interface().binding().confirms_extension(uri)
    }

    async fn card(&self) -> Result<Card, PeerError> {
        self.call(|peer| peer.card()).await
    }

    async fn send(&self, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        self.call(|peer| peer.send(outgoing)).await
    }

    async fn stream(&self, outgoing: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        if self.interface().unconfirmed().is_none() {
            return self.call(|peer| peer.stream(outgoing)).await;
        }
        self.call(|peer| Box::pin(open_in_doubt(peer, outgoing)))
            .await
    }

    async fn get_task(
        &self,
        task_id: &str,
        history_length: Option<u64>,
    ) -> Result<Task, PeerError> {
        self.call(|peer| peer.get_task(task_id, history_length))
            .await
    }

    async fn list_tasks(&self, page_token: Option<&str>) -> Result<TaskPage, PeerError> {
        // Only 1.0 lists tasks, so the other version is no fallback.
        let binding = self.interface().binding();
        binding.list_tasks(page_token).await
    }

    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        self.call(|peer| peer.cancel(task_id)).await
    }

    async fn resubscribe(&self, task_id: &str) -> Result<Box<dyn EventStream>, PeerError> {
        self.call(|peer| peer.resubscribe(task_id)).await
    }
}

#[cfg(test)]
mod tests;
