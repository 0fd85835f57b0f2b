//! Agents with scripted backends, on the reference gateway.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use base::environment::SystemEnvironment;
use base::log::Silent;
use collective::{Envelope, Kind};
use gateway_bridge::client::{AgentEvent, ClientConnection, Connector, Endpoint};
use gateway_bridge::delegation::DELEGATION_KEY;
use gateway_server::{Server, config::ServerConfig};

use super::*;

mod faults;
mod link_faults;
mod links;
mod messages;
mod supervised;
mod votes;

/// A gateway with its own state directory.
struct Gateway {
    url: String,
    config: ServerConfig,
    _folder: tempfile::TempDir,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

async fn run(config: ServerConfig) -> (String, ServerConfig, CancellationToken, JoinHandle<()>) {
    let server = Server::bind(
        config.clone(),
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    );
    let server = server.await.unwrap();
    let config = ServerConfig {
        listen: server.address(),
        ..config
    };
    let (url, shutdown) = (server.url(), CancellationToken::new());
    let running = tokio::spawn(server.run(shutdown.clone()));
    (url, config, shutdown, running)
}

impl Gateway {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            state_dir: folder.path().to_owned(),
            ..ServerConfig::default()
        };
        let (url, config, shutdown, running) = run(config).await;
        Self {
            url,
            config,
            _folder: folder,
            shutdown,
            running,
        }
    }

    /// Restarts the gateway at the same address.
    async fn restart(&mut self) {
        self.shutdown.cancel();
        (&mut self.running).await.unwrap();
        let (_, _, shutdown, running) = run(self.config.clone()).await;
        (self.shutdown, self.running) = (shutdown, running);
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.url.parse().unwrap())
    }

    async fn client(&self, name: &str) -> Client {
        let connector = Connector::new().unwrap();
        let opened = connector.open(&self.endpoint(), &[name]).await;
        Client(opened.unwrap().0)
    }
}

/// A client that the test controls.
struct Client(ClientConnection);

impl Client {
    async fn send(&self, envelope: Envelope) {
        self.0.sender().send(envelope).await.unwrap();
    }

    async fn next(&mut self) -> Envelope {
        let received = tokio::time::timeout(Duration::from_secs(20), self.0.recv());
        received.await.expect("a message").unwrap()
    }

    /// Returns the next message of this type.
    async fn next_of(&mut self, kind: Kind) -> Envelope {
        loop {
            let envelope = self.next().await;
            if envelope.kind() == kind {
                return envelope;
            }
        }
    }

    /// Sends a message to `coder` in a session, and returns the reply.
    async fn send_message(&mut self, session: &str, text: &str) -> Envelope {
        self.send(message(session, text)).await;
        self.next().await
    }
}

/// A message to `coder` that requires a response.
fn message(session: &str, text: &str) -> Envelope {
    Envelope::new(Kind::Message, json!({"role": "user", "content": text}))
        .with("agent", "coder")
        .with("sessionId", session)
        .with_metadata("requiresResponse", true)
}

fn text(envelope: &Envelope) -> &str {
    let text = envelope.content_str("content");
    text.unwrap_or_else(|| panic!("no text: {}", envelope.to_text()))
}

/// The behavior of a scripted backend in one turn.
enum Step {
    Reply(&'static str),
    Fail(BackendError),
    /// Reports these texts at once, and answers after it gets a permit.
    Report(&'static [&'static str], Arc<Semaphore>),
    Panic,
    /// Waits until it is cancelled.
    Hang,
    /// Echoes the text after it gets a permit.
    Wait(Arc<Semaphore>),
}

/// A backend that performs the acts in order and repeats the last one.
struct Script {
    steps: Mutex<VecDeque<Step>>,
    turns: mpsc::UnboundedSender<Turn>,
}

impl AgentBackend for Script {
    fn answer<'a>(
        &'a self,
        turn: &'a Turn,
        progress: ProgressSink<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, BackendError>> {
        let _ = self.turns.send(turn.clone());
        let act = self.steps.lock().unwrap().pop_front();
        Box::pin(async move {
            match act {
                None => Ok(format!("I read: {}", turn.text)),
                Some(Step::Reply(text)) => Ok(text.to_owned()),
                Some(Step::Fail(error)) => Err(error),
                Some(Step::Report(texts, permits)) => {
                    texts.iter().for_each(|text| progress(text));
                    permits.acquire().await.unwrap().forget();
                    Ok("done".to_owned())
                }
                Some(Step::Panic) => panic!("a fault of the backend"),
                Some(Step::Hang) => {
                    cancel.cancelled().await;
                    Err(BackendError::new("cancelled"))
                }
                Some(Step::Wait(permits)) => {
                    permits.acquire().await.unwrap().forget();
                    Ok(format!("I read: {}", turn.text))
                }
            }
        })
    }
}

/// A running agent, its events and the turns of its backend.
struct Running {
    events: mpsc::UnboundedReceiver<AgentEvent>,
    turns: mpsc::UnboundedReceiver<Turn>,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Running {
    async fn start(gateway: &Gateway, name: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(gateway, AgentSettings::new(name), steps).await
    }

    async fn with(
        gateway: &Gateway,
        settings: AgentSettings,
        steps: impl IntoIterator<Item = Step>,
    ) -> Self {
        let (sender, turns) = mpsc::unbounded_channel();
        let backend = Script {
            steps: Mutex::new(steps.into_iter().collect()),
            turns: sender,
        };
        let (happened, events) = mpsc::unbounded_channel();
        let on_event = move |event: &AgentEvent| {
            let _ = happened.send(event.clone());
        };
        let env = Arc::new(SystemEnvironment);
        let agent = Agent::new(settings, Arc::new(backend), env, on_event);
        let (endpoint, shutdown) = (gateway.endpoint(), CancellationToken::new());
        let stop = shutdown.clone();
        let served = tokio::spawn(async move {
            let connector = Connector::new().unwrap();
            agent.serve(&connector, &endpoint, &stop).await.unwrap();
        });
        let mut running = Self {
            events,
            turns,
            shutdown,
            served,
        };
        running.connected().await;
        running
    }

    async fn connected(&mut self) {
        while !matches!(self.event().await, AgentEvent::Connected(_)) {}
    }

    async fn event(&mut self) -> AgentEvent {
        let next = tokio::time::timeout(Duration::from_secs(20), self.events.recv());
        next.await.expect("an event").expect("a running agent")
    }

    async fn turn(&mut self) -> Turn {
        let next = tokio::time::timeout(Duration::from_secs(20), self.turns.recv());
        next.await.expect("a turn").expect("a running agent")
    }
}
