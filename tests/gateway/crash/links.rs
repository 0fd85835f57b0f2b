//! Kills one of several linked gateways during messages over the links: the gateway of the recipient has every acknowledged
//! message.

use super::*;
use crate::gateway::{authority::Authority, server::digest};

const SENDERS: usize = 4;

/// Returns the trust of a client with the certificate `name`.
fn trust(authority: &Authority, name: &str) -> Option<Arc<Trust>> {
    let read = |name: &str| fs::read(authority.file(name)).unwrap();
    let (chain, key) = (read(&format!("{name}.pem")), read(&format!("{name}.key")));
    let trust = Trust::read(Some(&read("ca.pem")), Some((&chain, &key)));
    Some(Arc::new(trust.unwrap()))
}

/// Returns the settings of a gateway with TLS and new certificates for clients of these names.
fn with_tls(authority: &Authority, names: &[&str]) -> Value {
    let file = |name: &str| authority.file(name);
    let certificates = names
        .iter()
        .map(|name| json!({"name": name, "sha256": digest(authority.signed(name).0)}));
    json!({
        "tls": {"certFile": file("127.0.0.1.pem"), "keyFile": file("127.0.0.1.key"), "clientCaFile": file("ca.pem")},
        "auth": {"certificates": certificates.collect::<Vec<_>>()},
    })
}

/// Returns the link of the gateway `name`, which dials.
fn accepted(name: &str) -> Value {
    json!({"name": name, "certificate": name, "agents": ["*", "*@*"], "export": ["*", "*@*"]})
}

/// Returns the link by which the gateway `own` dials `other`.
fn dialled(authority: &Authority, own: &str, other: &str, url: &str) -> Value {
    let file = |name: &str| authority.file(name);
    json!({"name": other, "url": url, "agents": ["*", "*@*"], "export": ["*", "*@*"],
        "certFile": file(&format!("{own}.pem")), "keyFile": file(&format!("{own}.key")), "caFile": file("ca.pem")})
}

fn write_settings(state: &Folder, mut settings: Value) {
    settings["limits"] = json!({"messagesPerSecond": 1_000_000, "burst": 1_000_000});
    fs::write(state.file("gateway.json"), settings.to_string()).unwrap();
}

/// Runs the agent `coder` on a gateway with TLS until the gateway ends.
async fn serve_coder(url: &str, authority: &Authority) {
    let connection = try_connect_as(url, trust(authority, "coder")).await;
    let connection = advertise_agent(connection.unwrap(), "coder").await.unwrap();
    tokio::spawn(run_agent(connection, "coder", Acknowledged::default()));
}

/// Subscribes to the status of agents, and waits until one has this status.
async fn wait_for_status(client: &mut Opened, agent: &str, status: &str) {
    let subscribe = json!({"type": "subscribe", "content": {"channel": "agent:status"}});
    client.sender.text(subscribe.to_string()).await.unwrap();
    let is_reached = |message: &Value| {
        let content = &message["content"];
        content["agent"] == agent && content["status"] == status
    };
    while !is_reached(&within_timeout(next(client)).await.unwrap()) {}
}

/// Sends messages over links to `agent`, each with a ping, until one is not acknowledged.
async fn send_messages(
    mut client: Opened,
    sender: String,
    agent: &'static str,
    acknowledged: Acknowledged,
) {
    for i in 0.. {
        let id = format!("{sender}-{i}");
        let message = json!({"type": "message", "id": id, "agent": agent, "sessionId": sender,
            "content": {"role": "user", "content": "x".repeat(i % 700)}});
        let ping = json!({"type": "ping", "id": format!("ping-{id}")});
        for frame in [message, ping] {
            if client.sender.text(frame.to_string()).await.is_err() {
                return;
            }
        }
        loop {
            match within_timeout(next(&mut client)).await {
                None => return,
                Some(answer) if answer["type"] == "pong" => break,
                Some(answer) if answer["type"] == "error" => return,
                Some(_) => {}
            }
        }
        insert(&acknowledged, "coder", id);
    }
}

/// Sends messages from several clients of a gateway, and kills one after `entries` further messages are acknowledged.
async fn kill_under_load(
    url: &str,
    agent: &'static str,
    acknowledged: &Acknowledged,
    entries: usize,
    killed: Gateway,
) {
    let mut ids = acknowledged.subscribe();
    let kill_at = count(&ids.borrow()) + entries;
    let mut clients = Vec::new();
    for _ in 0..SENDERS {
        let mut client = connect(url).await;
        wait_for_status(&mut client, agent, "online").await;
        clients.push(client);
    }
    let senders = clients.into_iter().enumerate().map(|(sender, client)| {
        let sender = format!("m-{entries}-{sender}");
        tokio::spawn(send_messages(
            client,
            sender,
            agent,
            Arc::clone(acknowledged),
        ))
    });
    let senders: Vec<_> = senders.collect();
    within_timeout(ids.wait_for(|ids| count(ids) >= kill_at))
        .await
        .unwrap();
    killed.kill();
    for sender in senders {
        within_timeout(sender).await.unwrap();
    }
}

