//! A scripted gateway without a network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use a2a::{Card, CardView, Interface, Reply, SendRequest, Task, Transport};
use base::environment::SystemEnvironment;
use base::log::Recorder;
use base::validation;
use collective::{AgentStatus, ErrorCode};
use peer::{
    CallOptions, CardEtag, CardLocation, Connection, ConnectionState, Discovered, EventStream,
    HostSession, LocalGateway, Member, NegotiatedProtocol, Peer, PeerConfig, PeerError,
    PeerErrorKind, PeerProvider,
};

/// The behaviour of the gateway, and the calls that it received.
#[derive(Default)]
pub(super) struct FakeGateway {
    /// Its agents, or the error of the query. `None` never answers.
    pub members: Option<Result<Vec<Member>, PeerError>>,
    /// The error that answers a message; without one, an echo.
    pub peer_error: Option<PeerError>,
    /// Messages wait for this, if present.
    pub unblock: Option<Arc<Notify>>,
    /// It never answers `close`.
    pub hangs_on_close: bool,
    pub received: Mutex<ReceivedCalls>,
}

/// The calls that the gateway received.
#[derive(Default)]
pub(super) struct ReceivedCalls {
    pub members: usize,
    pub cards: Vec<String>,
    pub opened: Vec<(String, Option<HostSession>)>,
    pub waits: Vec<Duration>,
    pub sent: Vec<SendRequest>,
    pub closed: usize,
}

/// Returns an agent in a gateway's list.
pub(super) fn member(name: &str, role: Option<&str>, status: AgentStatus) -> Member {
    Member {
        name: name.to_owned(),
        role: role.map(str::to_owned),
        status: Some(status),
        members: Vec::new(),
        card: card(name),
    }
}

/// Returns the triad, with one member offline.
pub(super) fn triad() -> Member {
    let members = [
        ("alpha", AgentStatus::Online),
        ("beta", AgentStatus::Busy),
        ("charlie", AgentStatus::Offline),
    ];
    Member {
        members: members
            .map(|(name, status)| (name.to_owned(), Some(status)))
            .into(),
        ..member("triad", None, AgentStatus::Online)
    }
}

fn card(name: &str) -> Card {
    let view = CardView {
        name: Some(name.to_owned()),
        ..CardView::default()
    };
    let interface = Interface::new("GATEWAY", "ws://127.0.0.1:18789/");
    Card {
        streaming: Some(true),
        ..Card::new(vec![interface], view)
    }
}

pub(super) fn peer_error(code: ErrorCode) -> PeerError {
    PeerError::new(PeerErrorKind::Gateway(code), "the gateway says no")
}

impl FakeGateway {
    /// Returns a gateway with these agents.
    pub(super) fn with(members: Vec<Member>) -> Self {
        Self {
            members: Some(Ok(members)),
            ..Self::default()
        }
    }

    /// Returns an unreachable gateway.
    pub(super) fn unreachable() -> Self {
        Self {
            members: Some(Err(peer_error(ErrorCode::ConnectionRefused))),
            ..Self::default()
        }
    }

