//! Agents that the gateway runs itself.

use base::log::{Level, Log};

use super::*;

/// A log that the test reads.
struct Lines(mpsc::UnboundedSender<String>);

impl Log for Lines {
    fn log(&self, _level: Level, line: &str) {
        let _ = self.0.send(line.to_owned());
    }

    fn enabled(&self, _level: Level) -> bool {
        true
    }
}

/// Starts a gateway with `auth` that runs `coder` itself.
async fn supervised(steps: Vec<Step>) -> (Gateway, mpsc::UnboundedReceiver<Turn>) {
    let folder = tempfile::tempdir().unwrap();
    let key = "bf88c644bfeac846c3294403f8a3522e529709ea4d1710a68aeedbd1448df956";
    let config = json!({
        "listen": "127.0.0.1:0", "stateDir": folder.path(),
        "auth": {"keys": [{"name": "bridge", "sha256": key, "roles": ["caller"]}]},
        "roles": {"caller": {"send": ["*"]}},
        "agents": [{"name": "coder", "role": "Developer", "backend": {"run": "cat"}}],
    });
    let config = ServerConfig::parse(&config.to_string()).unwrap();
    let server = Server::bind(
        config.clone(),
        Arc::new(SystemEnvironment),
        Arc::new(Silent),
    );
    let server = server.await.unwrap();
    let mut supervisor = Supervisor::new(Arc::new(Silent));
    let (sender, turns) = mpsc::unbounded_channel();
    let backend = Script {
        steps: Mutex::new(steps.into()),
        turns: sender,
    };
    supervisor.add(&server, AgentSettings::new("coder"), Arc::new(backend));
    let (url, shutdown) = (server.url(), CancellationToken::new());
    let agents = supervisor.run(shutdown.clone());
    let serving = server.run(shutdown.clone());
    let running = tokio::spawn(async move {
        tokio::join!(agents, serving);
    });
    let gateway = Gateway {
        url,
        config,
        _folder: folder,
        shutdown,
        running,
    };
    (gateway, turns)
}

impl Gateway {
    async fn bridge(&self) -> Client {
        let endpoint = Endpoint {
            token: Some("bridge-key".to_owned().into()),
            ..self.endpoint()
        };
        let opened = Connector::new().unwrap().open(&endpoint, &[]).await;
        Client(opened.unwrap().0)
    }
}

/// Sends a message repeatedly until the agent is online.
async fn answer(client: &mut Client) -> Envelope {
    loop {
        let reply = client.send_message("s-1", "work").await;
        match reply.content()["code"].as_u64() {
            Some(3002) => tokio::task::yield_now().await,
            _ => return reply,
        }
    }
}

#[tokio::test]
async fn gateway_with_auth_runs_its_own_agent() {
    let (gateway, _turns) = supervised(Vec::new()).await;
    let mut client = gateway.bridge().await;
    assert_eq!(text(&answer(&mut client).await), "I read: work");
    client
        .send(Envelope::new(Kind::Discovery, json!({"action": "list"})))
        .await;
    let listed = client.next_of(Kind::Discovery).await;
    assert_eq!(listed.content()["agents"][0]["backend"], "run");
}

#[tokio::test]
async fn panic_of_a_supervised_agent_leaves_the_gateway() {
    let (gateway, _turns) = supervised(vec![Step::Panic]).await;
    let mut client = gateway.bridge().await;
    assert_eq!(answer(&mut client).await.content()["code"], 3004);
    assert_eq!(text(&answer(&mut client).await), "I read: work");
}

#[tokio::test]
async fn supervised_agents_stop_with_the_gateway() {
    let (mut gateway, mut turns) = supervised(vec![Step::Reply("ready"), Step::Hang]).await;
    let mut client = gateway.bridge().await;
    assert_eq!(text(&answer(&mut client).await), "ready");
    client.send(message("s-1", "work")).await;
    turns.recv().await.unwrap();
    turns.recv().await.unwrap();
    gateway.shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(15), &mut gateway.running);
    stopped.await.expect("an end").unwrap();
}

#[tokio::test]
async fn agent_with_taken_name_restarts_with_backoff() {
    let folder = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        state_dir: folder.path().to_owned(),
        ..ServerConfig::default()
    };
    let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent));
    let server = server.await.unwrap();
    let (line, mut lines) = mpsc::unbounded_channel();
    let mut supervisor = Supervisor::new(Arc::new(Lines(line)));
    let (sender, _turns) = mpsc::unbounded_channel();
    let backend = Script {
        steps: Mutex::default(),
        turns: sender,
    };
    supervisor.add(&server, AgentSettings::new("coder"), Arc::new(backend));
    let (url, shutdown) = (server.url(), CancellationToken::new());
    let serving = tokio::spawn(server.run(shutdown.clone()));
    let open = async |name: &str| {
        let endpoint = Endpoint::new(url.parse().unwrap());
        let opened = Connector::new().unwrap().open(&endpoint, &[name]).await;
        Client(opened.unwrap().0)
    };
    let taken = open("coder").await;
    let supervised = tokio::spawn(supervisor.run(shutdown.clone()));
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let line = lines.recv().await.unwrap();
        ends.extend(line.contains("it starts again in").then_some(line));
    }
    assert!(ends[0].contains("5004"), "{ends:?}");
    let mut client = open("steward").await;
    let channel = json!({"channel": "agent:status", "agents": ["coder"]});
    client.send(Envelope::new(Kind::Subscribe, channel)).await;
    drop(taken);
    for status in ["online", "offline", "online"] {
        let envelope = client.next_of(Kind::Status).await;
        assert_eq!(envelope.content_str("status"), Some(status));
    }
    assert_eq!(
        text(&client.send_message("s-1", "work").await),
        "I read: work"
    );
    shutdown.cancel();
    supervised.await.unwrap();
    serving.await.unwrap();
}
