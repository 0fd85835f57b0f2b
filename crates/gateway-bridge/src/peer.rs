//! An agent behind the gateway, or the triad, for one call.

use std::sync::Arc;

use a2a::{Card, Reply, SendRequest, Task, Transport};
use base::redact::Secrets;
use collective::ErrorCode;
use peer::{BoxFuture, Delivered, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind};

use super::connector::{ConnectBudget, Connector};
use super::settings::DialectChoice;
use super::triad::Triad;
use super::{CallContext, GatewayLink, TRIAD, members};

/// One call to one agent.
pub(super) struct AgentPeer {
    pub(super) connector: Arc<Connector>,
    pub(super) triad: Arc<Triad>,
    pub(super) call: CallContext,
    /// The gateway's token.
    pub(super) secrets: Arc<Secrets>,
    pub(super) budget: tokio::sync::Mutex<ConnectBudget>,
}

impl AgentPeer {
    async fn link(&self) -> Result<Arc<dyn GatewayLink>, PeerError> {
        // The lock covers the wait for a connection: a call sends one request at a time.
        let mut budget = self.budget.lock().await;
        self.connector.link(&mut budget).await
    }

    fn is_local_triad(&self, link: &dyn GatewayLink) -> bool {
        self.call.agent == TRIAD && !link.has_triad()
    }

    async fn backend(&self) -> Result<Backend, PeerError> {
        let link = self.link().await?;
        Ok(if self.is_local_triad(&*link) {
            Backend::Triad
        } else {
            Backend::GatewayLink(link)
        })
    }

    /// Returns the connection for a query that the bridge may answer itself; `None` if it cannot connect.
    async fn link_if_needed(
        &self,
        task_id: &str,
    ) -> Result<Option<Arc<dyn GatewayLink>>, PeerError> {
        if let Some(link) = self.connector.open() {
            return Ok(Some(link));
        }
        match self.connector.tasks.find(&self.call.agent, task_id) {
            Some(known) if known.is_terminal() && !known.awaits_decision() => Ok(None),
            Some(_) => Ok(self.link().await.ok()),
            None => self.link().await.map(Some),
        }
    }

    fn stored_task(&self, task_id: &str) -> Result<Task, PeerError> {
        self.connector.tasks.task(&self.call.agent, task_id)
    }
}

/// The implementation behind a peer.
enum Backend {
    /// The gateway, through its connection.
    GatewayLink(Arc<dyn GatewayLink>),
    /// The triad of the bridge, for gateways without one.
    Triad,
}

/// Returns whether the connection was lost before any byte of the message left. Another connection may send it then.
fn was_not_sent(error: &PeerError) -> bool {
    error.delivered == Delivered::No
        && error.kind == PeerErrorKind::Gateway(ErrorCode::ConnectionReset)
}

impl Peer for AgentPeer {
    fn protocol(&self) -> NegotiatedProtocol {
        let known = self.connector.connection().dialect;
        NegotiatedProtocol {
            version: known.unwrap_or(match self.connector.settings.dialect {
                DialectChoice::Auto => "unknown",
                DialectChoice::OpenClaw => "openclaw/4",
                DialectChoice::A2aV1 => "a2a-v1",
                DialectChoice::HeretekJs => "heretek-js",
            }),
            transport: Transport::Gateway,
        }
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.secrets)
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        let card = members::card(&self.call.agent, None, &self.connector.settings);
        Box::pin(std::future::ready(Ok(card)))
    }

    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            loop {
                let link = match self.backend().await? {
                    Backend::GatewayLink(link) => link,
                    Backend::Triad => return self.triad.send(&self.call, outgoing).await,
                };
                match link.send(&self.call, outgoing).await {
                    Err(error) if was_not_sent(&error) && !link.is_open() => {}
                    done => return done,
                }
            }
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            loop {
                let link = match self.backend().await? {
                    Backend::GatewayLink(link) => link,
                    Backend::Triad => return self.triad.stream(&self.call, outgoing).await,
                };
                match link.stream(&self.call, outgoing).await {
                    Err(error) if was_not_sent(&error) && !link.is_open() => {}
                    done => return done,
                }
            }
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        _history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            if self.call.agent == TRIAD && self.triad.contains(task_id) {
                return self.triad.get_task(task_id);
            }
            match self.link_if_needed(task_id).await? {
                Some(link) if self.is_local_triad(&*link) => self.triad.get_task(task_id),
                Some(link) => link.get_task(&self.call, task_id).await,
                None => self.stored_task(task_id),
            }
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            if self.call.agent == TRIAD && self.triad.contains(task_id) {
                return self.triad.cancel(task_id).await;
            }
            match self.link_if_needed(task_id).await? {
                Some(link) if self.is_local_triad(&*link) => self.triad.cancel(task_id).await,
                Some(link) => link.cancel(&self.call, task_id).await,
                None => self.connector.tasks.cancel(&self.call.agent, task_id),
            }
        })
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            if self.call.agent == TRIAD && self.triad.contains(task_id) {
                return self.triad.resubscribe(task_id);
            }
            let known = self.connector.tasks.find(&self.call.agent, task_id);
            let settled = known.filter(|entry| entry.is_terminal() && !entry.awaits_decision());
            if let Some(entry) = settled {
                return Ok(entry.subscribe());
            }
            match self.backend().await? {
                Backend::GatewayLink(link) => link.resubscribe(&self.call, task_id).await,
                Backend::Triad => self.triad.resubscribe(task_id),
            }
        })
    }
}
