//! Names of a gateway's agents, in requests and schemas.

use serde_json::{Value, json};

use crate::config::Config;
use crate::targets::Catalog;
use base::validation;
use collective::{AgentStatus, ErrorCode};

use super::fake::{FakeGateway, Fixture, member, peer_error};

const DESK: &str = "https://desk.example";

fn alpha() -> FakeGateway {
    FakeGateway::with(vec![member("alpha", None, AgentStatus::Online)])
}

fn with_desk(more: Value) -> Fixture {
    let desk = json!({"alias": "desk", "baseUrl": DESK});
    Fixture::with_config(alpha(), json!({"targets": [desk], "gateway": more}))
}

#[tokio::test]
async fn unlisted_agent_names_pass_validation() {
    let sent = with_desk(json!({}))
        .send("gateway:missing", json!({}))
        .await;
    let error = &sent["error"];
    assert_eq!(error["code"], "TARGET_RESOLUTION_ERROR");
    assert_eq!(error["reason"], "agent_not_found");
    assert_eq!(error["details"]["gateway_code"], 3001);
    assert_eq!(error["details"]["delivered"], "no");
}

#[tokio::test]
async fn invalid_names_are_refused() {
    for alias in [
        "gateway:",
        "gateway:a b",
        "gateway:a/b",
        "gate",
        "gateway:desk:x",
    ] {
        let sent = with_desk(json!({})).send(alias, json!({})).await;
        let error = &sent["error"];
        assert_eq!(error["code"], "VALIDATION_ERROR", "{alias}");
        let places = error["details"]["errors"].as_array().unwrap().iter();
        let keywords: Vec<_> = places
            .map(|place| (place["instancePath"].clone(), place["keyword"].clone()))
            .collect();
        assert_eq!(
            keywords,
            ["enum", "pattern", "anyOf"].map(|keyword| (json!("/target_alias"), json!(keyword))),
            "{alias}"
        );
    }
}

#[tokio::test]
async fn unlisted_agent_is_refused_without_a_connection() {
    let fixture = with_desk(json!({"agents": ["alpha"]}));
    let sent = fixture.send("gateway:beta", json!({})).await;
    assert_eq!(sent["error"]["reason"], "target_not_allowed");
    assert!(
        sent["error"]["message"]
            .as_str()
            .unwrap()
            .contains("gateway.agents")
    );
    assert_eq!(fixture.gateway.received.lock().unwrap().cards.len(), 0);
}

#[tokio::test]
async fn gateway_alone_provides_targets() {
    let sent = Fixture::new(alpha(), json!({}))
        .send("gateway:alpha", json!({}))
        .await;
    assert_eq!(sent["ok"], true, "{sent}");
}

#[test]
fn gateway_prefix_is_reserved_while_enabled() {
    let config = |enabled: bool| {
        let target = json!({"alias": "gateway:mine", "baseUrl": DESK});
        let config = json!({"targets": [target], "gateway": {"enabled": enabled}});
        Config::parse(&config.to_string())
    };
    let catalog = Catalog::new(&config(false).unwrap()).unwrap();
    assert_eq!(
        catalog.by_alias("gateway:mine").unwrap().url,
        "https://desk.example/"
    );
    assert_eq!(config(true).unwrap_err().path, "/targets/0/alias");
}

#[tokio::test]
async fn schema_describes_known_names_without_enum() {
    let definition = |more| {
        let definition: Value = serde_json::from_str(&with_desk(more).agent.definition()).unwrap();
        definition
    };
    let open = definition(json!({}));
    let alias = &open["parameters"]["properties"]["target_alias"];
    assert_eq!(
        (alias.get("enum"), alias.get("anyOf"), alias.get("pattern")),
        (None, None, None)
    );
    let description = alias["description"].as_str().unwrap();
    assert!(
        description.contains("Known: desk, gateway:triad. list_targets shows"),
        "{description}"
    );
    let closed = definition(json!({"agents": ["alpha"]}));
    let description = closed["parameters"]["properties"]["target_alias"]["description"].as_str();
    assert!(
        description
            .unwrap()
            .ends_with("Known: desk, gateway:alpha, gateway:triad."),
        "{description:?}"
    );
    let description = closed["description"].as_str().unwrap();
    assert!(
        description.contains("gateway:alpha, gateway:triad: agents beside you"),
        "{description}"
    );
}

#[tokio::test]
async fn flat_schema_accepts_gateway_aliases() {
    let fixture = with_desk(json!({}));
    let definition: Value = serde_json::from_str(&fixture.agent.definition()).unwrap();
    let flat = validation::compile_value(&definition["parameters"]).unwrap();
    let sent = fixture.send("gateway:alpha", json!({})).await;
    let continuation = &sent["summary"]["continuation"];
    let request = json!({"action": "status", "continuation": continuation});
    assert!(flat.is_valid(&request), "{request}");
    assert_eq!(fixture.call(request).await["ok"], true);
}

#[tokio::test]
async fn fresh_card_is_not_requested_again() {
    let fixture = Fixture::new(alpha(), json!({}));
    fixture.send("gateway:alpha", json!({})).await;
    fixture.send("gateway:alpha", json!({})).await;
    assert_eq!(fixture.gateway.received.lock().unwrap().cards, ["alpha"]);
}

#[tokio::test]
async fn unknown_name_is_requested_each_time() {
    let fixture = Fixture::new(
        FakeGateway {
            members: Some(Err(peer_error(ErrorCode::AgentNotFound))),
            ..FakeGateway::default()
        },
        json!({}),
    );
    fixture.send("gateway:alpha", json!({})).await;
    fixture.send("gateway:alpha", json!({})).await;
    assert_eq!(fixture.gateway.received.lock().unwrap().cards.len(), 2);
}
