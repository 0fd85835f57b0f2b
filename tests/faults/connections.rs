//! The lifetime of sockets.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use testkit::conformance::Peers;
use testkit::http::Connection;

use crate::faults::rig::{Rig, card, message, peers, reason, send, soon, stream, task};

/// A scripted card for an interface that the test implements.
struct Interface {
    _peers: Peers,
    listener: TcpListener,
    rig: Rig,
}

impl Interface {
    async fn new() -> Self {
        let peers = peers(json!({"main": {"card": card()}})).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let rig = Rig::with_target(json!({"baseUrl": peers.origin("main"), "endpoint": endpoint}));
        Self {
            _peers: peers,
            listener,
            rig,
        }
    }

    /// Accepts the next connection and reads the request on it.
    async fn accept_request(&self) -> TcpStream {
        let (socket, _) = soon(self.listener.accept()).await.unwrap();
        let mut connection = Connection::new(socket);
        soon(connection.next()).await.unwrap().expect("a request");
        connection.stream
    }
}

/// Waits until the other side has closed the connection.
async fn closed(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset closes as well.
    let _ = soon(socket.read_to_end(&mut rest)).await;
}

async fn write_text(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.unwrap();
}

fn answer(result: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn event(result: Value) -> String {
    let event = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    format!("data: {event}\n\n")
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn dropping_a_call_closes_its_connection_before_the_answer() {
    let interface = Interface::new().await;
    let call = interface
        .rig
        .begin(&send(), &CancellationToken::new(), |_| ());
    let call = tokio::spawn(call);
    let mut socket = interface.accept_request().await;
    call.abort();
    closed(&mut socket).await;
}

#[tokio::test]
async fn dropping_a_call_closes_its_stream() {
    let interface = Interface::new().await;
    let (tell, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let take = move |update| drop(tell.send(update));
    let call = tokio::spawn(
        interface
            .rig
            .begin(&stream(), &CancellationToken::new(), take),
    );
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM).await;
    write_text(&mut socket, &event(task("working"))).await;
    soon(reported.recv()).await.unwrap();
    call.abort();
    closed(&mut socket).await;
}

#[tokio::test]
async fn finished_task_closes_its_open_stream() {
    let interface = Interface::new().await;
    let call = tokio::spawn(
        interface
            .rig
            .begin(&stream(), &CancellationToken::new(), |_| ()),
    );
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM).await;
    write_text(&mut socket, &event(task("completed"))).await;
    closed(&mut socket).await;
    assert_eq!(soon(call).await.unwrap()["ok"], true);
}

#[tokio::test]
async fn response_before_half_close_is_complete() {
    let interface = Interface::new().await;
    let call = tokio::spawn(
        interface
            .rig
            .begin(&send(), &CancellationToken::new(), |_| ()),
    );
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, &answer(message("pong"))).await;
    socket.shutdown().await.unwrap();
    let envelope = soon(call).await.unwrap();
    assert_eq!(envelope["summary"]["message_text"], "pong", "{envelope}");
    closed(&mut socket).await;
}

#[tokio::test]
async fn half_close_before_an_answer_is_a_cut() {
    for said in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
    ] {
        let interface = Interface::new().await;
        let call = tokio::spawn(
            interface
                .rig
                .begin(&send(), &CancellationToken::new(), |_| ()),
        );
        let mut socket = interface.accept_request().await;
        write_text(&mut socket, said).await;
        socket.shutdown().await.unwrap();
        let envelope = soon(call).await.unwrap();
        assert_eq!(reason(&envelope), "connection_cut", "{said}: {envelope}");
        assert_eq!(envelope["error"]["details"]["delivered"], "unknown");
    }
}

#[tokio::test]
async fn half_close_does_not_end_a_working_task() {
    let interface = Interface::new().await;
    let call = tokio::spawn(
        interface
            .rig
            .begin(&stream(), &CancellationToken::new(), |_| ()),
    );
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM).await;
    write_text(&mut socket, &event(task("working"))).await;
    socket.shutdown().await.unwrap();
    let mut socket = interface.accept_request().await;
    write_text(&mut socket, STREAM).await;
    write_text(&mut socket, &event(task("completed"))).await;
    let envelope = soon(call).await.unwrap();
    let task = &envelope["summary"]["continuation"]["task"];
    assert_eq!(task["status"], "completed", "{envelope}");
}
