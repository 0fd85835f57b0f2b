//! Linked gateways: real sockets, real TLS, and clients of each gateway.

use base::log::{Level, Log};
use egress::credential::Trust;
use testkit::authority::Authority;

use super::*;

/// The certificate of every gateway and the clients of all gateways, and what the links log.
pub(super) struct World {
    pub(super) authority: Authority,
    certificates: Vec<Value>,
    pub(super) log: Arc<Lines>,
}

/// The lines of a log.
#[derive(Default)]
pub(super) struct Lines(Mutex<Vec<String>>);

impl Log for Lines {
    fn log(&self, level: Level, line: &str) {
        if level != Level::Debug {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }
}

impl Lines {
    /// Returns the lines about links being up or down.
    pub(super) fn of_links(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let of_link = |line: &&String| line.starts_with("the link");
        lines.iter().filter(of_link).cloned().collect()
    }
}

impl World {
    pub(super) fn new() -> Self {
        let authority = Authority::new();
        authority.signed("127.0.0.1");
        let certificates = ["client", "paris", "berlin", "rome"].map(|name| {
            let (certificate, _) = authority.signed(name);
            let digest = ring::digest::digest(&ring::digest::SHA256, &certificate);
            let digest: String = digest
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            json!({"name": name, "sha256": digest})
        });
        Self {
            authority,
            certificates: certificates.to_vec(),
            log: Arc::default(),
        }
    }

    /// Returns the trust of a client with the certificate `name`.
    fn trust(&self, name: &str) -> Arc<Trust> {
        let read = |name: &str| std::fs::read(self.authority.file(name)).unwrap();
        let (chain, key) = (read(&format!("{name}.pem")), read(&format!("{name}.key")));
        Arc::new(Trust::read(Some(&read("ca.pem")), Some((&chain, &key))).unwrap())
    }

    /// Returns the link of the gateway `own` that dials the gateway `other`.
    pub(super) fn dials(&self, own: &str, other: &str, to: &Hub) -> Value {
        let file = |name: String| self.authority.file(&name);
        json!({
            "name": other, "url": to.url, "agents": ["*"], "export": ["*"],
            "certFile": file(format!("{own}.pem")), "keyFile": file(format!("{own}.key")), "caFile": file("ca.pem".into()),
        })
    }

    pub(super) async fn hub(&self, links: Value, settings: Value) -> Hub {
        let file = |name: &str| self.authority.file(name);
        let mut config = json!({
            "links": links,
            "tls": {"certFile": file("127.0.0.1.pem"), "keyFile": file("127.0.0.1.key"), "clientCaFile": file("ca.pem")},
            "auth": {"certificates": self.certificates},
            "agents": [],
        });
        for (name, value) in settings.as_object().unwrap() {
            config[name] = value.clone();
        }
        let folder = tempfile::tempdir().unwrap();
        let mut config = ServerConfig::parse(&config.to_string()).unwrap();
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.state_dir = folder.path().to_owned();
        Hub::start(config, folder, Arc::clone(&self.log)).await
    }

    /// Connects a client that serves these agents.
    pub(super) async fn client(&self, hub: &Hub, agents: &[&str]) -> Client {
        self.client_as("client", hub, agents).await
    }

    /// Connects a client with the certificate `name`.
    pub(super) async fn client_as(&self, name: &str, hub: &Hub, agents: &[&str]) -> Client {
        let endpoint = Endpoint {
            trust: Some(self.trust(name)),
            ..Endpoint::new(hub.url.parse().unwrap())
        };
        let connector = Connector::new().unwrap();
        Client(connector.open(&endpoint, agents).await.unwrap().0)
    }

    /// Waits until an agent has a status.
    pub(super) async fn wait_for(&self, hub: &Hub, agent: &str, status: &str) {
        let mut client = self.client(hub, &[]).await;
        let content = json!({"channel": "agent:status"});
        client.send(Envelope::new(Kind::Subscribe, content)).await;
        loop {
            let changed = client.next_of(Kind::Status).await;
            let content = changed.content();
            if content["agent"] == agent && content["status"] == status {
                return;
            }
        }
    }

    /// Returns the content of a discovery response.
    pub(super) async fn discovery(&self, hub: &Hub) -> Value {
        let mut client = self.client(hub, &[]).await;
        let content = json!({"action": "list"});
        client.send(Envelope::new(Kind::Discovery, content)).await;
        client.next_of(Kind::Discovery).await.content().clone()
    }

