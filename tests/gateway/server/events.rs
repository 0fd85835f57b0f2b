//! The channel `gateway:events`, for the operator.

use super::*;

fn subscribe(content: bool) -> Value {
    json!({"type": "subscribe", "content": {"channel": "gateway:events", "content": content}})
}

/// Reads events until one of this `kind`.
async fn event(client: &mut Client, kind: &str) -> Value {
    loop {
        let received = client.recv().await;
        if received["content"]["happened"] == kind {
            return received["content"].clone();
        }
    }
}

#[tokio::test]
async fn events_have_text_only_on_request() {
    let gateway = Gateway::start(json!({})).await;
    let _alpha = gateway.serving_client(&["alpha"]).await;
    let (mut plain, mut full) = (gateway.client().await, gateway.client().await);
    plain.request(subscribe(false)).await;
    full.request(subscribe(true)).await;
    let mut client = gateway.client().await;
    client.send(message("alpha", "c-1")).await;
    let seen = event(&mut plain, "message").await;
    assert_eq!((&seen["to"], seen.get("text")), (&json!("alpha"), None));
    let seen = event(&mut full, "message").await;
    assert_eq!(seen["text"], message("alpha", "c-1")["content"]["content"]);
}

#[tokio::test]
async fn proposal_votes_and_decision_arrive_in_order() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut beta = gateway.serving_client(&["beta"]).await;
    let mut watcher = gateway.client().await;
    watcher.request(subscribe(false)).await;
    let mut client = gateway.client().await;
    let proposal = json!({"type": "proposal", "id": "p-1", "content": {"proposal": "secret plan"}});
    client.send(proposal).await;
    let vote = json!({"type": "vote", "content": {"proposalId": "p-1", "vote": "approve", "reasoning": "secret"}});
    for member in [&mut alpha, &mut beta] {
        member.recv().await;
        member.send(vote.clone()).await;
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let received = watcher.recv().await["content"].clone();
        assert!(!received.to_string().contains("secret"), "{received}");
        seen.push(received["happened"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["proposal", "vote", "vote", "decision"]);
}

#[tokio::test]
async fn late_vote_is_an_event_of_its_own() {
    let gateway = Gateway::start(json!({})).await;
    let mut members = Vec::new();
    for name in ["alpha", "beta", "charlie"] {
        members.push(gateway.serving_client(&[name]).await);
    }
    let mut watcher = gateway.client().await;
    watcher.request(subscribe(false)).await;
    let mut client = gateway.client().await;
    let proposal = json!({"type": "proposal", "id": "p-1", "content": {"proposal": "plan"}});
    client.send(proposal).await;
    let vote = json!({"type": "vote", "content": {"proposalId": "p-1", "vote": "reject"}});
    for member in &mut members {
        member.recv().await;
        member.send(vote.clone()).await;
    }
    // Two votes decide, and the gateway may read them in any order.
    let late = event(&mut watcher, "late-vote").await;
    assert_has(&late, json!({"proposalId": "p-1", "vote": "reject"}));
}

#[tokio::test]
async fn subscriber_catches_up_after_its_cursor() {
    let gateway = Gateway::start(json!({})).await;
    let _alpha = gateway.serving_client(&["alpha"]).await;
    let mut watcher = gateway.client().await;
    watcher.request(subscribe(true)).await;
    let mut client = gateway.client().await;
    client.send(message("alpha", "c-1")).await;
    let cursor = event(&mut watcher, "message").await["cursor"].clone();
    drop(watcher);
    client.send(message("alpha", "c-2")).await;
    client.request(json!({"type": "ping", "content": {}})).await;
    let mut again = gateway.client().await;
    let content = json!({"channel": "gateway:events", "content": true, "after": cursor});
    let answer = again
        .request(json!({"type": "subscribe", "content": content}))
        .await;
    assert_eq!(answer["content"]["cursor"], cursor);
    let missed = event(&mut again, "message").await;
    assert_ne!(missed["cursor"], cursor);
    assert_eq!(missed.get("text"), None, "the gateway keeps no texts");
}

#[tokio::test]
async fn refused_message_is_an_event() {
    let gateway = Gateway::start(json!({})).await;
    let mut watcher = gateway.client().await;
    watcher.request(subscribe(false)).await;
    let mut client = gateway.client().await;
    client.send(message("ghost", "c-1")).await;
    let seen = event(&mut watcher, "refused").await;
    assert_has(&seen, json!({"code": 3001, "to": "ghost"}));
}

#[tokio::test]
async fn only_managers_of_the_gateway_receive_events() {
    let key = |name: &str| json!({"name": name, "sha256": digest(name), "roles": [name]});
    let gateway = Gateway::start(json!({
        "auth": {"keys": [key("caller"), key("operator"), key("reader")]},
        "roles": {
            "caller": {"send": ["*"], "request": ["*"], "subscribe": true, "workspaces": ["*"]},
            "operator": {"subscribe": true, "request": ["gateway"]},
            "reader": {"subscribe": true, "request": ["gateway"], "workspaces": ["*"]},
        },
    }))
    .await;
    for (name, content, allowed) in [
        ("caller", false, false),
        ("operator", false, true),
        ("operator", true, false),
        ("reader", true, true),
    ] {
        let mut client = Client::connect(gateway.address).await;
        let auth = json!({"type": "auth", "content": {"token": name}});
        assert_eq!(client.request(auth).await["content"]["status"], "ok");
        let answer = client.request(subscribe(content)).await;
        let answered = match allowed {
            true => answer["content"]["status"] == "subscribed",
            false => answer["content"]["code"] == 5004,
        };
        assert!(answered, "{name} {content}: {answer}");
    }
}

#[tokio::test]
async fn long_text_of_a_message_is_cut() {
    let gateway = Gateway::start(json!({})).await;
    let _alpha = gateway.serving_client(&["alpha"]).await;
    let mut watcher = gateway.client().await;
    watcher.request(subscribe(true)).await;
    let mut client = gateway.client().await;
    let mut long = message("alpha", "c-1");
    long["content"]["content"] = "ä".repeat(500_000).into();
    long["sessionId"] = "s".repeat(100).into();
    client.send(long).await;
    let seen = event(&mut watcher, "message").await;
    assert_eq!(seen["text"].as_str().unwrap().chars().count(), 2001);
}

#[tokio::test]
async fn one_identity_leaves_places_for_others() {
    let key = |name: &str| json!({"name": name, "sha256": digest(name)});
    let keys = [key("agent"), key("operator")];
    let gateway = Gateway::start(json!({"auth": {"keys": keys}})).await;
    let mut clients = Vec::new();
    for (name, code) in [("agent", None); 8]
        .into_iter()
        .chain([("agent", Some(3003)), ("operator", None)])
    {
        let mut client = Client::connect(gateway.address).await;
        let auth = json!({"type": "auth", "content": {"token": name}});
        assert_eq!(client.request(auth).await["content"]["status"], "ok");
        let answer = client.request(subscribe(false)).await;
        assert_eq!(answer["content"]["code"].as_u64(), code, "{answer}");
        clients.push(client);
    }
}

#[tokio::test]
async fn subscriber_above_the_limit_is_refused() {
    let gateway = Gateway::start(json!({})).await;
    let mut watchers = Vec::new();
    for _ in 0..64 {
        let mut watcher = gateway.client().await;
        watcher.request(subscribe(false)).await;
        watchers.push(watcher);
    }
    let mut late = gateway.client().await;
    let refused = late.request(subscribe(false)).await;
    assert_eq!(refused["content"]["code"], 3003, "{refused}");
    // A subscriber may change its subscription.
    watchers[0].send(subscribe(true)).await;
    while watchers[0].recv().await["content"]["status"] != "subscribed" {}
    let unsubscribe = json!({"type": "unsubscribe", "content": {"channel": "gateway:events"}});
    watchers[1].send(unsubscribe).await;
    while watchers[1].recv().await["content"]["status"] != "unsubscribed" {}
    let answer = late.request(subscribe(false)).await;
    assert_eq!(answer["content"]["status"], "subscribed", "{answer}");
}
