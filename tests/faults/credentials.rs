//! Credentials appear in no result and reach no other origin.

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::tool_fixture::{
    ToolFixture, card, message, peers, result, send_request, status, stream_request, task,
};

const TOKEN: &str = "sesame/7f3a+opens==";

fn target(peers: &Peers, name: &str) -> Value {
    let auth = json!({"type": "bearer", "token": TOKEN});
    json!({"alias": name, "baseUrl": peers.origin(name), "auth": auth})
}

fn fixture(peers: &Peers) -> ToolFixture {
    let targets: Vec<Value> = peers
        .origins()
        .keys()
        .map(|name| target(peers, name))
        .collect();
    // The call does not wait for a running task, so the test uses the events until then.
    ToolFixture::new(&json!({"targets": targets, "limits": {"waitMs": 1000}}))
}

/// Returns every kind of request.
fn requests() -> Vec<Value> {
    let mut required = stream_request();
    required["task_requirement"] = json!("required");
    vec![
        send_request(),
        stream_request(),
        required,
        json!({"action": "status", "task_id": "t-1"}),
        json!({"action": "cancel", "task_id": "t-1"}),
        json!({"action": "watch", "task_id": "t-1"}),
        json!({"action": "list_targets"}),
    ]
}

/// Calls every peer with every request, and checks that no result contains the token.
async fn assert_token_redacted(script: Value) {
    let peers = peers(script).await;
    let fixture = fixture(&peers);
    let mut outputs = vec![fixture.plugin.definition()];
    for name in peers.origins().keys() {
        for mut request in requests() {
            if request["action"] != "list_targets" {
                request["target_alias"] = json!(name);
            }
            let (envelope, updates) = fixture.call_with_updates(&request).await;
            outputs.push(envelope.to_string());
            outputs.extend(updates.iter().map(Value::to_string));
        }
        let has_token = |request: &testkit::conformance::peers::Recorded| {
            request.headers.get("authorization") == Some(&format!("Bearer {TOKEN}"))
        };
        assert!(
            peers.log(name).iter().any(has_token),
            "`{name}` never received the token"
        );
    }
    outputs.extend(fixture.log.lines().into_iter().map(|(_, line)| line));
    // Parts of the token must not appear either. JSON can escape a slash.
    for text in &outputs {
        for artifact_update in [TOKEN, "sesame/7f", "sesame\\/7f"] {
            assert!(!text.contains(artifact_update), "{text}");
        }
    }
}

/// Returns a peer that answers every call with this.
fn answering_peer(card: Value, response: &Value) -> Value {
    let methods = [
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "agent/getAuthenticatedExtendedCard",
    ];
    let rpc: serde_json::Map<_, _> = methods
        .into_iter()
        .map(|method| (method.to_owned(), response.clone()))
        .collect();
    json!({"card": card, "rpc": rpc})
}

#[tokio::test]
async fn credential_in_errors_is_redacted() {
    let repeated = format!("we do not like Bearer {TOKEN} at all");
    let at_end_of_excerpt = format!("{}{TOKEN}", "x".repeat(290));
    let data = json!({"seen": [{"authorization": repeated, TOKEN: TOKEN}]});
    let challenge = json!({"www-authenticate": format!("{TOKEN} realm=\"{TOKEN}\"")});
    let responses = json!({
        "text": {"status": 500, "body": repeated},
        "late": {"status": 400, "body": at_end_of_excerpt},
        "escaped": {"status": 502, "body": format!("{{\"error\": {{\"message\": \"{}\"}}}}", TOKEN.replace('/', "\\/"))},
        "refused": {"status": 401, "body": repeated, "headers": challenge},
        "forbidden": {"status": 403, "json": {"error": {"code": -32000, "message": repeated, "data": data}}},
        "rpc": {"error": {"code": -32000, "message": repeated, "data": data}},
        "late_rpc": {"error": {"code": -32000, "message": at_end_of_excerpt}},
        "redirect": {"status": 302, "headers": {"location": format!("http://127.0.0.1:1/{TOKEN}")}},
        "kind": {"body": "no", "headers": {"content-type": format!("text/{TOKEN}")}},
        "stream": {"sse": [{"error": {"code": -32000, "message": repeated, "data": data}}]},
        "nonsense": {"sse": [{"raw": format!("data: {TOKEN}\n\n")}]},
    });
    let peers: serde_json::Map<_, _> = responses
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, response)| (name.clone(), answering_peer(card(), response)))
        .collect();
    assert_token_redacted(Value::Object(peers)).await;
}

