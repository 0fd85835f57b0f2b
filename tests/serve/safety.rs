//! Requests that the running server rejects.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::serve::http_client::{client, command, exchange, send};
use testkit::support::serve::Server;

fn start_server(options: &[&str]) -> Server {
    Server::scripted(&[&["--task-store", "memory"], options].concat())
}

/// Returns a server with Ada, Bob and an operator, and their tokens.
fn start_with_clients(options: &[&str]) -> (Server, [String; 3]) {
    let state = tempfile::tempdir().unwrap();
    let tokens = [
        client(state.path(), "ada", &[]),
        client(state.path(), "bob", &[]),
        client(state.path(), "me", &["--operator"]),
    ];
    let config = state.path().join("serve.json");
    std::fs::copy(state.path().join("clients.json"), &config).unwrap();
    let server = start_server(&[&["--config", config.to_str().unwrap()], options].concat());
    (server, tokens)
}

#[test]
fn foreign_origins_and_hosts_are_rejected() {
    let server = start_server(&[]);
    let rebound = "Host: rebound.example";
    assert_eq!(send(&server, "echo a", &[rebound]).status, 403);
    assert_eq!(
        send(&server, "echo a", &["Origin: https://evil.example"]).status,
        403
    );
    for path in [
        "/",
        "/api/tasks",
        "/metrics",
        "/.well-known/agent-card.json",
    ] {
        let answer = exchange(&server, &format!("GET {path}"), &[rebound], "");
        assert_eq!(answer.status, 403, "{path}");
    }
    let tasks = exchange(&server, "GET /api/tasks", &[], "").json();
    assert_eq!(tasks["total"], 0);
}

#[test]
fn form_cannot_send_a_message() {
    let server = start_server(&[]);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "echo a"}]}}});
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let lines = [&format!("Content-Type: {kind}"), "A2A-Version: 1.0"];
        for path in ["/a2a", "/", "/rest/message:send"] {
            let answer = exchange(&server, &format!("POST {path}"), &lines, &body.to_string());
            let refused = answer.status >= 400 || answer.json()["error"].is_object();
            assert!(refused, "{path} {kind}: {answer:?}");
        }
    }
    let tasks = exchange(&server, "GET /api/tasks", &[], "").json();
    assert_eq!(tasks["total"], 0);
}

#[test]
fn no_response_admits_other_origins() {
    let server = start_server(&[]);
    let own = format!("Origin: {}", server.url());
    for lines in [&[][..], &[own.as_str()]] {
        let card = exchange(&server, "GET /.well-known/agent-card.json", lines, "");
        assert_eq!(card.status, 200);
        assert!(!card.head.contains("access-control-allow"), "{}", card.head);
    }
}

#[test]
fn unknown_token_is_401_with_challenge() {
    let (server, [ada, ..]) = start_with_clients(&[]);
    for lines in [&[][..], &["Authorization: Bearer guessed"]] {
        let refused = send(&server, "echo a", lines);
        assert_eq!(refused.status, 401);
        assert!(
            refused.head.contains("www-authenticate: bearer"),
            "{}",
            refused.head
        );
        assert!(!refused.body.contains("guessed"));
    }
    assert_eq!(send(&server, "echo a", &[&ada]).status, 200);
}

#[test]
fn client_sees_own_tasks_only() {
    let (server, [ada, bob, operator]) = start_with_clients(&[]);
    let task = send(&server, "echo a", &[&ada]).json()["result"]["task"]["id"].clone();
    let get = |authorization: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task}});
        let lines = [
            "Content-Type: application/json",
            "A2A-Version: 1.0",
            authorization,
        ];
        exchange(&server, "POST /a2a", &lines, &body.to_string()).json()
    };
    assert_eq!(get(&ada)["result"]["id"], task);
    assert_eq!(get(&bob)["error"]["code"], -32001);
    assert_eq!(exchange(&server, "GET /api/tasks", &[&ada], "").status, 403);
    let all = exchange(&server, "GET /api/tasks", &[&operator], "").json();
    assert_eq!(all["tasks"][0]["client"], "ada");
}

