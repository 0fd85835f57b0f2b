//! The lifetime of sockets.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use testkit::conformance::Peers;
use testkit::http::Connection;

use crate::faults::tool_fixture::{
    ToolFixture, card, message, peers, reason, send_request, stream_request, task, within_timeout,
};

/// A scripted card for an interface that the test implements.
struct ScriptedInterface {
    _peers: Peers,
    listener: TcpListener,
    fixture: ToolFixture,
}

impl ScriptedInterface {
    async fn new() -> Self {
        let peers = peers(json!({"main": {"card": card()}})).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let fixture = ToolFixture::with_target(
            json!({"baseUrl": peers.origin("main"), "endpoint": endpoint}),
        );
        Self {
            _peers: peers,
            listener,
            fixture,
        }
    }

    /// Starts a call.
    fn start(&self, request: &Value) -> JoinHandle<Value> {
        tokio::spawn(
            self.fixture
                .start(request, &CancellationToken::new(), |_| ()),
        )
    }

    /// Accepts the next connection and reads the request on it.
    async fn accept_request(&self) -> TcpStream {
        let (socket, _) = within_timeout(self.listener.accept()).await.unwrap();
        let mut connection = Connection::new(socket);
        within_timeout(connection.next())
            .await
            .unwrap()
            .expect("a request");
        connection.stream
    }
}

/// Waits until the other side has closed the connection.
async fn wait_for_close(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset closes as well.
    let _ = within_timeout(socket.read_to_end(&mut rest)).await;
}

async fn write_text(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.unwrap();
}

fn http_response(result: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn sse_event(result: Value) -> String {
    let sse_event = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    format!("data: {sse_event}\n\n")
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn dropping_a_call_closes_its_connection_before_the_answer() {
    let interface = ScriptedInterface::new().await;
    let call = interface.start(&send_request());
    let mut socket = interface.accept_request().await;
    call.abort();
    wait_for_close(&mut socket).await;
}

#[tokio::test]
async fn dropping_a_call_closes_its_stream() {
    let interface = ScriptedInterface::new().await;
    let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
    let on_update = move |update| drop(sender.send(update));
    let call = tokio::spawn(interface.fixture.start(
        &stream_request(),
        &CancellationToken::new(),
        on_update,
    ));
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM_HEAD).await;
    write_text(&mut socket, &sse_event(task("working"))).await;
    within_timeout(updates.recv()).await.unwrap();
    call.abort();
    wait_for_close(&mut socket).await;
}

#[tokio::test]
async fn finished_task_closes_its_open_stream() {
    let interface = ScriptedInterface::new().await;
    let call = interface.start(&stream_request());
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM_HEAD).await;
    write_text(&mut socket, &sse_event(task("completed"))).await;
    wait_for_close(&mut socket).await;
    assert_eq!(within_timeout(call).await.unwrap()["ok"], true);
}

#[tokio::test]
async fn response_before_half_close_is_complete() {
    let interface = ScriptedInterface::new().await;
    let call = interface.start(&send_request());
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, &http_response(message("pong"))).await;
    socket.shutdown().await.unwrap();
    let envelope = within_timeout(call).await.unwrap();
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
    wait_for_close(&mut socket).await;
}

#[tokio::test]
async fn half_close_before_an_answer_is_a_cut() {
    for response in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
    ] {
        let interface = ScriptedInterface::new().await;
        let call = interface.start(&send_request());
        let mut socket = interface.accept_request().await;
        write_text(&mut socket, response).await;
        socket.shutdown().await.unwrap();
        let envelope = within_timeout(call).await.unwrap();
        assert_eq!(
            reason(&envelope),
            "connection_cut",
            "{response}: {envelope}"
        );
        assert_eq!(envelope["error"]["details"]["delivered"], "unknown");
    }
}

#[tokio::test]
async fn half_close_does_not_end_a_working_task() {
    let interface = ScriptedInterface::new().await;
    let call = interface.start(&stream_request());
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM_HEAD).await;
    write_text(&mut socket, &sse_event(task("working"))).await;
    socket.shutdown().await.unwrap();
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM_HEAD).await;
    write_text(&mut socket, &sse_event(task("completed"))).await;
    let envelope = within_timeout(call).await.unwrap();
    let task = &envelope["summary"]["continuation"]["task"];
    assert_eq!(task["status"], "completed", "{envelope}");
}
