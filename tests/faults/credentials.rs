//! Credentials appear in no result and reach no other origin.

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::rig::{Rig, card, message, peers, result, send, status, stream, task};

const TOKEN: &str = "sesame/7f3a+opens==";

fn target(peers: &Peers, name: &str) -> Value {
    let auth = json!({"type": "bearer", "token": TOKEN});
    json!({"alias": name, "baseUrl": peers.origin(name), "auth": auth})
}

fn rig(peers: &Peers) -> Rig {
    let targets: Vec<Value> = peers
        .origins()
        .keys()
        .map(|name| target(peers, name))
        .collect();
    // The call does not wait for a running task, so the test uses the events until then.
    Rig::new(&json!({"targets": targets, "limits": {"waitMs": 1000}}))
}

/// Returns every kind of request.
fn requests() -> Vec<Value> {
    let mut required = stream();
    required["task_requirement"] = json!("required");
    vec![
        send(),
        stream(),
        required,
        json!({"action": "status", "task_id": "t-1"}),
        json!({"action": "cancel", "task_id": "t-1"}),
        json!({"action": "watch", "task_id": "t-1"}),
        json!({"action": "list_targets"}),
    ]
}

/// Calls every peer with every request, and checks that no result contains the token.
async fn never_reported(script: Value) {
    let peers = peers(script).await;
    let rig = rig(&peers);
    let mut reported = vec![rig.plugin.definition()];
    for name in peers.origins().keys() {
        for mut request in requests() {
            if request["action"] != "list_targets" {
                request["target_alias"] = json!(name);
            }
            let (envelope, updates) = rig.follow(&request).await;
            reported.push(envelope.to_string());
            reported.extend(updates.iter().map(Value::to_string));
        }
        let knows = |request: &testkit::conformance::peers::Recorded| {
            request.headers.get("authorization") == Some(&format!("Bearer {TOKEN}"))
        };
        assert!(
            peers.log(name).iter().any(knows),
            "`{name}` never received the token"
        );
    }
    reported.extend(rig.log.lines().into_iter().map(|(_, line)| line));
    // Parts of the token must not appear either. JSON can escape a slash.
    for text in &reported {
        for piece in [TOKEN, "sesame/7f", "sesame\\/7f"] {
            assert!(!text.contains(piece), "{text}");
        }
    }
}

/// Returns a peer that answers every call with this.
fn all_calls(card: Value, response: &Value) -> Value {
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
    let late = format!("{}{TOKEN}", "x".repeat(290));
    let data = json!({"seen": [{"authorization": repeated, TOKEN: TOKEN}]});
    let challenge = json!({"www-authenticate": format!("{TOKEN} realm=\"{TOKEN}\"")});
    let responses = json!({
        "text": {"status": 500, "body": repeated},
        "late": {"status": 400, "body": late},
        "escaped": {"status": 502, "body": format!("{{\"error\": {{\"message\": \"{}\"}}}}", TOKEN.replace('/', "\\/"))},
        "refused": {"status": 401, "body": repeated, "headers": challenge},
        "forbidden": {"status": 403, "json": {"error": {"code": -32000, "message": repeated, "data": data}}},
        "rpc": {"error": {"code": -32000, "message": repeated, "data": data}},
        "late_rpc": {"error": {"code": -32000, "message": late}},
        "redirect": {"status": 302, "headers": {"location": format!("http://127.0.0.1:1/{TOKEN}")}},
        "kind": {"body": "no", "headers": {"content-type": format!("text/{TOKEN}")}},
        "stream": {"sse": [{"error": {"code": -32000, "message": repeated, "data": data}}]},
        "nonsense": {"sse": [{"raw": format!("data: {TOKEN}\n\n")}]},
    });
    let peers: serde_json::Map<_, _> = responses
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, response)| (name.clone(), all_calls(card(), response)))
        .collect();
    never_reported(Value::Object(peers)).await;
}

