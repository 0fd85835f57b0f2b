//! Proxies from environment variables.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::egress::attempt::Trap;

/// Calls a peer by name, in a process with the trap as the proxy of its environment.
async fn call(use_system_proxy: bool) -> (Value, usize) {
    let trap = Trap::new();
    let proxy = format!("http://127.0.0.1:{}", trap.port());
    // A name that the system cannot resolve, so that only a proxy could reach it.
    let config = json!({
        "targets": [{"alias": "main", "baseUrl": "http://agent.invalid", "default": true, "timeoutMs": 1000}],
        "policy": {"useSystemProxy": use_system_proxy},
    });
    let request = json!({"action": "send", "parts": [{"kind": "text", "text": "hello"}]});
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_remote-agent"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command
            .env(name, &proxy)
            .env(name.to_ascii_lowercase(), &proxy);
    }
    let output = command
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .args(["call", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = [
        json!({"id": 1, "op": "init", "config": config}),
        json!({"id": 2, "op": "execute", "request": request}),
    ];
    let result = last_result(output, &lines).await;
    (result, trap.connections())
}

async fn last_result(mut child: tokio::process::Child, lines: &[Value]) -> Value {
    use tokio::io::AsyncWriteExt as _;
    let mut stdin = child.stdin.take().unwrap();
    for line in lines {
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    serde_json::from_str::<Value>(last).unwrap()["result"].clone()
}

#[tokio::test]
async fn environment_proxy_is_opt_in() {
    let (envelope, connections) = call(false).await;
    assert_eq!(envelope["error"]["reason"], "dns", "{envelope}");
    assert_eq!(connections, 0);
}

#[tokio::test]
async fn configured_environment_proxy_is_used() {
    let (envelope, connections) = call(true).await;
    assert_eq!(envelope["error"]["reason"], "timeout", "{envelope}");
    assert_eq!(connections, 1);
}

/// Checks that the trap counts connections at all.
#[tokio::test]
async fn trap_counts_connections() {
    let trap = Trap::new();
    for host in ["127.0.0.1", "0.0.0.0"] {
        let socket = tokio::net::TcpStream::connect((host, trap.port())).await;
        socket.unwrap();
    }
    assert_eq!((trap.connections(), trap.connections()), (2, 0));
}
