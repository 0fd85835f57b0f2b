//! Links that break, lie, flood, or present a wrong certificate.

use testkit::authority::Authority;
use testkit::conformance::gateways::Gateways;

use super::links::{World, asks, ping, reply, to};
use super::*;

/// Returns the error of the link `name` of a gateway, once it has one.
async fn link_error(world: &World, hub: &links::Hub) -> String {
    loop {
        let listed = world.discovery(hub).await;
        if let Some(error) = listed["links"][0]["lastError"].as_str() {
            assert_eq!(listed["links"][0]["status"], "down");
            return error.to_owned();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn h_62_broken_link_leaves_the_fate_of_requests_unknown() {
    let world = World::new();
    let mut pair = world.pair().await;
    pair.steward.send(asks("coder@berlin", "r-1")).await;
    let received = pair.coder.next_of(Kind::Message).await;
    let stopped = pair.berlin.stop().await;
    let error = pair.steward.next_of(Kind::Error).await;
    assert_eq!(error.content()["code"], 1003, "{}", error.to_text());
    assert_eq!(error.correlation_id(), Some("r-1"));
    link_error(&world, &pair.paris).await;
    for agent in ["coder@berlin", "unseen@berlin"] {
        pair.steward.send(to(agent, "m").with("id", "m")).await;
        let refused = ping(&mut pair.steward).await;
        assert_eq!(refused.content()["code"], 3002, "{}", refused.to_text());
        assert_eq!(pair.steward.next().await.kind(), Kind::Pong);
    }
    let berlin = stopped.start().await;
    let mut coder = world.client(&berlin, &["coder"]).await;
    world.wait_for(&pair.paris, "coder@berlin", "online").await;
    pair.steward.send(asks("coder@berlin", "r-2")).await;
    let second = coder.next_of(Kind::Message).await;
    assert_eq!(text(&second), "r-2", "{} came again", text(&received));
    coder.send(reply(&second, "done")).await;
    assert_eq!(text(&pair.steward.next_of(Kind::Message).await), "done");
    let lines = world.log.of_links();
    let down = lines
        .iter()
        .filter(|line| line.starts_with("the link `berlin` is down"));
    assert_eq!(down.count(), 1, "one line an interruption: {lines:?}");
}

#[tokio::test]
async fn h_62_lost_connection_is_1003() {
    let world = World::new();
    let mut pair = world.pair().await;
    pair.steward.send(asks("coder@berlin", "r-1")).await;
    pair.coder.next_of(Kind::Message).await;
    // A new connection with the certificate of the link ends the one before.
    let _other = world.client_as("paris", &pair.berlin, &[]).await;
    let error = pair.steward.next_of(Kind::Error).await;
    assert_eq!(error.content()["code"], 1003, "{}", error.to_text());
}

#[tokio::test]
async fn h_60_other_gateway_cannot_lie_about_the_sender() {
    let world = World::new();
    let accepts = json!([{"name": "paris", "certificate": "paris", "agents": ["steward"], "export": ["coder"]}]);
    for (strict, code) in [(false, None), (true, Some(5004))] {
        let berlin = world.hub(accepts.clone(), json!({"strict": strict})).await;
        let mut coder = world.client(&berlin, &["coder"]).await;
        // A gateway that offers more than its link may.
        let offered = ["steward", "coder", "a@b@c", "evil\u{1b}[2J", "client-1"];
        let mut paris = world.client_as("paris", &berlin, &offered).await;
        let listed = world.discovery(&berlin).await;
        let agents = listed["agents"].as_array().unwrap();
        let names: Vec<&Value> = agents.iter().map(|agent| &agent["name"]).collect();
        assert_eq!(names, ["coder", "steward@paris"]);
        for lie in ["coder", "main", "steward@paris", "gateway@paris"] {
            let content = asks("coder", "r")
                .with("from", lie)
                .with("sessionId", Value::Null);
            paris.send(content).await;
            let (received, refused) = match code {
                None => (Some(coder.next_of(Kind::Message).await), None),
                Some(_) => (None, Some(paris.next_of(Kind::Error).await)),
            };
            if let Some(received) = received {
                assert_eq!(received.from(), Some("gateway@paris"), "{lie}");
                coder.send(reply(&received, "done")).await;
                paris.next_of(Kind::Message).await;
            }
            if let (Some(refused), Some(code)) = (refused, code) {
                assert_eq!(refused.content()["code"], code, "{lie}");
            }
        }
    }
}

#[tokio::test]
async fn h_59_other_gateway_reaches_exported_agents_only() {
    let world = World::new();
    let accepts =
        json!([{"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["coder"]}]);
    let berlin = world.hub(accepts, json!({})).await;
    let _coder = world.client(&berlin, &["coder", "secret"]).await;
    let mut paris = world.client_as("paris", &berlin, &["steward"]).await;
    let new = |kind: Kind, content: Value| Envelope::new(kind, content).with("id", "x");
    for (message, code) in [
        (to("secret", "m").with("id", "x"), 3001),
        (to("steward@paris", "m").with("id", "x"), 3001),
        (new(Kind::Proposal, json!({"proposal": "Ship it"})), 3001),
        (new(Kind::Broadcast, json!({"message": "m"})), 5004),
        (new(Kind::Workspace, json!({"action": "list"})), 5004),
        (
            new(Kind::Subscribe, json!({"channel": "gateway:events"})),
            5004,
        ),
        (
            new(
                Kind::Request,
                json!({"service": "gateway", "operation": "agents.restart"}),
            ),
            5004,
        ),
    ] {
        paris.send(message.clone()).await;
        let error = paris.next().await;
        assert_eq!(error.content()["code"], code, "{}", message.to_text());
    }
    paris
        .send(new(Kind::Discovery, json!({"action": "list"})))
        .await;
    let listed = paris.next_of(Kind::Discovery).await;
    let agents = listed.content()["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert_eq!(listed.content()["services"], Value::Null);
    assert_eq!(listed.content()["links"], Value::Null);
}

#[tokio::test]
async fn h_62_flood_of_a_link_waits_and_spares_others() {
    let world = World::new();
    let accepts =
        json!([{"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["*"]}]);
    let limits = json!({"limits": {"messagesPerSecond": 25, "burst": 10}});
    let berlin = world.hub(accepts, limits).await;
    let mut coder = world.client(&berlin, &["coder"]).await;
    let mut paris = world.client_as("paris", &berlin, &["steward"]).await;
    let mut other = world.client(&berlin, &["other"]).await;
    for i in 0..60 {
        paris.send(to("coder", &format!("m-{i}"))).await;
    }
    paris.send(Envelope::new(Kind::Ping, json!({}))).await;
    other.send(to("coder", "urgent")).await;
    assert_eq!(ping(&mut other).await.kind(), Kind::Pong);
    let mut order = Vec::new();
    while order.len() < 61 {
        order.push(text(&coder.next_of(Kind::Message).await).to_owned());
    }
    let urgent = order.iter().position(|text| text == "urgent").unwrap();
    assert!(
        urgent < 60,
        "the message of another client waited for the flood"
    );
    order.remove(urgent);
    let expected: Vec<String> = (0..60).map(|i| format!("m-{i}")).collect();
    assert_eq!(order, expected, "none is refused");
    assert_eq!(paris.next().await.kind(), Kind::Pong);
}

#[tokio::test]
async fn h_64_wrong_certificates_keep_the_link_down() {
    let world = World::new();
    let accepts =
        json!([{"name": "paris", "certificate": "paris", "agents": ["*"], "export": ["*"]}]);
    let berlin = world.hub(accepts, json!({})).await;
    let foreign = Authority::new();
    foreign.signed("paris");
    world.authority.issue("expired", 2001);
    let link = || world.dials("paris", "berlin", &berlin);
    let mut expired = link();
    expired["certFile"] = json!(world.authority.file("expired.pem"));
    expired["keyFile"] = json!(world.authority.file("expired.key"));
    let mut other_authority = link();
    other_authority["certFile"] = json!(foreign.file("paris.pem"));
    other_authority["keyFile"] = json!(foreign.file("paris.key"));
    let mut untrusted_server = link();
    untrusted_server["caFile"] = json!(foreign.file("ca.pem"));
    let mut wrong_name = link();
    wrong_name["url"] = berlin.url.replace("127.0.0.1", "localhost").into();
    let unlisted = {
        world.authority.signed("unlisted");
        world.dials("unlisted", "berlin", &berlin)
    };
    for (case, link) in [
        ("expired", expired),
        ("another authority", other_authority),
        ("untrusted server", untrusted_server),
        ("server of another name", wrong_name),
        ("unlisted", unlisted),
    ] {
        let paris = world.hub(json!([link]), json!({})).await;
        let error = link_error(&world, &paris).await;
        let names_setting = error.contains("auth.certificates");
        assert_eq!(names_setting, case == "unlisted", "{case}: {error}");
        let listed = world.discovery(&berlin).await;
        assert_eq!(listed["links"][0]["status"], "down", "{case}: {error}");
        paris.stop().await;
    }
}

/// Returns a gateway without TLS that lists these agents.
async fn lists(agents: Value) -> Gateways {
    let acknowledge = json!({"send": {"type": "handshake", "content": {"action": "acknowledge", "clientId": "c-1",
        "availableAgents": [], "protocolVersion": "1.0.0"}}});
    let listed = json!({"send": {"type": "discovery", "content": {"agents": agents}}});
    let profile = json!({"upgrade": {"protocol": "echo"}, "on": [
        {"when": {"/type": "discovery"}, "do": [listed]},
        {"when": {"/type": "handshake"}, "do": [acknowledge]}]});
    Gateways::start(&profile).await.unwrap()
}

#[tokio::test]
async fn h_59_long_and_hostile_lists_are_bounded() {
    let world = World::new();
    let many: Vec<Value> = (0..20_000)
        .map(|i| json!({"name": format!("a{i}"), "status": "idle"}))
        .collect();
    let hostile = json!([
        {"name": "a@b@c", "status": "online"}, {"name": "x".repeat(10_000), "status": "online"},
        {"name": "\u{1b}[2J\nroot", "status": "online"}, {"name": 7}, "text",
        {"name": "gateway", "status": "online"}, {"name": "coder", "status": {"deep": [1, 2]}},
    ]);
    for (agents, count) in [(json!(many), 256), (hostile, 1)] {
        let gateway = lists(agents).await;
        let link =
            json!({"name": "berlin", "url": gateway.url(), "agents": ["*"], "export": ["*"]});
        let paris = world.hub(json!([link]), json!({})).await;
        let listed = loop {
            let listed = world.discovery(&paris).await["agents"].clone();
            if listed.as_array().is_some_and(|agents| !agents.is_empty()) {
                break listed;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(listed.as_array().unwrap().len(), count);
        // A gateway that does not know links is offered no agent.
        let advertised = gateway.log().matching(&json!({"/type": "handshake"}));
        assert_eq!(advertised.len(), 1, "{advertised:?}");
    }
    let flood: Vec<Value> = (0..100_000)
        .map(|i| json!({"name": format!("a{i}")}))
        .collect();
    let gateway = lists(json!(flood)).await;
    let link = json!({"name": "berlin", "url": gateway.url(), "agents": ["*"]});
    let paris = world.hub(json!([link]), json!({})).await;
    link_error(&world, &paris).await;
    assert_eq!(world.discovery(&paris).await["agents"], json!([]));
}

#[tokio::test]
async fn h_64_offline_agents_give_way_to_others() {
    let world = World::new();
    let agent = |name: String, status: &str| json!({"name": name, "status": status});
    let offline = (0..300).map(|i| agent(format!("a{i}"), "offline"));
    let idle = (0..10).map(|i| agent(format!("late{i}"), "idle"));
    let gateway = lists(offline.chain(idle).collect()).await;
    let link = json!({"name": "berlin", "url": gateway.url(), "agents": ["*"]});
    let paris = world.hub(json!([link]), json!({})).await;
    for i in 0..10 {
        let name = format!("late{i}@berlin");
        world.wait_for(&paris, &name, "idle").await;
    }
    let listed = world.discovery(&paris).await["agents"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 256);
}