#[test]
fn fast_client_gets_retry_after() {
    let flags = ["--limit", "requestsPerSecond=1", "--limit", "burst=2"];
    let (server, [ada, bob, _]) = start_with_clients(&flags);
    let statuses = [(); 3].map(|()| send(&server, "echo a", &[&ada]).status);
    assert_eq!(statuses, [200, 200, 429]);
    let limited_response = send(&server, "echo a", &[&ada]);
    assert!(
        limited_response.head.contains("retry-after:"),
        "{}",
        limited_response.head
    );
    assert_eq!(send(&server, "echo a", &[&bob]).status, 200);
}

#[test]
fn large_body_is_rejected() {
    let server = start_server(&["--limit", "bodyBytes=2048", "--limit", "parts=2"]);
    assert_eq!(send(&server, &"x".repeat(3000), &[]).status, 413);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}}});
    let lines = ["Content-Type: application/json", "A2A-Version: 1.0"];
    let answer = exchange(&server, "POST /a2a", &lines, &body.to_string());
    assert_eq!(answer.json()["error"]["code"], -32602, "{answer:?}");
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).unwrap()
}

/// Reads the beginning of a response, for at most half a minute.
fn status_line(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut line = vec![0; 12];
    match stream.read_exact(&mut line) {
        Ok(()) => String::from_utf8(line).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn silent_sockets_of_one_address_leave_healthz_served() {
    let flags = [
        "--limit",
        "connections=64",
        "--limit",
        "headerTimeoutMs=600000",
    ];
    let server = start_server(&flags);
    let _silent: Vec<_> = (0..128).map(|_| connect(&server)).collect();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(status_line(connect(&server), request), "HTTP/1.1 200");
}

#[test]
fn unfinished_chunked_bodies_leave_room_for_others() {
    let (server, [ada, bob, _]) = start_with_clients(&["--limit", "bodyTimeoutMs=600000"]);
    let _unfinished = [(); 26].map(|()| {
        let mut stream = connect(&server);
        let head = format!("POST /a2a HTTP/1.1\r\nHost: localhost\r\n{ada}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    });
    let request = format!(
        "POST /a2a HTTP/1.1\r\nHost: localhost\r\n{bob}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    assert_eq!(status_line(connect(&server), &request), "HTTP/1.1 200");
}

#[test]
fn unread_responses_of_a_client_are_bounded() {
    let (server, [ada, bob, _]) = start_with_clients(&[]);
    let text = format!("echo {}", "x".repeat(9 << 20));
    let task = send(&server, &text, &[&ada]).json()["result"]["task"]["id"].clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task}});
    let body = body.to_string();
    let get = || {
        let mut stream = connect(&server);
        let length = body.len();
        let head = format!(
            "POST /a2a HTTP/1.1\r\nHost: localhost\r\n{ada}\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        (String::from_utf8(line.to_vec()).unwrap(), stream)
    };
    let mut unread = Vec::new();
    // 40 such responses would be 360 MB or more.
    let refused = (0..40).find_map(|_| match get() {
        (line, stream) if line == "HTTP/1.1 200" => {
            unread.push(stream);
            None
        }
        refused => Some(refused),
    });
    let (line, mut stream) = refused.expect("the server holds every answer that is not read");
    assert_eq!(line, "HTTP/1.1 503");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("retry-after: 1\r\n"), "{rest}");
    assert_eq!(send(&server, "echo b", &[&bob]).status, 200);
    drop(unread);
    wait_until(|| get().0 == "HTTP/1.1 200");
}

#[test]
fn log_contains_no_token() {
    let (server, [ada, ..]) = start_with_clients(&["--verbose"]);
    send(&server, "echo a", &[&ada]);
    send(&server, "echo a", &["Authorization: Bearer guessed-token"]);
    let log = server.stop().log;
    let token = ada.rsplit(' ').next().unwrap();
    assert!(
        !log.contains(token) && !log.contains("guessed-token"),
        "{log}"
    );
}

#[test]
fn clients_change_without_restart() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().to_str().unwrap();
    let ada = client(state.path(), "ada", &[]);
    let server = start_server(&["--state-dir", folder]);
    let bob = client(state.path(), "bob", &[]);
    wait_until(|| send(&server, "echo a", &[&bob]).status == 200);
    assert!(
        command(&["serve", "clients", "remove", "ada", "--state-dir", folder])
            .status
            .success()
    );
    wait_until(|| send(&server, "echo a", &[&ada]).status == 401);
}

pub fn wait_until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < end, "it never came true");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
