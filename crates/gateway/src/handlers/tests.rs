//! Frames of clients with keys, without sockets.

#![allow(clippy::unwrap_used)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base::environment::{Clock, IdGenerator};
use base::files::Fsync;
use base::log::Silent;
use base::text::hex;
use egress::ReqwestClient;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::access::Keyring;
use crate::audit::Audit;
use crate::config::{AuthConfig, KeyConfig, ServerConfig};
use crate::links::Links;
use crate::outbox::Outbox;
use crate::sessions::Sessions;
use crate::signing::Signing;
use crate::state::{StateParts, Timeouts};

/// The clock of the runtime, which tests pause.
struct TestClock(tokio::time::Instant);

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_711_843_200) + self.0.elapsed()
    }
}

impl IdGenerator for TestClock {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// The state of a gateway with the keys `ada`, `bob` and `eve`.
struct Gateway {
    state: Arc<GatewayState>,
    folder: tempfile::TempDir,
}

impl Gateway {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str| KeyConfig {
            name: name.to_owned(),
            sha256: hex(digest(&SHA256, name.as_bytes()).as_ref()),
            roles: Vec::new(),
            agent: None,
            expires_at: None,
        };
        let mut config = ServerConfig {
            state_dir: folder.path().to_owned(),
            fsync: Fsync::Never,
            auth: Some(AuthConfig {
                keys: ["ada", "bob", "eve"].map(key).into(),
                ..AuthConfig::default()
            }),
            ..ServerConfig::default()
        };
        change(&mut config);
        let env = Arc::new(TestClock(tokio::time::Instant::now()));
        let parts = StateParts {
            keyring: Keyring::load(&config).unwrap(),
            signing: Signing::load(&config, 0).unwrap(),
            links: Links::load(&config).unwrap(),
            sessions: Sessions::open(&config, env.clone(), Arc::new(Silent)).unwrap(),
            audit: Audit::new(&config, Arc::new(Silent)),
            net: Arc::new(ReqwestClient::new().unwrap()),
            log: Arc::new(Silent),
            env,
            config,
        };
        Self {
            state: GatewayState::new(parts, Timeouts::default()),
            folder,
        }
    }

    /// Returns a new connection.
    fn connect(&self) -> FrameHandler {
        let limits = &self.state.config.limits;
        let outbox = Outbox::new(limits.queue_bytes, Arc::clone(&self.state.queue_budget));
        let id = format!("client-{}", Uuid::new_v4());
        let address = Some([192, 0, 2, 1].into());
        let client = Client::new(id, address, outbox, self.state.env.now());
        let mut registry = self.state.registry_mut();
        assert!(registry.add_client(&client, limits.connections));
        FrameHandler::new(Arc::clone(&self.state), client)
    }

    /// Returns the name by which the shares of a key are counted.
    fn share_key(&self, key: &str) -> String {
        let now = self.state.env.system_time();
        let known = self.state.keyring.authenticate(key, now).unwrap();
        known.identity.share_key()
    }

    /// Returns a connection that has authenticated with a key.
    async fn log_in(&self, key: &str) -> FrameHandler {
        let mut client = self.connect();
        let response = client.authenticate(key).await;
        assert_eq!(response["status"], "ok", "{response}");
        client
    }
}

impl FrameHandler {
    /// Sends a message, and returns the last message that the connection has received since.
    async fn request(&mut self, message: Value) -> Value {
        self.handle_text(&message.to_string()).await;
        self.received().pop().unwrap_or_default()
    }

    fn received(&self) -> Vec<Value> {
        let texts = self.client.outbox.drain();
        let parsed = texts.iter().map(|text| serde_json::from_str(text).unwrap());
        parsed.collect()
    }

    async fn authenticate(&mut self, key: &str) -> Value {
        let auth = json!({"type": "auth", "content": {"token": key}});
        self.request(auth).await["content"].take()
    }