#[tokio::test]
async fn credential_in_cards_is_redacted() {
    let repeated = format!("we do not like Bearer {TOKEN} at all");
    let card_peer =
        |response: Value| json!({"routes": {"GET /.well-known/agent-card.json": response}});
    let mut card_with_token = card();
    card_with_token["name"] = json!(TOKEN);
    card_with_token["description"] = json!(repeated);
    card_with_token["skills"] =
        json!([{"id": TOKEN, "name": TOKEN, "description": TOKEN, "tags": [TOKEN]}]);
    let mut card_with_invalid_url = card();
    card_with_invalid_url["url"] = json!(format!("ftp://{TOKEN}"));
    assert_token_redacted(json!({
        "text": card_peer(json!({"status": 500, "body": repeated})),
        "refused": card_peer(json!({"status": 401, "body": repeated})),
        "missing": card_peer(json!({"status": 404, "body": format!("{}{TOKEN}", "x".repeat(290))})),
        "named": answering_peer(card_with_token, &result(task("completed"))),
        "leads_away": {"card": card_with_invalid_url},
    }))
    .await;
}

#[tokio::test]
async fn credential_in_answers_is_redacted() {
    let mut task_with_token = task("working");
    task_with_token["status"]["message"] = message(TOKEN);
    task_with_token["metadata"] =
        json!({TOKEN: {"headers": {"authorization": format!("Bearer {TOKEN}")}}});
    let artifact_update = json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1",
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": TOKEN}]}});
    let events = json!({"sse": [result(task_with_token.clone()), result(artifact_update), result(status("completed", true))]});
    let mut completed_task = task_with_token;
    completed_task["status"]["state"] = json!("completed");
    assert_token_redacted(json!({
        "message": answering_peer(card(), &result(message(TOKEN))),
        "task": answering_peer(card(), &result(completed_task)),
        "stream": answering_peer(card(), &events),
    }))
    .await;
}

#[tokio::test]
async fn credential_in_http_json_is_redacted() {
    let repeated = format!("we do not like Bearer {TOKEN} at all");
    let mut rest = card();
    rest["preferredTransport"] = json!("HTTP+JSON");
    rest["url"] = json!("{{origin}}");
    let routes = |response: Value| {
        let routes_paths = [
            "POST /v1/message:send",
            "POST /v1/message:stream",
            "GET /v1/tasks/t-1",
            "POST /v1/tasks/t-1:cancel",
            "POST /v1/tasks/t-1:subscribe",
        ];
        let routes: serde_json::Map<_, _> = routes_paths
            .into_iter()
            .map(|route| (route.to_owned(), response.clone()))
            .collect();
        json!({"card": rest, "routes": routes})
    };
    let message_with_token =
        json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": TOKEN}]}});
    assert_token_redacted(json!({
        "detail": routes(json!({"status": 422, "json": {"detail": repeated}})),
        "error": routes(json!({"json": {"code": 13, "message": repeated}})),
        "message": routes(json!({"json": message_with_token})),
        "events": routes(json!({"sse": [{"rest": message_with_token}, {"rest": {"error": {"code": 13, "message": repeated}}}]})),
    }))
    .await;
}

#[tokio::test]
async fn no_request_carries_a_credential_to_another_origin() {
    let mut card_of_other_origin = card();
    card_of_other_origin["url"] = json!("{{origin:other}}/a2a/jsonrpc");
    let peers = peers(json!({
        "main": {"card": card_of_other_origin},
        "other": answering_peer(card(), &result(task("completed"))),
    }))
    .await;
    let mut main = target(&peers, "main");
    main["allowPrivateNetwork"] = json!(true);
    let fixture = ToolFixture::new(&json!({
        "targets": [main],
        "defaults": {"serviceParameters": {"x-api-key": TOKEN}},
    }));
    for mut request in requests() {
        if request["action"] != "list_targets" {
            request["target_alias"] = json!("main");
        }
        fixture.call(&request).await;
    }
    let requests_of_other = peers.log("other");
    assert!(
        requests_of_other.len() >= 5,
        "{} requests",
        requests_of_other.len()
    );
    for request in requests_of_other {
        assert!(
            !request.to_json().to_string().contains("sesame"),
            "{request:?}"
        );
    }
    let requests_of_main = peers.log("main");
    assert!(
        requests_of_main
            .iter()
            .all(|request| request.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn cross_origin_redirect_is_refused_without_request() {
    for code in [301, 302, 303, 307, 308] {
        let to = |path: &str| json!({"status": code, "headers": {"location": format!("{{{{origin:other}}}}{path}")}});
        let peers = peers(json!({
            "calls": answering_peer(card(), &to("/a2a/jsonrpc")),
            "cards": {"routes": {"GET /.well-known/agent-card.json": to("/.well-known/agent-card.json")}},
            "other": answering_peer(card(), &result(task("completed"))),
        }))
        .await;
        let fixture = ToolFixture::new(
            &json!({"targets": [target(&peers, "calls"), target(&peers, "cards")]}),
        );
        for alias in ["calls", "cards"] {
            for mut request in requests() {
                if request["action"] != "list_targets" {
                    request["target_alias"] = json!(alias);
                    let envelope = fixture.call(&request).await;
                    assert_eq!(envelope["ok"], false, "{code}: {envelope}");
                    assert!(
                        envelope["error"]["message"]
                            .as_str()
                            .unwrap()
                            .contains("not followed"),
                        "{envelope}"
                    );
                }
            }
        }
        assert_eq!(peers.connections("other"), 0, "{code}");
    }
}