#[tokio::test]
async fn credential_in_cards_is_redacted() {
    let repeated = format!("we do not like Bearer {TOKEN} at all");
    let at_card =
        |response: Value| json!({"routes": {"GET /.well-known/agent-card.json": response}});
    let mut named = card();
    named["name"] = json!(TOKEN);
    named["description"] = json!(repeated);
    named["skills"] = json!([{"id": TOKEN, "name": TOKEN, "description": TOKEN, "tags": [TOKEN]}]);
    let mut leads_away = card();
    leads_away["url"] = json!(format!("ftp://{TOKEN}"));
    never_reported(json!({
        "text": at_card(json!({"status": 500, "body": repeated})),
        "refused": at_card(json!({"status": 401, "body": repeated})),
        "missing": at_card(json!({"status": 404, "body": format!("{}{TOKEN}", "x".repeat(290))})),
        "named": all_calls(named, &result(task("completed"))),
        "leads_away": {"card": leads_away},
    }))
    .await;
}

#[tokio::test]
async fn credential_in_answers_is_redacted() {
    let mut said = task("working");
    said["status"]["message"] = message(TOKEN);
    said["metadata"] = json!({TOKEN: {"headers": {"authorization": format!("Bearer {TOKEN}")}}});
    let piece = json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1",
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": TOKEN}]}});
    let events =
        json!({"sse": [result(said.clone()), result(piece), result(status("completed", true))]});
    let mut done = said;
    done["status"]["state"] = json!("completed");
    never_reported(json!({
        "message": all_calls(card(), &result(message(TOKEN))),
        "task": all_calls(card(), &result(done)),
        "stream": all_calls(card(), &events),
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
        let places = [
            "POST /v1/message:send",
            "POST /v1/message:stream",
            "GET /v1/tasks/t-1",
            "POST /v1/tasks/t-1:cancel",
            "POST /v1/tasks/t-1:subscribe",
        ];
        let routes: serde_json::Map<_, _> = places
            .into_iter()
            .map(|place| (place.to_owned(), response.clone()))
            .collect();
        json!({"card": rest, "routes": routes})
    };
    let said =
        json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": TOKEN}]}});
    never_reported(json!({
        "detail": routes(json!({"status": 422, "json": {"detail": repeated}})),
        "error": routes(json!({"json": {"code": 13, "message": repeated}})),
        "message": routes(json!({"json": said})),
        "events": routes(json!({"sse": [{"rest": said}, {"rest": {"error": {"code": 13, "message": repeated}}}]})),
    }))
    .await;
}

#[tokio::test]
async fn no_request_carries_a_credential_to_another_origin() {
    let mut elsewhere = card();
    elsewhere["url"] = json!("{{origin:other}}/a2a/jsonrpc");
    let peers = peers(json!({
        "main": {"card": elsewhere},
        "other": all_calls(card(), &result(task("completed"))),
    }))
    .await;
    let mut main = target(&peers, "main");
    main["allowPrivateNetwork"] = json!(true);
    let rig = Rig::new(&json!({
        "targets": [main],
        "defaults": {"serviceParameters": {"x-api-key": TOKEN}},
    }));
    for mut request in requests() {
        if request["action"] != "list_targets" {
            request["target_alias"] = json!("main");
        }
        rig.call(&request).await;
    }
    let there = peers.log("other");
    assert!(there.len() >= 5, "{} requests", there.len());
    for request in there {
        assert!(
            !request.to_json().to_string().contains("sesame"),
            "{request:?}"
        );
    }
    let own = peers.log("main");
    assert!(
        own.iter()
            .all(|request| request.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn cross_origin_redirect_is_refused_without_request() {
    for code in [301, 302, 303, 307, 308] {
        let to = |path: &str| json!({"status": code, "headers": {"location": format!("{{{{origin:other}}}}{path}")}});
        let peers = peers(json!({
            "calls": all_calls(card(), &to("/a2a/jsonrpc")),
            "cards": {"routes": {"GET /.well-known/agent-card.json": to("/.well-known/agent-card.json")}},
            "other": all_calls(card(), &result(task("completed"))),
        }))
        .await;
        let rig = Rig::new(&json!({"targets": [target(&peers, "calls"), target(&peers, "cards")]}));
        for alias in ["calls", "cards"] {
            for mut request in requests() {
                if request["action"] != "list_targets" {
                    request["target_alias"] = json!(alias);
                    let envelope = rig.call(&request).await;
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