    fn has(&self, name: &str) -> Result<(), PeerError> {
        match &self.members {
            Some(Ok(members)) if members.iter().any(|member| member.name == name) => Ok(()),
            Some(Ok(_)) => Err(peer_error(ErrorCode::AgentNotFound)),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// The tool with a scripted gateway.
pub(super) struct Fixture {
    pub agent: RemoteAgent,
    pub gateway: Arc<FakeGateway>,
    pub log: Arc<Recorder>,
}

impl Fixture {
    /// Enables the gateway, with `more` settings.
    pub(super) fn new(gateway: FakeGateway, more: Value) -> Self {
        Self::with_config(gateway, json!({ "gateway": more }))
    }

    /// Enables the gateway in a configuration.
    pub(super) fn with_config(gateway: FakeGateway, mut config: Value) -> Self {
        config["gateway"]["enabled"] = json!(true);
        let config = Config::parse(&config.to_string()).unwrap();
        let gateway = Arc::new(gateway);
        let log = Arc::new(Recorder::default());
        let agent = RemoteAgent::new(
            &config,
            Arc::new(FakeDirectory(Arc::clone(&gateway))),
            Some(Arc::new(FakeDirectory(Arc::clone(&gateway)))),
            Arc::new(SystemEnvironment),
            PollIntervals::default(),
            Arc::clone(&log) as _,
        );
        Self {
            agent: agent.unwrap(),
            gateway,
            log,
        }
    }

    /// Makes a call and returns its result, which must fit the schema of results.
    pub(super) async fn call(&self, request: Value) -> Value {
        self.call_as(json!({}), request).await
    }

    pub(super) async fn call_as(&self, caller: Value, request: Value) -> Value {
        let call = ToolCall {
            request: &request.to_string(),
            caller: Some(&caller.to_string()),
            updates: None,
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        };
        let result: Value = serde_json::from_str(&self.agent.execute(call).await).unwrap();
        let schema = include_str!("../../../schema/result.schema.json");
        let schema = validation::compile(schema).unwrap();
        assert!(schema.is_valid(&result), "{result}");
        result
    }

    pub(super) async fn send(&self, alias: &str, more: Value) -> Value {
        let mut request = json!({"action": "send", "target_alias": alias, "parts": [{"kind": "text", "text": "hi"}]});
        let fields = request.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        self.call(request).await
    }

    pub(super) async fn list(&self) -> Value {
        let listed = self.call(json!({"action": "list_targets"})).await;
        assert_eq!(listed["ok"], true, "{listed}");
        listed
    }
}

/// The fake gateway as a provider of peers and as the local gateway.
struct FakeDirectory(Arc<FakeGateway>);

#[async_trait]
impl PeerProvider for FakeDirectory {
    async fn discover(
        &self,
        peer_config: &PeerConfig,
        _: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        let name = name(peer_config);
        self.0.received.lock().unwrap().cards.push(name.clone());
        self.0.has(&name).map(|()| Discovered::Card {
            card: Box::new(card(&name)),
            validator: None,
            max_age: None,
            date: None,
        })
    }

    fn open(
        &self,
        peer_config: &PeerConfig,
        _: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        let opened = (name(peer_config), options.host.cloned());
        let waits = options.wait_until.unwrap() - Instant::now();
        let mut received = self.0.received.lock().unwrap();
        received.opened.push(opened);
        received.waits.push(waits);
        Ok(Box::new(FakeConnection(Arc::clone(&self.0))))
    }
}

fn name(peer_config: &PeerConfig) -> String {
    match &peer_config.card {
        CardLocation::Path(path) => path.strip_prefix("/agents/").unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[async_trait]
impl LocalGateway for FakeDirectory {
    async fn members(&self) -> Result<Vec<Member>, PeerError> {
        self.0.received.lock().unwrap().members += 1;
        match self.0.members.clone() {
            Some(members) => members,
            None => std::future::pending().await,
        }
    }

    fn connection(&self) -> Connection {
        let open = matches!(self.0.members, Some(Ok(_)));
        let state = if open {
            ConnectionState::Open
        } else {
            ConnectionState::Closed
        };
        Connection {
            url: "ws://127.0.0.1:18789".to_owned(),
            state,
            dialect: open.then_some("a2a-v1"),
            protocol: "a2a-v1".to_owned(),
            timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(30),
            last_error: None,
        }
    }

    async fn close(&self) {
        self.0.received.lock().unwrap().closed += 1;
        if self.0.hangs_on_close {
            std::future::pending::<()>().await;
        }
    }
}

struct FakeConnection(Arc<FakeGateway>);

impl FakeConnection {
    fn task(id: &str) -> Task {
        let task =
            json!({"kind": "task", "id": id, "contextId": "s-1", "status": {"state": "working"}});
        Task::read(task).unwrap()
    }
}

#[async_trait]
impl Peer for FakeConnection {
    fn protocol(&self) -> NegotiatedProtocol {
        NegotiatedProtocol {
            version: "a2a-v1",
            transport: Transport::Gateway,
        }
    }

    async fn card(&self) -> Result<Card, PeerError> {
        unreachable!("no agent of a gateway has another card")
    }

    async fn send(&self, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        self.0.received.lock().unwrap().sent.push(outgoing.clone());
        if let Some(unblock) = &self.0.unblock {
            unblock.notified().await;
        }
        match &self.0.peer_error {
            Some(error) => Err(error.clone()),
            None => Ok(Reply::Task(Self::task("run-1"))),
        }
    }

    async fn stream(&self, _: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        unreachable!("no test subscribes")
    }

    async fn get_task(&self, task_id: &str, _: Option<u64>) -> Result<Task, PeerError> {
        match &self.0.peer_error {
            Some(error) => Err(error.clone()),
            None => Ok(Self::task(task_id)),
        }
    }

    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        self.get_task(task_id, None).await
    }

    async fn resubscribe(&self, _: &str) -> Result<Box<dyn EventStream>, PeerError> {
        unreachable!("no test subscribes")
    }
}
