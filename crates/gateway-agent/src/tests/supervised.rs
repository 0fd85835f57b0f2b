//! Agents that the gateway runs itself.

use super::*;

/// Starts a gateway with `auth`, which runs `coder` itself.
async fn supervised(acts: Vec<Act>) -> (Gateway, mpsc::UnboundedReceiver<Turn>) {
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
    let (asked, turns) = mpsc::unbounded_channel();
    let backend = Script {
        acts: Mutex::new(acts.into()),
        turns: asked,
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

/// Asks until the agent is online.
async fn answer(client: &mut Client) -> Envelope {
    loop {
        let reply = client.ask("s-1", "work").await;
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
    let (gateway, _turns) = supervised(vec![Act::Panic]).await;
    let mut client = gateway.bridge().await;
    assert_eq!(answer(&mut client).await.content()["code"], 3004);
    assert_eq!(text(&answer(&mut client).await), "I read: work");
}

#[tokio::test]
async fn supervised_agents_stop_with_the_gateway() {
    let (mut gateway, mut turns) = supervised(vec![Act::Say("ready"), Act::Hang]).await;
    let mut client = gateway.bridge().await;
    assert_eq!(text(&answer(&mut client).await), "ready");
    client.send(message("s-1", "work")).await;
    turns.recv().await.unwrap();
    turns.recv().await.unwrap();
    gateway.shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(15), &mut gateway.running);
    stopped.await.expect("an end").unwrap();
}