    async fn serve(&mut self, agent: &str) {
        let capabilities = json!({"supportedAgents": [agent]});
        let content = json!({"action": "advertise", "capabilities": capabilities});
        let reply = self
            .request(json!({"type": "handshake", "content": content}))
            .await;
        assert_eq!(reply["type"], "handshake", "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_do_not_lock_out_known_clients() {
    let gateway = Gateway::new();
    gateway.log_in("ada").await;
    for guess in 0..20 {
        let key = format!("guess-{guess}");
        let response = gateway.connect().authenticate(&key).await;
        let code = if guess < 10 { 5002 } else { 3003 };
        assert_eq!(response["code"], code, "{response}");
    }
    gateway.log_in("ada").await;
    let guessed = gateway.connect().authenticate("bob").await;
    assert_eq!(
        guessed["code"], 3003,
        "a right guess looks like a wrong one"
    );
    tokio::time::advance(Duration::from_secs(4)).await;
    gateway.log_in("bob").await;
}

#[tokio::test(start_paused = true)]
async fn identity_leaves_open_requests_of_an_agent_to_others() {
    let gateway = Gateway::new();
    let mut agent = gateway.log_in("eve").await;
    agent.serve("coder").await;
    let message = |id: String| {
        let content = json!({"role": "user", "content": "x"});
        json!({"type": "message", "id": id, "agent": "coder", "content": content, "metadata": {"correlationId": id}})
    };
    let mut disconnected = Vec::new();
    let mut code = Value::Null;
    for connection in 0..2 {
        let mut ada = gateway.log_in("ada").await;
        for number in 0..700 {
            tokio::time::advance(Duration::from_millis(20)).await;
            let id = format!("m-{connection}-{number}");
            code = ada.request(message(id)).await["content"]["code"].take();
            agent.received();
        }
        disconnected.push(ada);
    }
    assert_eq!(code, 3003);
    let mut bob = gateway.log_in("bob").await;
    assert_eq!(bob.request(message("b".to_owned())).await, Value::Null);
    for ada in &disconnected {
        gateway.state.remove_client(&ada.client);
    }
    let mut ada = gateway.log_in("ada").await;
    assert_eq!(ada.request(message("a".to_owned())).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn refusals_do_not_displace_audit_records() {
    let gateway = Gateway::new();
    let mut ada = gateway.log_in("ada").await;
    let mut eve = gateway.log_in("eve").await;
    let refused = json!({"type": "message", "agent": "no such agent", "content": {"role": "user", "content": "x"}});
    for _ in 0..300 {
        assert_eq!(eve.request(refused.clone()).await["content"]["code"], 3001);
        gateway.connect().request(refused.clone()).await;
    }
    assert_eq!(
        ada.request(json!({"type": "ping", "content": {}})).await["type"],
        "pong"
    );
    tokio::time::sleep(Duration::from_secs(61)).await;
    gateway.state.audit.close();
    let text = std::fs::read_to_string(gateway.folder.path().join("audit.jsonl")).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Each sender has 50 records and the count of the others; both keys have one of `auth`.
    assert_eq!(records.len(), 2 * 51 + 2 + 1);
    for from in [gateway.share_key("eve"), "192.0.2.1".to_owned()] {
        let mut counts = records
            .iter()
            .filter(|record| record["outcome"] == "refused");
        let count = counts.find(|record| record["from"] == *from).unwrap();
        assert_eq!(count["count"], 250);
    }
    assert!(records.iter().any(|record| record["type"] == "ping"));
}

/// Returns the number of session files of an agent.
fn session_files(gateway: &Gateway, agent: &str) -> usize {
    let folder = gateway
        .folder
        .path()
        .join("agents")
        .join(agent)
        .join("sessions");
    std::fs::read_dir(folder).map_or(0, |files| files.count())
}

#[tokio::test(start_paused = true)]
async fn refused_message_creates_no_session() {
    let gateway = Gateway::with(|config| {
        config.strict = true;
        config.limits.queue_bytes = 4096;
    });
    let mut agent = gateway.log_in("eve").await;
    agent.serve("coder").await;
    let mut ada = gateway.log_in("ada").await;
    let content = json!({"role": "user", "content": "x".repeat(3000)});
    let message = json!({"type": "message", "agent": "coder", "content": content});
    assert_eq!(ada.request(message.clone()).await, Value::Null);
    for _ in 0..3 {
        assert_eq!(ada.request(message.clone()).await["content"]["code"], 3003);
    }
    assert_eq!(session_files(&gateway, "coder"), 1);
}

#[tokio::test(start_paused = true)]
async fn session_operations_count_towards_the_limit_of_the_client() {
    let gateway = Gateway::with(|config| config.limits.daily_session_bytes_per_client = 100_000);
    let mut ada = gateway.log_in("ada").await;
    let create = |number: usize| json!({"service": "gateway", "operation": "sessions.create", "agent": "coder", "sessionId": format!("s-{number}")});
    let line = json!({"timestamp": 1, "role": "user", "content": "x".repeat(30_000), "sessionId": "s", "id": "m"});
    let import = |number: usize| json!({"service": "gateway", "operation": "sessions.import", "agent": "coder", "sessionId": format!("i-{number}"), "jsonl": line.to_string()});
    let mut made = Vec::new();
    for (client, count) in [(&import as &dyn Fn(usize) -> Value, 3), (&create, 30)] {
        let mut accepted = 0;
        for number in 0..count {
            let reply = ada
                .request(json!({"type": "request", "content": client(number)}))
                .await;
            match reply["content"]["code"].as_u64() {
                None => accepted += 1,
                code => assert_eq!(code, Some(3003), "{reply}"),
            }
        }
        made.push(accepted);
    }
    // 34 KiB each, and with the rest 4 KiB each.
    assert_eq!(made[0], 2, "{made:?}");
    assert!((5..10).contains(&made[1]), "{made:?}");
    assert_eq!(session_files(&gateway, "coder"), made[0] + made[1]);
    let mut bob = gateway.log_in("bob").await;
    let reply = bob
        .request(json!({"type": "request", "content": create(99)}))
        .await;
    assert_eq!(reply["content"]["result"]["sessionId"], "s-99", "{reply}");
}