/// Checks that the sessions of `coder` contain every acknowledged message, and each message once.
fn check_stored(state: &Folder, acknowledged: &Acknowledged, case: &str) {
    let stored = stored_ids(state.path(), "coder");
    let all: BTreeSet<_> = stored.iter().cloned().collect();
    assert_eq!(all.len(), stored.len(), "a gateway sent a message twice");
    let ids = acknowledged.borrow();
    let missing: Vec<_> = ids["coder"].difference(&all).collect();
    assert!(missing.is_empty(), "{case}: lost {missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_62_kill_of_a_linked_gateway_loses_no_acknowledged_message() {
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let (berlin_state, paris_state) = (Folder::new(), Folder::new());
    let mut of_berlin = with_tls(&authority, &["coder", "paris"]);
    of_berlin["links"] = json!([accepted("paris")]);
    write_settings(&berlin_state, of_berlin);
    let acknowledged = Acknowledged::default();
    for (round, kills_berlin) in [true, false, true, false].into_iter().enumerate() {
        let berlin = Gateway::start(berlin_state.path(), "always");
        let link = dialled(&authority, "paris", "berlin", &berlin.url);
        write_settings(&paris_state, json!({"links": [link]}));
        let paris = Gateway::start(paris_state.path(), "always");
        serve_coder(&berlin.url, &authority).await;
        let (url, entries) = (paris.url.clone(), 97 * (round + 1));
        let (killed, other) = match kills_berlin {
            true => (berlin, paris),
            false => (paris, berlin),
        };
        kill_under_load(&url, "coder@berlin", &acknowledged, entries, killed).await;
        drop(other);
        let case = format!("killed berlin: {kills_berlin}");
        check_stored(&berlin_state, &acknowledged, &case);
    }
}

/// The name at berlin of the agent at munich.
const CODER: &str = "coder@munich@hamburg";

/// Two gateways with a third one between them, and an agent of each.
struct Ends {
    berlin: Gateway,
    munich: Gateway,
    /// The trust of the agent at munich.
    trust: Option<Arc<Trust>>,
    /// The connection of the agent at berlin.
    steward: Opened,
}

impl Ends {
    /// Waits until each gateway shows the agent of the other one with this status.
    async fn wait_for(&self, status: &str) {
        let mut at_berlin = connect(&self.berlin.url).await;
        wait_for_status(&mut at_berlin, CODER, status).await;
        let at_munich = try_connect_as(&self.munich.url, self.trust.clone()).await;
        wait_for_status(&mut at_munich.unwrap(), "steward@berlin@hamburg", status).await;
    }

    async fn exchange(&mut self, request: Value) -> Value {
        self.steward.sender.text(request.to_string()).await.unwrap();
        within_timeout(next(&mut self.steward)).await.unwrap()
    }

    /// Returns the status of the agent at munich in a discovery at berlin.
    async fn discovered_status(&mut self) -> Value {
        let list = json!({"type": "discovery", "content": {"action": "list"}});
        let listed = self.exchange(list).await;
        let agents = listed["content"]["agents"].as_array().unwrap();
        let coder = agents.iter().find(|agent| agent["name"] == CODER);
        coder.unwrap()["status"].clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_62_kill_between_two_gateways_loses_no_acknowledged_message() {
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let [berlin_state, hamburg_state, munich_state] = [(); 3].map(|()| Folder::new());
    let mut of_munich = with_tls(&authority, &["coder", "hamburg"]);
    of_munich["links"] = json!([accepted("hamburg")]);
    write_settings(&munich_state, of_munich);
    let munich = Gateway::start(munich_state.path(), "always");
    let mut of_hamburg = with_tls(&authority, &["berlin"]);
    let to_munich = dialled(&authority, "hamburg", "munich", &munich.url);
    of_hamburg["links"] = json!([to_munich, accepted("berlin")]);
    write_settings(&hamburg_state, of_hamburg);
    let mut hamburg = Gateway::start(hamburg_state.path(), "always");
    let to_hamburg = dialled(&authority, "berlin", "hamburg", &hamburg.url);
    write_settings(&berlin_state, json!({"links": [to_hamburg]}));
    let berlin = Gateway::start(berlin_state.path(), "always");
    serve_coder(&munich.url, &authority).await;
    let steward = connect_agent(&berlin.url, "steward").await;
    let trust = trust(&authority, "coder");
    let mut ends = Ends {
        berlin,
        munich,
        trust,
        steward,
    };
    let acknowledged = Acknowledged::default();
    for entries in [1, 61, 149] {
        ends.wait_for("online").await;
        assert_eq!(ends.discovered_status().await, "online");
        let id = format!("r-{entries}");
        let answer = ends.exchange(message(&id, CODER, "s", 300)).await;
        assert_eq!(answer["from"], CODER, "{answer}");
        assert_eq!(answer["content"]["content"], format!("received {id}"));
        for id in [format!("re-{id}"), id] {
            insert(&acknowledged, "coder", id);
        }
        let port = hamburg.url.parse::<url::Url>().unwrap().port().unwrap();
        let url = ends.berlin.url.clone();
        kill_under_load(&url, CODER, &acknowledged, entries, hamburg).await;
        ends.wait_for("offline").await;
        assert_eq!(ends.discovered_status().await, "offline");
        let refused = ends.exchange(message("late", CODER, "s", 300)).await;
        assert_eq!(refused["content"]["code"], 3002, "{refused}");
        hamburg = Gateway::at_port(hamburg_state.path(), "always", port);
    }
    ends.wait_for("online").await;
    ends.munich.kill();
    check_stored(&munich_state, &acknowledged, "killed hamburg");
}
