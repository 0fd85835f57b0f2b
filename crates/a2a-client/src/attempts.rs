//! A peer by more than one way: in 0.3 where 1.0 is refused, and at another interface where the first cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use a2a::{Card, Reply, SendRequest, Task, Transport, Version};
use common::redact::Secrets;
use peer::{BoxFuture, Delivered, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind};

use super::error_body::{METHOD_NOT_FOUND, VERSION_NOT_SUPPORTED, bears_out};
use super::http_json::nobody_there;
use super::memory::Learned;

/// One interface, in the version it is thought to speak.
pub(super) struct Interface {
    peer: Box<dyn Peer>,
    /// The same interface in 0.3, for a peer whose word that it speaks 1.0 has not been borne out.
    older: Option<Box<dyn Peer>>,
    /// The older one is right.
    is_older: AtomicBool,
    learned: Arc<Learned>,
}

impl Interface {
    pub(super) fn new(
        peer: Box<dyn Peer>,
        older: Option<Box<dyn Peer>>,
        learned: Arc<Learned>,
    ) -> Self {
        Self {
            peer,
            older,
            is_older: AtomicBool::new(false),
            learned,
        }
    }

    fn current(&self) -> &dyn Peer {
        match &self.older {
            Some(older) if self.is_older.load(Ordering::Relaxed) => &**older,
            _ => &*self.peer,
        }
    }

    /// Asks in the version that the interface is thought to speak, and once more in 0.3 where it refuses that version.
    /// Such a refusal comes before anything is done, so nothing is sent twice.
    async fn ask<'a, T>(&'a self, call: &impl Call<'a, T>) -> Result<T, PeerError> {
        let current = self.current();
        let spoken = current.spoken();
        let answer = call.of(current).await;
        let refused = answer
            .as_ref()
            .is_err_and(|error| refuses_version(error, spoken.transport));
        if !refused {
            if self.older.is_some() && bears_out(&answer) {
                self.learned
                    .set_version(Version::declared(spoken.version).ok().flatten());
            }
            return answer;
        }
        let Some(older) = self.older.as_deref().filter(|_| self.is_in_doubt()) else {
            // What was found out may not hold any more; the next call finds out anew.
            self.learned.set_version(None);
            return answer;
        };
        let second = call.of(older).await;
        if bears_out(&second) {
            self.is_older.store(true, Ordering::Relaxed);
            self.learned.set_version(Some(Version::V0_3));
        }
        match second {
            // Neither version is known to it, so the first refusal tells more.
            Err(error) if refuses_version(&error, spoken.transport) => answer,
            second => second,
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.learned.version() != Some(Version::V1_0) && !self.is_older.load(Ordering::Relaxed)
    }
}

/// The peer does not know the operation by this version's name, or says that it does not speak the version. Over HTTP+JSON
/// the names are paths.
fn refuses_version(error: &PeerError, transport: Transport) -> bool {
    matches!(
        error.rpc_code,
        Some(METHOD_NOT_FOUND | VERSION_NOT_SUPPORTED)
    ) || (transport == Transport::HttpJson && nobody_there(error))
}

/// A peer that is called at its first interface, or at another where the first cannot be reached at all.
pub(super) struct Attempts {
    first: Interface,
    other: Option<Other>,
}

/// The interface that stands in.
pub(super) struct Other {
    names: [String; 2],
    interface: Result<Interface, PeerError>,
    /// It has stood in already.
    in_use: AtomicBool,
}

impl Other {
    /// An interface, or why it may not be called; `names` is what the first one is called in an error, and what this one is.
    pub(super) fn new(names: [String; 2], interface: Result<Interface, PeerError>) -> Self {
        Self {
            names,
            interface,
            in_use: AtomicBool::new(false),
        }
    }
}

impl Attempts {
    pub(super) fn new(first: Interface, other: Option<Other>) -> Self {
        Self { first, other }
    }

    fn current(&self) -> &Interface {
        match &self.other {
            Some(Other {
                interface: Ok(other),
                in_use,
                ..
            }) if in_use.load(Ordering::Relaxed) => other,
            _ => &self.first,
        }
    }

    async fn ask<'a, T>(&'a self, call: impl Call<'a, T>) -> Result<T, PeerError> {
        let current = self.current();
        let error = match current.ask(&call).await {
            Err(error) if is_out_of_reach(&error) => error,
            done => return done,
        };
        let Some(other) = self
            .other
            .as_ref()
            .filter(|_| std::ptr::eq(current, &self.first))
        else {
            return Err(error);
        };
        let second = match &other.interface {
            Ok(interface) => interface.ask(&call).await,
            Err(refused) => Err(refused.clone()),
        };
        match second {
            Ok(done) => {
                other.in_use.store(true, Ordering::Relaxed);
                Ok(done)
            }
            Err(mut second) => {
                let [first_name, second_name] = &other.names;
                second.message = format!(
                    "{first_name}: {}; {second_name}: {}",
                    error.message, second.message
                );
                Err(second)
            }
        }
    }
}

/// No connection was made, so that no byte of the request can have left.
fn is_out_of_reach(error: &PeerError) -> bool {
    matches!(error.kind, PeerErrorKind::Dns | PeerErrorKind::Unreachable)
        && error.delivered == Delivered::No
}

/// One operation, which can be asked of one peer after another.
trait Call<'a, T>: Send + Sync {
    fn of(&self, peer: &'a dyn Peer) -> BoxFuture<'a, Result<T, PeerError>>;
}

impl<'a, T, F> Call<'a, T> for F
where
    F: Fn(&'a dyn Peer) -> BoxFuture<'a, Result<T, PeerError>> + Send + Sync,
{
    fn of(&self, peer: &'a dyn Peer) -> BoxFuture<'a, Result<T, PeerError>> {
        self(peer)
    }
}

impl Peer for Attempts {
    fn spoken(&self) -> NegotiatedProtocol {
        self.current().current().spoken()
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.current().current().secrets()
    }

    fn card<'a>(&'a self) -> BoxFuture<'a, Result<Card, PeerError>> {
        Box::pin(self.ask(|peer: &'a dyn Peer| peer.card()))
    }

    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(self.ask(move |peer: &'a dyn Peer| peer.send(outgoing)))
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.ask(move |peer: &'a dyn Peer| peer.stream(outgoing)))
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.ask(move |peer: &'a dyn Peer| peer.get_task(task_id, history_length)))
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.ask(move |peer: &'a dyn Peer| peer.cancel(task_id)))
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.ask(move |peer: &'a dyn Peer| peer.resubscribe(task_id)))
    }
}

#[cfg(test)]
mod tests;
