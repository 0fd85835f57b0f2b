//! Manages a running gateway through its service.

use super::*;

fn manage(operation: &str, with: Value) -> Value {
    let mut content = json!({"service": "gateway", "operation": operation});
    content
        .as_object_mut()
        .unwrap()
        .extend(with.as_object().unwrap().clone());
    json!({"type": "request", "id": "r", "content": content, "metadata": {"correlationId": "m"}})
}

/// Returns a gateway whose key `KEY` has a role with these requests, and access only to the workspace of alpha.
fn with_role(request: &[&str]) -> Value {
    let role = json!({"request": request, "workspaces": ["alpha"], "send": ["*"]});
    let sha256 = digest("KEY");
    json!({"auth": {"keys": [{"name": "operator", "sha256": sha256, "roles": ["operator"]}]}, "roles": {"operator": role}})
}

#[tokio::test]
async fn wildcard_excludes_gateway_services() {
    let gateway = Gateway::start(with_role(&["*"])).await;
    let mut client = gateway.authenticated_client().await;
    client
        .refuse(manage("sessions.create", json!({"agent": "alpha"})), 5004)
        .await;
}

#[tokio::test]
async fn manager_sees_its_workspaces_only() {
    let gateway = Gateway::start(with_role(&["gateway"])).await;
    let mut client = gateway.authenticated_client().await;
    let made = client
        .request(manage(
            "sessions.create",
            json!({"agent": "alpha", "sessionId": "s-1"}),
        ))
        .await;
    assert_eq!(made["content"]["result"]["sessionId"], "s-1", "{made}");
    client
        .refuse(manage("sessions.create", json!({"agent": "beta"})), 5004)
        .await;
    std::fs::create_dir_all(gateway.folder.join("agents/beta/sessions")).unwrap();
    std::fs::copy(
        gateway.folder.join("agents/alpha/sessions/s-1.jsonl"),
        gateway.folder.join("agents/beta/sessions/s-1.jsonl"),
    )
    .unwrap();
    let listed = client.request(manage("sessions.list", json!({}))).await;
    let listed = listed["content"]["result"]["sessions"].as_array().unwrap();
    let agents: Vec<_> = listed.iter().map(|one| &one["agent"]).collect();
    assert_eq!(agents, ["alpha"]);
}

#[tokio::test]
async fn oversized_message_is_refused_unsent() {
    let limits = json!({"frameBytes": 16_384, "messagesPerSecond": 1000, "burst": 1000});
    let gateway = Gateway::start(json!({"fsync": "never", "limits": limits})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    for n in 0..4 {
        let content = json!({"role": "user", "content": "x".repeat(8000)});
        client
            .send(json!({"type": "message", "id": format!("m-{n}"), "agent": "alpha", "sessionId": "s", "content": content}))
            .await;
        alpha.recv().await;
    }
    for operation in ["sessions.get", "sessions.export"] {
        let request = manage(operation, json!({"agent": "alpha", "sessionId": "s"}));
        client.refuse(request, 2005).await;
    }
}

#[tokio::test]
async fn created_agent_reaches_the_running_gateway() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let made = client
        .request(manage(
            "agents.create",
            json!({"agent": "reviewer", "role": "Reviewer", "description": "It reads."}),
        ))
        .await;
    assert_eq!(made["content"]["result"]["agent"], "reviewer", "{made}");
    let listed = client
        .request(json!({"type": "discovery", "content": {"action": "list"}}))
        .await;
    let agents = listed["content"]["agents"].as_array().unwrap();
    let reviewer = agents
        .iter()
        .find(|agent| agent["name"] == "reviewer")
        .unwrap();
    assert_has(reviewer, json!({"role": "Reviewer", "status": "offline"}));
    client.refuse(message("reviewer", "c-1"), 3002).await;
    for (agent, code) in [
        ("reviewer", 2005),
        ("alpha", 2005),
        ("../x", 2005),
        ("triad", 5004),
    ] {
        let again = manage("agents.create", json!({"agent": agent, "role": "Any"}));
        client.refuse(again, code).await;
    }
}
