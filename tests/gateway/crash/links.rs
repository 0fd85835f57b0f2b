//! Kills one of two linked gateways during messages over the link: the other side has every acknowledged message.

use egress::credential::Trust;

use super::*;
use crate::gateway::{authority::Authority, server::digest};

const SENDERS: usize = 4;

/// Connects the agent `coder` to a gateway with TLS, and reads its messages until the gateway ends.
async fn serve_coder(url: &str, authority: &Authority) {
    let read = |name: &str| fs::read(authority.file(name)).unwrap();
    let trust = Trust::read(
        Some(&read("ca.pem")),
        Some((&read("coder.pem"), &read("coder.key"))),
    );
    let dial = Dial {
        url: url.parse().unwrap(),
        protocols: vec!["a2a-v1".into()],
        headers: Default::default(),
        access: AddressPolicy::Loopback,
        trust: Some(Arc::new(trust.unwrap())),
        frame_bytes: 1 << 20,
    };
    let net = ReqwestClient::new().unwrap();
    let mut connection = within_timeout(websocket::connect(&net, dial))
        .await
        .unwrap();
    let advertise = json!({"type": "handshake", "content": {"action": "advertise",
        "capabilities": {"supportedAgents": ["coder"], "version": "1.0.0"}}});
    connection.sender.text(advertise.to_string()).await.unwrap();
    within_timeout(next(&mut connection)).await.unwrap();
    tokio::spawn(async move { while next(&mut connection).await.is_some() {} });
}

/// Sends messages over the link, each with a ping, until one is not acknowledged.
async fn send_messages(url: String, sender: String, acknowledged: Acknowledged) {
    let mut client = connect(&url).await;
    let subscribe = json!({"type": "subscribe", "content": {"channel": "agent:status"}});
    client.sender.text(subscribe.to_string()).await.unwrap();
    let is_up = |message: &Value| {
        let content = &message["content"];
        content["agent"] == "coder@berlin" && content["status"] == "online"
    };
    while !is_up(&within_timeout(next(&mut client)).await.unwrap()) {}
    for i in 0.. {
        let id = format!("{sender}-{i}");
        let message = json!({"type": "message", "id": id, "agent": "coder@berlin", "sessionId": sender,
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_62_kill_of_a_linked_gateway_loses_no_acknowledged_message() {
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let file = |name: &str| authority.file(name);
    let certificates = ["coder", "paris"]
        .map(|name| json!({"name": name, "sha256": digest(authority.signed(name).0)}));
    let limits = json!({"messagesPerSecond": 1_000_000, "burst": 1_000_000});
    let (berlin_state, paris_state) = (Folder::new(), Folder::new());
    let of_berlin = json!({
        "limits": limits,
        "tls": {"certFile": file("127.0.0.1.pem"), "keyFile": file("127.0.0.1.key"), "clientCaFile": file("ca.pem")},
        "auth": {"certificates": certificates},
        "links": [{"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["*"]}],
    });
    fs::write(
        berlin_state.path().join("gateway.json"),
        of_berlin.to_string(),
    )
    .unwrap();
    let acknowledged = Acknowledged::default();
    let mut ids = acknowledged.subscribe();
    for (round, kills_berlin) in [true, false, true, false].into_iter().enumerate() {
        let berlin = Gateway::start(berlin_state.path(), "always");
        let of_paris = json!({
            "limits": limits,
            "links": [{"name": "berlin", "url": berlin.url, "agents": ["*"], "export": ["*"],
                "certFile": file("paris.pem"), "keyFile": file("paris.key"), "caFile": file("ca.pem")}],
        });
        fs::write(
            paris_state.path().join("gateway.json"),
            of_paris.to_string(),
        )
        .unwrap();
        let paris = Gateway::start(paris_state.path(), "always");
        serve_coder(&berlin.url, &authority).await;
        let kill_at = count(&ids.borrow()) + 97 * (round + 1);
        let senders = (0..SENDERS).map(|sender| {
            let sender = format!("m-{round}-{sender}");
            tokio::spawn(send_messages(
                paris.url.clone(),
                sender,
                Arc::clone(&acknowledged),
            ))
        });
        let senders: Vec<_> = senders.collect();
        within_timeout(ids.wait_for(|ids| count(ids) >= kill_at))
            .await
            .unwrap();
        let (killed, other) = match kills_berlin {
            true => (berlin, paris),
            false => (paris, berlin),
        };
        killed.kill();
        for sender in senders {
            within_timeout(sender).await.unwrap();
        }
        drop(other);
        let stored = stored_ids(berlin_state.path(), "coder");
        let all: BTreeSet<_> = stored.iter().cloned().collect();
        assert_eq!(all.len(), stored.len(), "a gateway sent a message twice");
        let missing: Vec<_> = ids.borrow()["coder"].difference(&all).cloned().collect();
        assert!(
            missing.is_empty(),
            "killed berlin: {kills_berlin}, lost {missing:?}"
        );
    }
}
