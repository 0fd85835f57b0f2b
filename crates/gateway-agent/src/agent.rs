//! Connects an agent with a backend to a gateway.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use base::environment::Environment;
use collective::{AgentStatus, Envelope, Kind};
use gateway_bridge::client::{
    AgentEvent, ClientConnection, ClientError, Connector, Endpoint, MessageSender,
};

use super::backend::AgentBackend;
use super::settings::{AgentSettings, EventSink};
use super::turns::{Connection, Turns};

/// How long running turns may take to end when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// An agent with a backend.
pub struct Agent {
    turns: Arc<Turns>,
    on_event: EventSink,
    running: TaskTracker,
}

impl Agent {
    /// Creates an agent that reports its events to `on_event`.
    pub fn new(
        settings: AgentSettings,
        backend: Arc<dyn AgentBackend>,
        env: Arc<dyn Environment>,
        on_event: impl Fn(&AgentEvent) + Send + Sync + 'static,
    ) -> Self {
        let on_event: EventSink = Arc::new(on_event);
        Self {
            turns: Arc::new(Turns::new(settings, backend, env, Arc::clone(&on_event))),
            on_event,
            running: TaskTracker::new(),
        }
    }

    /// Serves the agent until `shutdown` is cancelled, or until the gateway disconnects it for good. Reconnects after a lost
    /// connection. A lost connection cancels the running turns, because the gateway has already failed their requests.
    ///
    /// # Errors
    /// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
    pub async fn serve(
        &self,
        connector: &Connector,
        endpoint: &Endpoint,
        shutdown: &CancellationToken,
    ) -> Result<(), ClientError> {
        let on_event = |event: &AgentEvent| (self.on_event)(event);
        let names = [self.turns.name()];
        let serve = |connection| self.run(connection);
        let served = connector.keep_connected(endpoint, &names, &on_event, shutdown, serve);
        let served = served.await;
        self.running.close();
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.running.wait()).await;
        served
    }

    /// Handles messages. Returns `Ok` when the gateway disconnects the agent for good, and an error when the connection is
    /// lost.
    async fn run(&self, mut connection: ClientConnection) -> Result<(), ClientError> {
        let sender = connection.sender().clone();
        let cancel = CancellationToken::new();
        let _ends_turns = cancel.clone().drop_guard();
        let link = Connection {
            sender: sender.clone(),
            cancel: cancel.clone(),
            running: self.running.clone(),
        };
        self.running
            .spawn(report_status(Arc::clone(&self.turns), sender, cancel));
        loop {
            let envelope = connection.recv().await?;
            match envelope.kind() {
                Kind::Message => self.turns.on_message(&envelope, &link),
                Kind::Proposal => self.turns.on_proposal(&envelope, &link),
                Kind::Decision => (self.on_event)(&AgentEvent::decided(&envelope)),
                Kind::Error => {
                    (self.on_event)(&AgentEvent::Error(ClientError::from_error(&envelope)));
                }
                Kind::Disconnect if envelope.content_str("reason") == Some("manual") => {
                    let message = envelope.content_str("message").unwrap_or_default();
                    (self.on_event)(&AgentEvent::Disconnected(message.to_owned()));
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}

/// Reports the status `busy` while the queue of messages is full, and `idle` afterwards.
async fn report_status(turns: Arc<Turns>, sender: MessageSender, cancel: CancellationToken) {
    let mut messages = turns.messages();
    let mut reported = AgentStatus::Online;
    loop {
        let changed = cancel.run_until_cancelled(messages.changed()).await;
        if !matches!(changed, Some(Ok(()))) {
            return;
        }
        let is_busy = turns.is_busy(*messages.borrow_and_update());
        let status = match (is_busy, reported) {
            (true, _) => AgentStatus::Busy,
            (false, AgentStatus::Busy) => AgentStatus::Idle,
            (false, other) => other,
        };
        if status != reported {
            reported = status;
            let content = json!({"agent": turns.name(), "status": status.as_str()});
            let envelope = Envelope::new(Kind::Status, content).with("from", turns.name());
            if sender.send(envelope).await.is_err() {
                return;
            }
        }
    }
}
