#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod strangers;

use std::time::Duration;

use a2a::v1_0::{Message, Part, Role, SendMessageRequest};
use serde_json::{Value, json};

use super::*;
use crate::http::access_control::AccessRules;
use crate::http::clients::ClientRegistry;
use crate::http::testing::{ada_and_the_operator, rules};
use crate::http::tests::harness::scripted_service;
use crate::http::{App, CardFacts, DEFAULT_BODY_BYTES, DEFAULT_KEEP_ALIVE};
use crate::service::{ANONYMOUS_CLIENT, CallContext};
use crate::service::{SendMessage, Service};
use crate::settings::Settings;
use crate::store::memory::MemoryStore;
use a2a::Version;
use http_server::serve::ConnectionConfig;
use http_server::testing::{Answer, Server, start};

struct TestServer {
    http: Server,
    clients: Arc<ClientRegistry>,
    service: Service,
}

async fn start_server(rules: AccessRules, clients: ClientRegistry) -> TestServer {
    let store = Arc::new(MemoryStore::new());
    let service = scripted_service(Settings::default(), store, &["main"]).await;
    let operator = Operator {
        service: service.clone(),
        description: "scripted, in memory".into(),
    };
    let clients = Arc::new(clients);
    let wire = crate::http::router(App {
        service: service.clone(),
        requires_token: clients.requires_token(),
        card: CardFacts::new("Local OpenClaw", "Agents of one OpenClaw.", "7.8.9"),
        card_signer: None,
        body_limit: DEFAULT_BODY_BYTES,
        keep_alive: DEFAULT_KEEP_ALIVE,
    });
    let app = router(
        wire,
        operator,
        AccessControl::new(rules, Arc::clone(&clients)),
    );
    TestServer {
        clients,
        http: start(app, ConnectionConfig::default()).await,
        service,
    }
}

async fn without_clients() -> TestServer {
    start_server(rules(), ClientRegistry::open()).await
}

async fn with_clients() -> TestServer {
    start_server(rules(), ada_and_the_operator()).await
}

const ADA: &str = "Authorization: Bearer token-of-ada";
const OPERATOR: &str = "Authorization: Bearer token-of-op";
const OWN_PAGE: &str = "X-Requested-With: remote-agent";

impl TestServer {
    /// Sends a message of `client` whose task runs until it is canceled.
    async fn start_task(&self, client: &str) -> String {
        self.send(client, "begun <b>\"confidential\"</b>").await
    }

    async fn send(&self, client: &str, text: &str) -> String {
        let caller = CallContext {
            client: client.into(),
            authenticated: false,
            version: Version::V1_0,
            agent: None,
        };
        let message = Message::new(Role::User, vec![Part::text(text)]);
        let send = SendMessage {
            request: SendMessageRequest {
                message,
                configuration: None,
                metadata: None,
                tenant: None,
            },
            return_immediately: Some(true),
        };
        self.service.send(&caller, send).await.unwrap();
        let tasks = self.tasks(&[OPERATOR]).await;
        tasks["tasks"][0]["id"].as_str().unwrap().to_owned()
    }

    async fn tasks(&self, lines: &[&str]) -> Value {
        serde_json::from_str(&self.http.request("GET /api/tasks", lines, "").await.body).unwrap()
    }

    async fn cancel(&self, id: &str, lines: &[&str]) -> Answer {
        let what = format!("POST /api/tasks/{id}/cancel");
        self.http.request(&what, lines, "").await
    }
}

#[tokio::test]
async fn page_policy_admits_own_script_only() {
    let server = without_clients().await;
    let page = server.http.request("GET /", &[], "").await;
    assert_eq!(page.status, 200);
    let head = &page.head;
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "frame-ancestors 'none'",
        "x-frame-options: DENY",
    ] {
        assert!(head.contains(part), "{part} is not in {head}");
    }
    assert!(!head.contains("unsafe"));
    for address in ["src=", "url(", "@import", "http://", "https://"] {
        assert!(!page.body.contains(address), "{address}");
    }
}

#[tokio::test]
async fn page_is_for_localhost_only() {
    let server = with_clients().await;
    assert_eq!(server.http.get("/", &[]).await, 200);
    assert_eq!(
        server.http.get("/", &["X-Forwarded-For: 127.0.0.1"]).await,
        403
    );
}

#[tokio::test]
async fn operator_lists_tasks_of_all_clients() {
    let server = without_clients().await;
    let id = server.start_task(ANONYMOUS_CLIENT).await;
    let tasks = server.tasks(&[]).await;
    assert_eq!(tasks["total"], 1);
    assert_eq!(tasks["ready"], true);
    let task = &tasks["tasks"][0];
    assert_eq!(task["id"], id.as_str());
    assert_eq!(task["asked"], "begun <b>\"confidential\"</b>");
    assert_eq!(task["settled"], false);
}

#[tokio::test]
async fn operator_cancels_and_deletes_any_task() {
    let server = with_clients().await;
    let id = server.start_task("ada").await;
    assert_eq!(server.cancel(&id, &[OPERATOR, OWN_PAGE]).await.status, 200);
    let tasks = server.tasks(&[OPERATOR]).await;
    assert_eq!(tasks["tasks"][0]["state"], "canceled");
    let what = format!("DELETE /api/tasks/{id}");
    let deleted = server.http.request(&what, &[OPERATOR, OWN_PAGE], "").await;
    assert_eq!(deleted.status, 200);
    assert_eq!(server.tasks(&[OPERATOR]).await["total"], 0);
    let again = server.http.request(&what, &[OPERATOR, OWN_PAGE], "").await;
    assert_eq!(again.status, 404);
}

