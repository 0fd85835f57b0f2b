//! Requests to `remote-agent serve`.

use std::net::SocketAddr;
use std::time::Duration;

use openclaw_server::assembly::Server;
use openclaw_server::config::ServeConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Fault, places, with_changed_bit};

/// The longest time until a server ends a connection whose client has ended.
const DEADLINE: Duration = Duration::from_secs(20);

/// How long a client waits for the answer to a request that may be incomplete.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

/// Each request as method and path, and its body, which makes one task.
fn requests() -> [(&'static str, Value); 3] {
    let message = json!({"messageId": "ID", "role": "ROLE_USER", "parts": [{"text": "task it"}]});
    let params = json!({"message": message});
    [
        ("POST /", rpc("SendMessage", &params)),
        ("POST /", rpc("SendStreamingMessage", &params)),
        ("POST /rest/message:send", params),
    ]
}

fn rpc(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Returns a request with a message id of its own.
fn request(address: SocketAddr, line: &str, body: &Value) -> Vec<u8> {
    let id = uuid::Uuid::new_v4().to_string();
    let body = body.to_string().replace("\"ID\"", &format!("\"{id}\""));
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nA2A-Version: 1.0\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Reads to the end, and returns the answer.
async fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset ends it as well.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request with a fault at a byte. Returns the answer; a stalled connection goes to `open_streams`.
async fn send(
    address: SocketAddr,
    request: &[u8],
    at: usize,
    fault: Fault,
    open_streams: &mut Vec<TcpStream>,
) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    if fault == Fault::Corrupt {
        let changed = with_changed_bit(request, at);
        stream.write_all(&changed).await.unwrap();
        // The server may wait for more, or keep the connection.
        let _ = timeout(READ_TIMEOUT, stream.peek(&mut [0])).await;
    } else {
        stream.write_all(&request[..at]).await.unwrap();
    }
    match fault {
        Fault::Reset => {
            stream.set_zero_linger().unwrap();
            return String::new();
        }
        Fault::Stall => {
            open_streams.push(stream);
            return String::new();
        }
        // The server may have closed it.
        Fault::Cut | Fault::Corrupt => drop(stream.shutdown().await),
    }
    let answer = timeout(DEADLINE, read(&mut stream)).await;
    answer.unwrap_or_else(|_| panic!("no end after {fault:?} at byte {at}"))
}

/// Sends a whole request, and returns the answer.
async fn post(address: SocketAddr, line: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = request(address, line, body);
    stream.write_all(&request).await.unwrap();
    timeout(DEADLINE, read(&mut stream))
        .await
        .expect("an answer")
}

/// Returns how many tasks the server has, from a whole request.
async fn tasks(address: SocketAddr) -> u64 {
    let answer = post(
        address,
        "POST /",
        &rpc("ListTasks", &json!({"pageSize": 1})),
    )
    .await;
    let (_, number) = answer.split_once("\"totalSize\":").expect("a list");
    let (number, _) = number.split_once('}').expect("a list");
    number.parse().expect("a number")
}

/// Starts a server, and stops it after `test`.
fn with_server(test: impl AsyncFnOnce(SocketAddr)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "listen": "127.0.0.1:0", "executor": "scripted", "taskStore": "memory", "stateDir": folder.path(),
            "limits": {"requestsPerSecond": 1_000_000, "burst": 1_000_000},
        });
        let config = ServeConfig::parse(&config.to_string()).unwrap();
        let server = Server::bind(config).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let serving = tokio::spawn(server.run(stop.clone(), stop.clone()));
        test(address).await;
        stop.cancel();
        let _ = timeout(DEADLINE, serving).await.expect("the server stops");
    });
}

#[test]
fn broken_requests_at_each_byte_start_no_task() {
    with_server(async |address| {
        let (mut open_streams, mut whole, mut faults) = (Vec::new(), 0, 0);
        for (line, body) in requests() {
            let answer = post(address, line, &body).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            whole += 1;
            for at in places(&request(address, line, &body), crate::step("wire")) {
                for fault in [Fault::Cut, Fault::Reset, Fault::Stall] {
                    let broken = request(address, line, &body);
                    let answer = send(address, &broken, at, fault, &mut open_streams).await;
                    let refuses = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
                    assert!(refuses, "{fault:?} at byte {at}: {answer}");
                    faults += 1;
                }
                // The connections that the server has to hold at a time.
                if open_streams.len() > 100 {
                    open_streams.clear();
                }
            }
            assert_eq!(tasks(address).await, whole, "{line}");
        }
        drop(open_streams);
        assert_eq!(tasks(address).await, whole, "after stalled requests");
        println!("{faults} broken requests");
    });
}

#[test]
fn corrupted_requests_at_each_byte_are_answered() {
    with_server(async |address| {
        let mut sent = 0;
        for (line, body) in requests() {
            for at in places(&request(address, line, &body), crate::step("wire")) {
                let request = request(address, line, &body);
                let answer = send(address, &request, at, Fault::Corrupt, &mut Vec::new()).await;
                let is_answered = answer.starts_with("HTTP/1.") && !answer.contains(" 500 ");
                assert!(is_answered || answer.is_empty(), "byte {at}: {answer}");
                sent += 1;
            }
        }
        assert!(tasks(address).await <= sent, "a message made two tasks");
    });
}
