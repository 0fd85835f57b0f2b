//! The server over HTTP.

use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, mpsc};

use testkit::support::http;
use testkit::support::journal::Journal;

use super::*;
use crate::cli::support::{config_file, words};
use crate::serve::http_client::{Response, exchange_at};
use crate::support::tool_fixture::{card, task};

const JSON: &str = "Content-Type: application/json";
const ACCEPT: &str = "Accept: application/json, text/event-stream";
const VERSION: &str = "MCP-Protocol-Version: 2026-07-28";

/// The command with `--listen`, on a free port and with its own state directory.
pub(super) struct HttpServer {
    child: Child,
    url: String,
    pub(super) state: tempfile::TempDir,
}

impl HttpServer {
    pub(super) fn start(flags: &[&str]) -> Self {
        Self::with_clients(&[], flags).0
    }

    /// Starts with these environment variables.
    pub(super) fn with_environment(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::with(&[], flags, variables).0
    }

    /// Starts with these clients, and returns their tokens.
    pub(super) fn with_clients(names: &[&str], flags: &[&str]) -> (Self, Vec<String>) {
        Self::with(names, flags, &[])
    }

    fn with(names: &[&str], flags: &[&str], variables: &[(&str, &str)]) -> (Self, Vec<String>) {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().to_str().unwrap().to_owned();
        let add = |name: &&str| {
            let add = format!("serve clients add {name} --json --state-dir '{folder}'");
            let added = Command::new(executable()).args(words(&add)).output();
            let added = added.unwrap();
            let added: Value = serde_json::from_slice(&added.stdout).unwrap();
            added["token"].as_str().unwrap().to_owned()
        };
        let tokens = names.iter().map(add).collect();
        let mut child = command(&["--listen", "127.0.0.1:0", "--state-dir", &folder])
            .args(flags)
            .envs(variables.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.split("/mcp").next().unwrap().to_owned();
        assert!(url.starts_with("http://"), "{line}");
        (Self { child, url, state }, tokens)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn request(&self, request_line: &str, headers: &[&str], body: &str) -> Response {
        exchange_at(&self.url, request_line, headers, body).unwrap()
    }

    /// Sends a request to `/remote_agent/write`, and returns the connection on which its answer will come.
    fn begin_write(&self, request: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        let body = request.to_string();
        let head = format!(
            "POST /remote_agent/write HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = stream.write_all(format!("{head}{body}").as_bytes());
        sent.unwrap();
        stream
    }

    /// Sends a request of 2026-07-28.
    fn mcp(&self, token: &str, method: &str, params: Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": with_metadata(params.clone(), tasks_capability())});
        let authorization = format!("Authorization: Bearer {token}");
        // The header repeats the method of the request.
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let name = format!("Mcp-Name: {}", name.unwrap_or_default());
        let method = format!("Mcp-Method: {method}");
        let headers = [JSON, ACCEPT, VERSION, &method, &name, &authorization];
        self.request("POST /mcp", &headers, &body.to_string())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the message in a response, which may be an event stream.
fn message(answer: &Response) -> Value {
    let data = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"));
    let last = data.map(str::trim).rfind(|data| !data.is_empty());
    serde_json::from_str(last.unwrap_or(&answer.body))
        .unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn call_over_http_is_answered() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mcp_server = HttpServer::start(&["--url", server.url()]);
    let answer =
        message(&mcp_server.mcp("", "tools/call", call_params(send_request("echo hello"))));
    assert!(text(&answer).contains("hello"), "{answer}");
}

#[test]
fn method_that_the_server_lacks_is_named_over_http() {
    let mcp_server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    for method in ["subscriptions/listen", "skills/list", "resources/list"] {
        let refused = mcp_server.mcp("", method, json!({"notifications": {}}));
        let expected = json!({"code": -32601, "message": format!("unknown method `{method}`")});
        assert_eq!(message(&refused)["error"], expected, "{refused:?}");
        assert!(refused.head.contains(" 404 "), "{refused:?}");
    }
}

#[test]
fn client_of_an_earlier_version_is_served_without_a_session() {
    let mcp_server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    let client = json!({"name": "old", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let started = mcp_server.request("POST /mcp", &[JSON, ACCEPT], &body);
    assert_eq!(message(&started)["result"]["protocolVersion"], "2025-06-18");
    assert!(!started.head.contains("mcp-session-id"), "{}", started.head);
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let listed = message(&mcp_server.request("POST /mcp", &[JSON, ACCEPT], &body));
    assert_eq!(
        listed["result"]["tools"][0]["name"], "remote_agent",
        "{listed}"
    );
}

#[test]
fn disconnected_client_cancels_its_task() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mcp_server = HttpServer::start(&["--url", server.url()]);
    let mut request = send_request("begun work");
    request["follow_updates"] = true.into();
    let client = mcp_server.begin_write(&request);
    wait_for_state(&server, "TASK_STATE_WORKING");
    drop(client);
    wait_for_state(&server, "TASK_STATE_CANCELED");
}

/// Starts an agent that names the task of a message only after its client has left. Returns its URL, and what it received.
fn start_late_agent(has_left: mpsc::Receiver<()>) -> (String, Journal<String>) {
    let received = Journal::new();
    let (has_left, seen) = (Mutex::new(has_left), received.clone());
    let url = http::serve_agent(&card(), move |request, stream| {
        let body = request.json();
        seen.push(body["method"].as_str().unwrap().to_owned());
        let answer =
            |result| json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        if body["method"] == "message/stream" {
            let mut events = [answer(task("working"))].into_iter();
            return http::answer_slowly(stream, || {
                let gate = has_left.lock().unwrap();
                // The next event never comes.
                gate.recv().ok()?;
                events.next()
            });
        }
        http::answer(
            stream,
            "200 OK",
            "application/json",
            &answer(task("canceled")),
        );
    });
    (url, received)
}

#[test]
fn disconnected_client_cancels_a_task_that_its_agent_names_late() {
    let (leave, has_left) = mpsc::channel();
    let (url, received) = start_late_agent(has_left);
    let mcp_server = HttpServer::start(&["--url", &url]);
    let mut request = send_request("work");
    request["follow_updates"] = true.into();
    let client = mcp_server.begin_write(&request);
    received.wait("the message", |method| method == "message/stream");
    drop(client);
    leave.send(()).unwrap();
    received.wait("the cancellation", |method| method == "tasks/cancel");
}

#[test]
fn request_without_a_valid_token_is_refused() {
    let (mcp_server, tokens) = HttpServer::with_clients(&["ada"], &["--url", "http://127.0.0.1:9"]);
    for token in ["", "wrong", &tokens[0][1..]] {
        let answer = mcp_server.mcp(token, "tools/list", json!({}));
        assert_eq!(answer.status, 401, "{token}");
        assert_form("/mcp", &answer);
        let header = format!("Authorization: Bearer {token}");
        let response = mcp_server.request(
            "POST /remote_agent/read",
            &[JSON, &header],
            r#"{"query": "list_targets"}"#,
        );
        assert_eq!(response.status, 401, "{token}");
        assert_form("/remote_agent/read", &response);
    }
    assert_eq!(
        mcp_server.mcp(&tokens[0], "tools/list", json!({})).status,
        200
    );
}

#[test]
fn requests_of_other_sites_are_refused() {
    let mcp_server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    for line in [
        "Host: evil.example",
        "Origin: https://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
    ] {
        for path in ["/mcp", "/remote_agent/read", "/remote_agent/write"] {
            let answer = mcp_server.request(&format!("POST {path}"), &[JSON, ACCEPT, line], "{}");
            assert_eq!(answer.status, 403, "{line} {path}: {answer:?}");
            assert_form(path, &answer);
        }
    }
}

/// Checks the form of a refusal: an error of JSON-RPC for MCP, and an error of HTTP for the API.
fn assert_form(path: &str, answer: &Response) {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let code = &body["error"]["code"];
    let is_rpc = body["jsonrpc"] == "2.0" && *code == -32600;
    let is_plain = body["error"].is_string();
    assert_eq!(
        (is_rpc, is_plain),
        (path == "/mcp", path != "/mcp"),
        "{answer:?}"
    );
    let message = body["error"].get("message").unwrap_or(&body["message"]);
    assert!(message.is_string(), "{answer:?}");
}

#[test]
fn task_id_of_another_client_is_refused() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let (mcp_server, tokens) = HttpServer::with_clients(&["ada", "eve"], &["--url", server.url()]);
    let started = message(&mcp_server.mcp(
        &tokens[0],
        "tools/call",
        call_params(send_request("slow 20000")),
    ));
    let id = started["result"]["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("{started}"));
    let get =
        |token: &str, id: &str| message(&mcp_server.mcp(token, "tasks/get", json!({"taskId": id})));
    let own = get(&tokens[0], id);
    assert_eq!(own["result"]["status"], "working", "{own}");
    assert_eq!(get(&tokens[1], id)["error"]["code"], -32602);
    let other = if id.as_bytes()[20] == b'A' { "B" } else { "A" };
    let changed = format!("{}{other}{}", &id[..20], &id[21..]);
    assert_eq!(get(&tokens[0], &changed)["error"]["code"], -32602);
    let cancelled = message(&mcp_server.mcp(&tokens[1], "tasks/cancel", json!({"taskId": id})));
    assert_eq!(cancelled["error"]["code"], -32602);
    assert_eq!(task_states(&server), ["TASK_STATE_WORKING"]);
}

#[test]
fn allowed_agents_of_a_target_are_the_names_of_clients() {
    let target = json!({"alias": "a", "baseUrl": "http://127.0.0.1:9", "allowedAgents": ["ada"]});
    let config = config_file("mcp-allowed", &json!({"targets": [target]}));
    let (mcp_server, tokens) = HttpServer::with_clients(&["ada", "eve"], &["--config", &config]);
    let count = |token: &str| {
        let listed = message(&mcp_server.mcp(
            token,
            "tools/call",
            call_params(json!({"action": "list_targets"})),
        ));
        envelope(&listed)["summary"]["targets"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!([count(&tokens[0]), count(&tokens[1])], [1, 0]);
}

#[test]
fn removed_client_is_refused() {
    let (mcp_server, tokens) =
        HttpServer::with_clients(&["ada", "eve"], &["--url", "http://127.0.0.1:9"]);
    let removed = Command::new(executable())
        .args(["serve", "clients", "remove", "eve", "--state-dir"])
        .arg(mcp_server.state.path())
        .output()
        .unwrap();
    assert!(removed.status.success(), "{removed:?}");
    let deadline = std::time::Instant::now() + ANSWER_TIMEOUT;
    while mcp_server.mcp(&tokens[1], "tools/list", json!({})).status != 401 {
        assert!(std::time::Instant::now() < deadline);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        mcp_server.mcp(&tokens[0], "tools/list", json!({})).status,
        200
    );
}

#[test]
fn other_machines_need_tokens() {
    let state = tempfile::tempdir().unwrap();
    let flags = words("--listen 0.0.0.0:0 --url http://127.0.0.1:9 --state-dir");
    let refused = command(&flags).arg(state.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("clients add"), "{message}");
}

#[test]
fn stop_signal_ends_the_server() {
    let mcp_server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    Command::new("kill")
        .arg(mcp_server.child.id().to_string())
        .status()
        .unwrap();
    let mut mcp_server = mcp_server;
    assert!(mcp_server.child.wait().unwrap().success());
}

fn list_tools(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).to_string()
}

#[test]
fn clients_that_accept_anything_are_served() {
    let server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    for (path, accept, media_type) in [
        ("/mcp", "Accept: */*", "text/event-stream"),
        ("/mcp/", "X-No-Accept: 1", "text/event-stream"),
        ("/mcp", "Accept: application/*", "application/json"),
        ("/mcp", "Accept: application/json", "application/json"),
        ("/mcp", "Accept: text/event-stream", "text/event-stream"),
        (
            "/mcp/",
            "Accept: Application/JSON;q=1, Text/Event-Stream",
            "text/event-stream",
        ),
    ] {
        let content_type = "Content-Type: Application/Vnd.x+JSON; charset=utf-8";
        let answer = server.request(
            &format!("POST {path}"),
            &[content_type, accept],
            &list_tools(3),
        );
        assert_eq!(answer.status, 200, "{accept}: {answer:?}");
        assert!(
            answer.head.to_lowercase().contains(media_type),
            "{accept}: {}",
            answer.head
        );
        assert_eq!(
            message(&answer)["result"]["tools"][0]["name"],
            "remote_agent"
        );
    }
    let answer = server.request("POST /mcp", &[JSON, "Accept: text/html"], &list_tools(3));
    assert_eq!(answer.status, 406, "{answer:?}");
}

#[test]
fn unreadable_bodies_are_refused_with_words() {
    let server = HttpServer::start(&["--url", "http://127.0.0.1:9"]);
    let batch = format!("[{}]", list_tools(1));
    let many = format!("[{}0]", "{\"a\":0},".repeat(20_000));
    for (headers, body, status, words) in [
        (&[JSON][..], "not json", 400, "not JSON"),
        (&[JSON], "", 400, "not JSON"),
        (&[JSON], &batch, 400, "batches are not supported"),
        (&[JSON], &many, 400, "more values"),
        (
            &[JSON],
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#,
            400,
            "parameters",
        ),
        (
            &["Content-Type: text/plain"],
            &list_tools(1),
            415,
            "send application/json",
        ),
        (&[JSON, "Content-Encoding: gzip"], "\u{1f}", 415, "`gzip`"),
    ] {
        let answer = server.request("POST /mcp", &[headers, &[ACCEPT]].concat(), body);
        assert_eq!(answer.status, status, "{body:.80}: {answer:?}");
        assert!(answer.body.contains(words), "{body:.80}: {}", answer.body);
    }
    for (headers, body, status, words) in [
        (
            &[JSON][..],
            "\u{feff}{\"query\": \"list_targets\"}",
            200,
            "targets",
        ),
        (&[JSON], &many, 400, "more values"),
        (&[JSON, "Content-Encoding: gzip"], "\u{1f}", 415, "`gzip`"),
    ] {
        let answer = server.request("POST /remote_agent/read/", headers, body);
        assert_eq!(answer.status, status, "{body:.80}: {answer:?}");
        assert!(answer.body.contains(words), "{body:.80}: {}", answer.body);
    }
    let invalid = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
    let answer = server.request("POST /mcp", &[JSON, ACCEPT], invalid);
    assert_eq!(message(&answer)["error"]["code"], -32602, "{answer:?}");
}