#[tokio::test]
async fn task_list_needs_operator_token() {
    let server = with_clients().await;
    let get = async |lines: &[&str]| server.http.get("/api/tasks", lines).await;
    assert_eq!(get(&[]).await, 401);
    assert_eq!(get(&[ADA]).await, 403);
    assert_eq!(get(&[OPERATOR]).await, 200);
}

#[tokio::test]
async fn foreign_page_cannot_end_a_task() {
    let server = without_clients().await;
    let id = server.start_task(ANONYMOUS_CLIENT).await;
    assert_eq!(server.cancel(&id, &[]).await.status, 403);
    let foreign = [OWN_PAGE, "Origin: https://evil.example"];
    assert_eq!(server.cancel(&id, &foreign).await.status, 403);
    let what = format!("DELETE /api/tasks/{id}");
    assert_eq!(server.http.request(&what, &[], "").await.status, 403);
    assert_eq!(server.tasks(&[]).await["tasks"][0]["settled"], false);
}

#[tokio::test]
async fn unchanged_task_list_is_304() {
    let server = without_clients().await;
    let answer = server.http.request("GET /api/tasks", &[], "").await;
    let tag = answer
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "));
    let known = format!("If-None-Match: {}", tag.unwrap());
    assert_eq!(server.http.get("/api/tasks", &[&known]).await, 304);
    server.start_task(ANONYMOUS_CLIENT).await;
    assert_eq!(server.http.get("/api/tasks", &[&known]).await, 200);
}

#[tokio::test]
async fn second_cancel_by_operator_succeeds() {
    let server = without_clients().await;
    let id = server.send(ANONYMOUS_CLIENT, "echo done").await;
    let settled = async || server.tasks(&[]).await["tasks"][0]["settled"] == true;
    tokio::time::timeout(Duration::from_secs(10), async {
        while !settled().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(server.cancel(&id, &[OWN_PAGE]).await.status, 400);
}

#[tokio::test]
async fn health_is_for_localhost_and_clients() {
    let server = with_clients().await;
    let far = "X-Forwarded-For: 192.0.2.9";
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.http.get(path, &[]).await, 200, "{path}");
        assert_eq!(server.http.get(path, &[far]).await, 401, "{path}");
        assert_eq!(server.http.get(path, &[far, ADA]).await, 200, "{path}");
    }
}

#[tokio::test]
async fn only_this_machine_and_operators_see_why_the_server_is_not_ready() {
    let server = with_clients().await;
    server.service.close(Duration::ZERO).await;
    let far = "X-Forwarded-For: 192.0.2.9";
    for (lines, shown) in [
        (&[][..], "the server is stopping"),
        (&[far, OPERATOR], "the server is stopping"),
        (&[far, ADA], "only the operator sees the cause"),
    ] {
        let answer = server.http.request("GET /readyz", lines, "").await;
        assert_eq!(answer.status, 503, "{lines:?}");
        assert!(answer.body.contains(shown), "{}", answer.body);
    }
}

/// Returns a message of more than 3,000 bytes that `slow` answers once it is canceled.
fn large_message(text: &str) -> String {
    message_body("SendMessage", &format!("{text} {}", "x".repeat(3000)))
}

#[tokio::test]
async fn parsed_body_frees_its_share_while_its_answer_waits() {
    let mut rules = rules();
    rules.limits.body_bytes = 4000;
    rules.limits.body_bytes_per_client = 4000;
    let server = start_server(rules, ada_and_the_operator()).await;
    let (slow, echo) = (large_message("slow"), large_message("echo"));
    let lines = [ADA, "Content-Type: application/json", "A2A-Version: 1.0"];
    let waiting = server.http.request("POST /a2a", &lines, &slow);
    let second = async {
        while server.service.active_task_count() == 0 {
            tokio::task::yield_now().await;
        }
        server.http.request("POST /a2a", &lines, &echo).await
    };
    tokio::select! {
        first = waiting => panic!("answered too early: {first:?}"),
        second = second => assert_eq!(second.status, 200, "{second:?}"),
    }
}

fn message_body(method: &str, text: &str) -> String {
    let id = uuid::Uuid::new_v4().to_string();
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
        "message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]}}})
    .to_string()
}

/// Sends a request with Ada's token, revokes the token while her task runs, and returns the response.
async fn answer_after_revocation(method: &str) -> Answer {
    let server = with_clients().await;
    let lines = [ADA, "Content-Type: application/json", "A2A-Version: 1.0"];
    let body = message_body(method, "slow");
    let answer = server.http.request("POST /a2a", &lines, &body);
    let revoke = async {
        while server.tasks(&[OPERATOR]).await["tasks"][0]["state"] != "working" {
            tokio::task::yield_now().await;
        }
        server.clients.replace(Vec::new());
    };
    let both = async { tokio::join!(answer, revoke).0 };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await;
    both.expect("the answer does not end")
}

#[tokio::test]
async fn stream_ends_with_an_error_once_its_token_is_revoked() {
    let stream = answer_after_revocation("SendStreamingMessage").await;
    assert_eq!(stream.status, 200);
    let last = stream.body.rsplit("data: ").next().unwrap();
    assert!(last.contains("UNAUTHENTICATED"), "{}", stream.body);
}

#[tokio::test]
async fn waiting_request_is_refused_once_its_token_is_revoked() {
    let answer = answer_after_revocation("SendMessage").await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn metrics_contain_no_task_data() {
    let server = without_clients().await;
    let id = server.start_task(ANONYMOUS_CLIENT).await;
    let answer = server.http.request("GET /metrics", &[], "").await;
    assert!(
        answer
            .head
            .contains("content-type: application/openmetrics-text")
    );
    assert!(
        answer
            .body
            .contains("remote_agent_tasks_total{state=\"submitted\"} 1")
    );
    assert!(!answer.body.contains(&id) && !answer.body.contains("confidential"));
}
