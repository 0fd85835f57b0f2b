//! Runs the servers on real sockets. One server of each kind handles all inputs, so each input must leave it running.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base::environment::SystemEnvironment;
use base::log::Silent;
use futures_util::{SinkExt as _, StreamExt as _};
use gateway_server::config::ServerConfig;
use mcp_server::http::{ApiLimits, router};
use mcp_server::{McpServer, Options, Tool};
use openclaw_remote_agent::host::abi::root_module;
use openclaw_remote_agent_interface::RNone;
use openclaw_server::assembly::Frontend;
use openclaw_server::config::ServeConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

/// The maximum response time of a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});

/// The paths of requests. The first byte of the input selects one.
const PATHS: &[&str] = &[
    "POST /",
    "POST /rest/message:send",
    "POST /rest/message:stream",
    "POST /rest/v1/message:send",
    "GET /rest/tasks",
    "GET /rest/v1/tasks/task-1",
    "POST /rest/tasks/task-1:cancel",
    "POST /rest/tasks/task-1/pushNotificationConfigs",
];

/// Returns the configuration of an HTTP server without limits that a fuzzer would reach.
fn serve_config() -> ServeConfig {
    let folder = tempfile::tempdir().unwrap().keep();
    let config = serde_json::json!({
        "listen": "127.0.0.1:0", "executor": "scripted", "taskStore": "memory", "stateDir": folder,
        "limits": {"requestsPerSecond": 1_000_000, "burst": 1_000_000},
    });
    ServeConfig::parse(&config.to_string()).unwrap()
}

static SERVE: LazyLock<SocketAddr> = LazyLock::new(|| {
    RUNTIME.block_on(async {
        let server = openclaw_server::assembly::Server::bind(serve_config())
            .await
            .unwrap();
        let address = server.address();
        let (stop, force) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(server.run(stop, force));
        address
    })
});

/// The MCP server with an instance whose only agent refuses connections.
static MCP: LazyLock<SocketAddr> = LazyLock::new(|| {
    RUNTIME.block_on(async {
        let config =
            r#"{"targets": [{"alias": "desk", "baseUrl": "http://127.0.0.1:9", "default": true}]}"#;
        let tool = root_module().new_tool()(config.into(), RNone);
        let tool = Arc::new(tool.into_result().unwrap());
        let open = Arc::clone(&tool);
        let tool = Tool::new(tool, move || Ok(Arc::clone(&open)));
        let frontend = Frontend::bind(serve_config()).await.unwrap();
        let url: http::Uri = frontend.url().parse().unwrap();
        let address = url.authority().unwrap().as_str().parse().unwrap();
        let limits = ApiLimits {
            read: ANSWER_TIMEOUT / 4,
            write: ANSWER_TIMEOUT / 4,
        };
        let stop = CancellationToken::new();
        let server = McpServer::new(tool, Options::default());
        let app = router(server, frontend.access(), limits, 1 << 20, stop.clone());
        tokio::spawn(frontend.serve(app, stop, |_| {}));
        address
    })
});

static GATEWAY: LazyLock<SocketAddr> = LazyLock::new(|| {
    RUNTIME.block_on(async {
        let folder = tempfile::tempdir().unwrap().keep();
        let config =
            serde_json::json!({"listen": "127.0.0.1:0", "stateDir": folder, "fsync": "never"});
        let config = ServerConfig::parse(&config.to_string()).unwrap();
        let env = Arc::new(SystemEnvironment);
        let server = gateway_server::Server::bind(config, env, Arc::new(Silent))
            .await
            .unwrap();
        let address = server.address();
        tokio::spawn(server.run(CancellationToken::new()));
        address
    })
});

fn within<T>(work: impl Future<Output = T>) -> T {
    let work = RUNTIME.block_on(async { timeout(ANSWER_TIMEOUT, work).await });
    work.expect("the server answers")
}

/// Sends a request to `remote-agent serve`. The first byte selects the method and the path, and A2A 1.0 if it is odd; the
/// rest is the body. The server must respond without an internal error.
pub(crate) fn serve_request(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let path = PATHS[usize::from(first / 2) % PATHS.len()];
    let version = if first % 2 == 1 {
        "A2A-Version: 1.0\r\n"
    } else {
        ""
    };
    let status = post(*SERVE, path, version, body);
    assert!(!status.starts_with("HTTP/1.1 500"), "{status}");
}

/// The paths of the MCP server. The first byte of the input selects one.
const MCP_PATHS: &[&str] = &[
    "POST /mcp",
    "POST /remote_agent/read",
    "POST /remote_agent/write",
];

/// The MCP versions. The first byte of the input selects one.
const MCP_VERSIONS: &[&str] = &["2026-07-28", "2025-11-25", "2025-06-18", ""];

/// Sends a request of MCP or of the HTTP API to `remote-agent mcp`. The first byte selects the path and the version; the
/// rest is the body. The server must respond without an internal error.
pub(crate) fn mcp_request(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let first = usize::from(*first);
    let path = MCP_PATHS[first % MCP_PATHS.len()];
    let version = MCP_VERSIONS[first / MCP_PATHS.len() % MCP_VERSIONS.len()];
    // MCP 2026-07-28 requires headers that repeat fields of the body.
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &serde_json::Value| {
        let text = value.as_str().unwrap_or_default();
        text.replace(|c: char| !c.is_ascii_graphic(), "")
    };
    let headers = format!(
        "MCP-Protocol-Version: {version}\r\nMcp-Method: {}\r\nMcp-Name: {}\r\nAccept: application/json, text/event-stream\r\n",
        text(&json["method"]),
        text(&json["params"]["name"]),
    );
    let status = post(*MCP, path, &headers, body);
    let fault = status.starts_with("HTTP/1.1 500");
    assert!(!fault || path != "POST /mcp", "{status}");
}

/// Sends a request and returns the beginning of the status line.
fn post(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> String {
    let head = format!(
        "{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let status = within(async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may respond before it has read a body that it refuses.
        let _ = stream.write_all(body).await;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.expect("a status line");
        String::from_utf8_lossy(&status).into_owned()
    });
    assert!(status.starts_with("HTTP/1.1 "), "{status}");
    status
}

async fn upgraded(address: SocketAddr) -> WebSocketStream<TcpStream> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("the head of an answer"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", head.escape_ascii());
    WebSocketStream::from_raw_socket(stream, Role::Client, None).await
}

/// Sends frames of `a2a-v1` to `remote-agent gateway`, one per line. The gateway must still accept another client.
pub(crate) fn gateway_frames(data: &[u8]) {
    let address = *GATEWAY;
    let text = String::from_utf8_lossy(data);
    within(async {
        for lines in [text.lines().collect::<Vec<_>>(), Vec::new()] {
            let mut socket = upgraded(address).await;
            for line in lines {
                if socket.send(Message::text(line)).await.is_err() {
                    break;
                }
            }
            let _ = socket.close(None).await;
            while let Some(Ok(_)) = socket.next().await {}
        }
    });
}
