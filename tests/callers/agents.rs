//! `targets[].allowedAgents`.

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::callers::{
    call, start_desk,
    tool_fixture::{ToolFixture, reason, send_request, stream_request},
};

/// Returns an instance whose one target is for the agent `agent_caller`.
fn fixture(peers: &Peers, policy: &Value) -> ToolFixture {
    let target = json!({
        "alias": "main", "baseUrl": peers.origin("main"), "default": true, "allowedAgents": ["clerk"],
    });
    ToolFixture::new(&json!({"targets": [target], "policy": policy}))
}

fn agent_caller() -> Value {
    json!({"agent_id": "clerk"})
}

/// Callers other than `agent_caller`, and one with an invalid context.
fn others() -> [Value; 5] {
    [
        json!({"agent_id": "Clerk"}),
        json!({"agent_id": "clerk2"}),
        json!({"agent_id": 7}),
        json!({"agent_id": null, "session_key": "agent:clerk:main"}),
        json!({}),
    ]
}

#[tokio::test]
async fn allowed_agent_uses_target() {
    let peers = start_desk().await;
    let envelope = call(
        &fixture(&peers, &json!({})),
        &agent_caller(),
        &send_request(),
    )
    .await;
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
}

#[tokio::test]
async fn forbidden_caller_is_refused_before_any_socket() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, &json!({}));
    for caller in others() {
        for action in ["send", "watch", "status", "cancel"] {
            let request = match action {
                "send" => send_request(),
                _ => json!({"action": action, "target_alias": "main", "task_id": "t-1"}),
            };
            let envelope = call(&fixture, &caller, &request).await;
            assert_eq!(
                reason(&envelope),
                "agent_not_allowed",
                "{caller} {envelope}"
            );
            assert_eq!(envelope["error"]["code"], "TARGET_RESOLUTION_ERROR");
            assert_eq!(envelope["error"]["retryable"], false);
        }
    }
    assert_eq!(peers.connections("main"), 0);
}

#[tokio::test]
async fn target_is_listed_for_allowed_callers() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, &json!({}));
    let list = json!({"action": "list_targets"});
    for caller in others() {
        let envelope = call(&fixture, &caller, &list).await;
        assert_eq!(envelope["summary"]["targets"], json!([]), "{caller}");
        assert_eq!(envelope["raw"], json!([]), "{caller}");
    }
    assert_eq!(peers.connections("main"), 0);
    let envelope = call(&fixture, &agent_caller(), &list).await;
    assert_eq!(envelope["summary"]["targets"][0]["target_alias"], "main");
}

#[tokio::test]
async fn handle_of_another_agent_is_refused() {
    let peers = start_desk().await;
    let fixture = fixture(
        &peers,
        &json!({"allowTargetUrlOverride": true, "allowPrivateTargetUrls": true}),
    );
    let sent = call(&fixture, &agent_caller(), &stream_request()).await;
    let continuation = &sent["summary"]["continuation"];
    let handle = &continuation["task"]["task_handle"];
    assert!(handle.is_string(), "{sent}");
    let before = peers.log("main").len();
    let mut renamed = continuation.clone();
    renamed["target"]["target_alias"] = json!("other");
    let mut elsewhere = continuation.clone();
    elsewhere["target"]["card_path"] = json!("/card.json");
    let elsewhere_with_handle = json!({"action": "status", "continuation": elsewhere});
    let mut without_handle = elsewhere.clone();
    without_handle["task"]
        .as_object_mut()
        .unwrap()
        .remove("task_handle");
    for request in [
        json!({"action": "status", "task_handle": handle}),
        json!({"action": "status", "continuation": continuation}),
        json!({"action": "status", "continuation": renamed}),
        elsewhere_with_handle,
        json!({"action": "status", "continuation": without_handle}),
    ] {
        for caller in others() {
            let envelope = call(&fixture, &caller, &request).await;
            assert_eq!(
                reason(&envelope),
                "agent_not_allowed",
                "{request} {envelope}"
            );
            assert!(
                !envelope.to_string().contains(peers.origin("main")),
                "{envelope}"
            );
        }
    }
    assert_eq!(peers.log("main").len(), before);
}

#[tokio::test]
async fn other_spelling_of_address_is_refused_too() {
    let peers = start_desk().await;
    let policy = json!({"allowTargetUrlOverride": true, "allowPrivateTargetUrls": true, "normalizeBaseUrl": false});
    let fixture = fixture(&peers, &policy);
    let origin = peers.origin("main");
    for url in [
        format!("{origin}/"),
        format!("{origin}/a2a"),
        format!("{origin}//"),
    ] {
        let mut request = send_request();
        request["target_url"] = json!(url);
        let envelope = call(&fixture, &json!({"agent_id": "other"}), &request).await;
        assert_eq!(reason(&envelope), "agent_not_allowed", "{url} {envelope}");
        let envelope = call(&fixture, &agent_caller(), &request).await;
        assert_ne!(reason(&envelope), "agent_not_allowed", "{url} {envelope}");
    }
}

#[tokio::test]
async fn target_without_agents_is_for_all_callers() {
    let peers = start_desk().await;
    for caller in others() {
        let envelope = call(&ToolFixture::with_peers(&peers), &caller, &send_request()).await;
        assert_eq!(envelope["ok"], true, "{caller} {envelope}");
    }
}

/// An operator sees restricted targets with their agents, and uses them in the name of an agent only.
#[tokio::test]
async fn operator_sees_the_agents_of_a_target() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, &json!({}));
    let list = json!({"action": "list_targets"});
    for (caller, expected) in [
        (json!({"operator": "cli"}), json!([["clerk"]])),
        (
            json!({"operator": "cli", "agent_id": "clerk"}),
            json!([null]),
        ),
        (json!({"operator": "cli", "agent_id": "main"}), json!([])),
        (json!({"agent_id": "clerk"}), json!([null])),
        (json!({}), json!([])),
    ] {
        let envelope = call(&fixture, &caller, &list).await;
        let targets = envelope["summary"]["targets"].as_array().unwrap();
        let agents: Vec<_> = targets.iter().map(|one| &one["allowed_agents"]).collect();
        assert_eq!(json!(agents), expected, "{caller}");
    }
    let operator = json!({"operator": "cli"});
    let refused = call(&fixture, &operator, &send_request()).await;
    assert_eq!(reason(&refused), "agent_not_allowed", "{refused}");
}