    /// Starts `paris`, which dials `berlin`, with `coder` at berlin and `steward` at paris.
    pub(super) async fn pair(&self) -> Pair {
        let accepts = json!([{"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["*", "triad"]}]);
        let berlin = self.hub(accepts, json!({})).await;
        let mut link = self.dials("paris", "berlin", &berlin);
        link["agents"] = json!(["*", "triad"]);
        let paris = self.hub(json!([link]), json!({})).await;
        let coder = self.client(&berlin, &["coder"]).await;
        let steward = self.client(&paris, &["steward"]).await;
        self.wait_for(&paris, "coder@berlin", "online").await;
        self.wait_for(&berlin, "steward@paris", "online").await;
        Pair {
            berlin,
            paris,
            coder,
            steward,
        }
    }
}

/// Two linked gateways, and an agent of each.
pub(super) struct Pair {
    pub(super) berlin: Hub,
    pub(super) paris: Hub,
    pub(super) coder: Client,
    pub(super) steward: Client,
}

/// A gateway with its links. It ends with the test.
pub(super) struct Hub {
    pub(super) url: String,
    config: ServerConfig,
    folder: tempfile::TempDir,
    log: Arc<Lines>,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Hub {
    async fn start(config: ServerConfig, folder: tempfile::TempDir, log: Arc<Lines>) -> Self {
        let server = Server::bind(config.clone(), Arc::new(SystemEnvironment), log.clone());
        let server = server.await.unwrap();
        let config = ServerConfig {
            listen: server.address(),
            ..config
        };
        let (url, shutdown) = (server.url(), CancellationToken::new());
        let mut links = Supervisor::new(log.clone());
        links.add_links(&server);
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            tokio::join!(server.run(stop.clone()), links.run(stop));
        });
        Self {
            url,
            config,
            folder,
            log,
            shutdown,
            running,
        }
    }

    pub(super) async fn stop(self) -> Stopped {
        self.shutdown.cancel();
        self.running.await.unwrap();
        Stopped(self.config, self.folder, self.log)
    }
}

/// A gateway that can start again at its address.
pub(super) struct Stopped(ServerConfig, tempfile::TempDir, Arc<Lines>);

impl Stopped {
    pub(super) async fn start(self) -> Hub {
        Hub::start(self.0, self.1, self.2).await
    }
}

/// Returns a message to an agent.
pub(super) fn to(agent: &str, text: &str) -> Envelope {
    Envelope::new(Kind::Message, json!({"role": "user", "content": text})).with("agent", agent)
}

/// Returns a message to an agent that requires a response.
pub(super) fn asks(agent: &str, text: &str) -> Envelope {
    to(agent, text)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", text)
}

/// Returns the reply of an agent.
pub(super) fn reply(request: &Envelope, text: &str) -> Envelope {
    let content = json!({"role": "agent", "content": text});
    Envelope::answer(Kind::Message, content, request)
        .with("agent", request.from().map(str::to_owned))
}

/// Sends a ping, and returns the next message.
pub(super) async fn ping(client: &mut Client) -> Envelope {
    client.send(Envelope::new(Kind::Ping, json!({}))).await;
    client.next().await
}

#[tokio::test]
async fn h_60_request_and_reply_cross_a_link() {
    let world = World::new();
    let mut pair = world.pair().await;
    let request = asks("coder@berlin", "r-1").with("sessionId", "s-1");
    pair.steward.send(request.with_metadata("ttl", 60)).await;
    let received = pair.coder.next_of(Kind::Message).await;
    assert_eq!(
        (received.from(), received.agent()),
        (Some("steward@paris"), Some("coder"))
    );
    assert_eq!(received.metadata("hops"), Some(&json!(1)));
    assert_eq!(received.metadata("confirm"), None);
    assert_eq!(
        (received.session_id(), text(&received)),
        (Some("s-1"), "r-1")
    );
    let content = json!({"agent": "coder", "status": "busy", "message": "half"});
    pair.coder
        .send(Envelope::answer(Kind::Status, content, &received))
        .await;
    let progress = pair.steward.next_of(Kind::Status).await;
    assert_eq!(progress.content_str("message"), Some("half"));
    pair.coder.send(reply(&received, "done")).await;
    let answer = pair.steward.next_of(Kind::Message).await;
    assert_eq!(
        (answer.from(), answer.agent()),
        (Some("coder@berlin"), Some("steward"))
    );
    assert_eq!(
        (answer.correlation_id(), text(&answer)),
        (Some("r-1"), "done")
    );
    assert_eq!(answer.session_id(), Some("s-1"));
}

#[tokio::test]
async fn h_60_accepting_gateway_asks_the_dialling_one() {
    let world = World::new();
    let mut pair = world.pair().await;
    let mut nameless = world.client(&pair.berlin, &[]).await;
    nameless.send(asks("steward@paris", "r-1")).await;
    let received = pair.steward.next_of(Kind::Message).await;
    assert_eq!(
        received.from(),
        Some("gateway@berlin"),
        "clients have no name elsewhere"
    );
    pair.steward.send(reply(&received, "done")).await;
    let answer = nameless.next_of(Kind::Message).await;
    assert_eq!(
        (answer.from(), text(&answer)),
        (Some("steward@paris"), "done")
    );
    assert!(
        answer.session_id().is_some(),
        "the session of the other gateway"
    );
}

#[tokio::test]
async fn h_62_pong_follows_the_acceptance_of_the_other_gateway() {
    let world = World::new();
    let mut pair = world.pair().await;
    for i in 0..20 {
        pair.steward
            .send(to("coder@berlin", &format!("m-{i}")))
            .await;
    }
    assert_eq!(ping(&mut pair.steward).await.kind(), Kind::Pong);
    // The other gateway has stored them, whatever happens to this one now.
    pair.paris.stop().await;
    for i in 0..20 {
        let received = pair.coder.next_of(Kind::Message).await;
        assert_eq!(text(&received), format!("m-{i}"));
    }
}

#[tokio::test]
async fn h_62_refusal_of_the_other_gateway_precedes_the_pong() {
    let world = World::new();
    let mut pair = world.pair().await;
    let content = json!({"agent": "coder", "status": "error"});
    pair.coder.send(Envelope::new(Kind::Status, content)).await;
    world.wait_for(&pair.paris, "coder@berlin", "error").await;
    for (agent, code) in [
        ("coder@berlin", 3002),
        ("absent@berlin", 3001),
        ("x@nowhere", 3001),
    ] {
        pair.steward.send(to(agent, "m").with("id", agent)).await;
        let error = ping(&mut pair.steward).await;
        assert_eq!(error.kind(), Kind::Error, "{}", error.to_text());
        assert_eq!(error.content()["code"], code, "{}", error.to_text());
        assert_eq!(error.parent_id(), Some(agent));
        assert_eq!(pair.steward.next().await.kind(), Kind::Pong);
    }
}

#[tokio::test]
async fn h_59_agents_are_listed_with_their_status() {
    let world = World::new();
    let pair = world.pair().await;
    let content = json!({"agent": "coder", "status": "busy"});
    pair.coder.send(Envelope::new(Kind::Status, content)).await;
    world.wait_for(&pair.paris, "coder@berlin", "busy").await;
    let listed = world.discovery(&pair.paris).await;
    let mut agents = listed["agents"].as_array().unwrap().clone();
    agents.sort_by_key(|agent| agent["name"].to_string());
    assert_eq!(
        (&agents[0]["name"], &agents[1]["name"]),
        (&json!("coder@berlin"), &json!("steward"))
    );
    assert_eq!(
        (&agents[0]["link"], &agents[0]["workspace"]),
        (&json!("berlin"), &Value::Null)
    );
    let link = &listed["links"][0];
    assert_eq!(
        (&link["name"], &link["status"]),
        (&json!("berlin"), &json!("up")),
        "{listed}"
    );
    assert!(link["since"].is_u64(), "{listed}");
    let late = world.client(&pair.berlin, &["late"]).await;
    world.wait_for(&pair.paris, "late@berlin", "online").await;
    drop(late);
    world.wait_for(&pair.paris, "late@berlin", "offline").await;
}

#[tokio::test]
async fn h_61_message_crosses_a_line_of_three() {
    let world = World::new();
    let of_rome = json!([{"name": "berlin", "certificate": "berlin", "agents": ["*", "*@*"], "export": ["*"]}]);
    let rome = world.hub(of_rome, json!({})).await;
    let mut to_rome = world.dials("berlin", "rome", &rome);
    to_rome["export"] = json!(["*", "*@paris"]);
    let of_paris = json!({"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["*", "*@rome"]});
    let berlin = world.hub(json!([to_rome, of_paris]), json!({})).await;
    let mut to_berlin = world.dials("paris", "berlin", &berlin);
    to_berlin["agents"] = json!(["*", "*@*"]);
    let paris = world.hub(json!([to_berlin]), json!({})).await;
    let mut carol = world.client(&rome, &["carol"]).await;
    let mut steward = world.client(&paris, &["steward"]).await;
    world.wait_for(&paris, "carol@rome@berlin", "online").await;
    world
        .wait_for(&rome, "steward@paris@berlin", "online")
        .await;
    steward.send(asks("carol@rome@berlin", "r-1")).await;
    let received = carol.next_of(Kind::Message).await;
    assert_eq!(received.from(), Some("steward@paris@berlin"));
    assert_eq!(received.metadata("hops"), Some(&json!(2)));
    carol.send(reply(&received, "done")).await;
    let answer = steward.next_of(Kind::Message).await;
    assert_eq!(
        (answer.from(), text(&answer)),
        (Some("carol@rome@berlin"), "done")
    );
    steward.send(to("carol@rome@berlin", "m-1")).await;
    assert_eq!(ping(&mut steward).await.kind(), Kind::Pong);
    assert_eq!(text(&carol.next_of(Kind::Message).await), "m-1");
    let spent = to("carol@rome@berlin", "m-2").with_metadata("hops", 3);
    steward.send(spent.with("id", "m-2")).await;
    let error = ping(&mut steward).await;
    assert_eq!(
        (error.content()["code"].as_u64(), error.parent_id()),
        (Some(2005), Some("m-2"))
    );
}

#[tokio::test]
async fn h_61_broadcast_in_a_ring_arrives_once() {
    let world = World::new();
    let accepts = |name: &str| json!({"name": name, "certificate": name, "agents": ["*"], "export": ["*"], "broadcasts": true});
    let dials = |own: &str, other: &str, to: &Hub| {
        let mut link = world.dials(own, other, to);
        link["broadcasts"] = true.into();
        link
    };
    let rome = world
        .hub(json!([accepts("berlin"), accepts("paris")]), json!({}))
        .await;
    let berlin_links = json!([dials("berlin", "rome", &rome), accepts("paris")]);
    let berlin = world.hub(berlin_links, json!({})).await;
    let paris_links = json!([
        dials("paris", "berlin", &berlin),
        dials("paris", "rome", &rome)
    ]);
    let paris = world.hub(paris_links, json!({})).await;
    let mut carol = world.client(&rome, &["carol"]).await;
    let mut coder = world.client(&berlin, &["coder"]).await;
    let mut steward = world.client(&paris, &["steward"]).await;
    for (hub, agents) in [
        (&paris, ["carol@rome", "coder@berlin"]),
        (&berlin, ["carol@rome", "steward@paris"]),
        (&rome, ["coder@berlin", "steward@paris"]),
    ] {
        for agent in agents {
            world.wait_for(hub, agent, "online").await;
        }
    }
    for number in ["b-1", "b-2"] {
        let content = json!({"message": number});
        steward
            .send(Envelope::new(Kind::Broadcast, content).with("id", number))
            .await;
        let result = steward.next_of(Kind::Response).await;
        let mut forwarded = result.content()["result"]["forwarded"]
            .as_array()
            .unwrap()
            .clone();
        forwarded.sort_by_key(Value::to_string);
        assert_eq!(forwarded, ["berlin", "rome"]);
    }
    for agent in [&mut carol, &mut coder] {
        for number in ["b-1", "b-2"] {
            let received = agent.next_of(Kind::Broadcast).await;
            assert_eq!(
                received.id(),
                Some(number),
                "each arrives once and in order"
            );
            assert_eq!(received.from(), Some("steward@paris"));
        }
    }
    // Copies that went around would precede the pong.
    assert_eq!(ping(&mut steward).await.kind(), Kind::Pong);
}

#[tokio::test]
async fn h_63_triad_behind_a_link_decides() {
    let world = World::new();
    let mut pair = world.pair().await;
    let mut members = Vec::new();
    for name in ["alpha", "beta"] {
        members.push(world.client(&pair.berlin, &[name]).await);
    }
    let proposal = Envelope::new(Kind::Proposal, json!({"proposal": "Ship it"}))
        .with("id", "p-1")
        .with("agent", "triad@berlin");
    pair.steward.send(proposal).await;
    for member in &mut members {
        let proposed = member.next_of(Kind::Proposal).await;
        assert_eq!(proposed.from(), Some("steward@paris"));
        let content = json!({"proposalId": proposed.id(), "vote": "approve"});
        member.send(Envelope::new(Kind::Vote, content)).await;
    }
    for name in ["alpha@berlin", "beta@berlin"] {
        let vote = pair.steward.next_of(Kind::Vote).await;
        assert_eq!(vote.from(), Some(name));
    }
    let decision = pair.steward.next_of(Kind::Decision).await;
    assert_eq!(
        decision.content()["result"],
        "approved",
        "{}",
        decision.to_text()
    );
    assert_eq!(decision.content()["proposalId"], "p-1");
    assert_eq!(
        (decision.from(), decision.correlation_id()),
        (Some("triad@berlin"), Some("p-1"))
    );
}
