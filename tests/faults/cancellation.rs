//! Calls that end early, by cancellation or timeout.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use openclaw_remote_agent::plugin::CallInput;
use serde_json::{Value, json};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::faults::tool_fixture::{
    NEVER_MS, ToolFixture, WAIT_TIMEOUT, card, message, parse, peers, reason, result, send_request,
    stream_request, task, within_timeout,
};

#[tokio::test]
async fn silent_peer_times_out_with_one_envelope() {
    let peers = peers(json!({"main": {"accept_only": true}})).await;
    let fixture = ToolFixture::with_peers(&peers);
    let mut request = send_request();
    request["timeout_ms"] = json!(300);
    let envelopes = Arc::new(AtomicUsize::new(0));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let input = CallInput {
        request: request.to_string(),
        ..CallInput::default()
    };
    let started = Instant::now();
    let count = Arc::clone(&envelopes);
    fixture.plugin.start_with(input, move |envelope| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = sender.send((envelope, Instant::now()));
    });
    let (envelope, received_at) = within_timeout(receiver.recv()).await.unwrap();
    assert_eq!(reason(&parse(&envelope)), "timeout");
    let elapsed = received_at.duration_since(started);
    assert!(elapsed >= Duration::from_millis(300), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    fixture.plugin.close();
    // The channel ends with the callback, so no further update can arrive.
    assert!(within_timeout(receiver.recv()).await.is_none());
    assert_eq!(envelopes.load(Ordering::SeqCst), 1);
}

/// A port with a full accept queue, which neither accepts nor refuses another connection.
struct FullListener {
    port: u16,
    _listener: tokio::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

impl FullListener {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(300), TcpStream::connect(address)).await
        {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 100, "the queue never fills");
        }
        Self {
            port: address.port(),
            _listener: listener,
            _waiting: waiting,
        }
    }

    /// Waits until this process tries to connect.
    async fn wait_for_connect(&self) {
        const SYN_SENT: &str = "02";
        let remote = format!("0100007F:{:04X}", self.port);
        loop {
            let sockets = fs::read_to_string("/proc/self/net/tcp").unwrap();
            let is_connecting = sockets.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(2);
                fields.next() == Some(&remote) && fields.next() == Some(SYN_SENT)
            });
            if is_connecting {
                return;
            }
            // The system reports a pending connection only here.
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn target(&self) -> Value {
        json!({"baseUrl": format!("http://127.0.0.1:{}", self.port)})
    }
}

#[tokio::test]
async fn abort_ends_connecting_call() {
    let listener = FullListener::new().await;
    let fixture = ToolFixture::with_target(listener.target());
    let cancel = CancellationToken::new();
    let call = tokio::spawn(fixture.start(&send_request(), &cancel, |_| ()));
    within_timeout(listener.wait_for_connect()).await;
    cancel.cancel();
    let envelope = within_timeout(call).await.unwrap();
    assert_eq!(reason(&envelope), "aborted", "{envelope}");
}

#[tokio::test]
async fn timeout_applies_while_connecting() {
    let listener = FullListener::new().await;
    let fixture = ToolFixture::with_target(listener.target());
    let mut request = send_request();
    request["timeout_ms"] = json!(200);
    let started = Instant::now();
    let envelope = fixture.call(&request).await;
    assert_eq!(reason(&envelope), "timeout", "{envelope}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn message_without_an_open_connection_is_not_delivered() {
    let full = FullListener::new().await;
    // Its connections are open, and nothing reads them.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    let peers = peers(json!({"main": {"card": card()}})).await;
    for endpoint in [
        format!("http://127.0.0.1:{}/", full.port),
        format!("https://{silent}/"),
    ] {
        let target = json!({"baseUrl": peers.origin("main"), "endpoint": endpoint});
        let fixture = ToolFixture::with_target(target);
        for mut request in [send_request(), stream_request()] {
            request["timeout_ms"] = json!(1000);
            let envelope = fixture.call(&request).await;
            assert_eq!(reason(&envelope), "timeout", "{envelope}");
            let delivered = &envelope["error"]["details"]["delivered"];
            assert_eq!(delivered, "no", "{endpoint}: {envelope}");
        }
    }
}

#[tokio::test]
async fn abort_ends_card_fetch() {
    let never = json!({"delay_ms": NEVER_MS, "json": {}});
    let peers =
        peers(json!({"main": {"routes": {"GET /.well-known/agent-card.json": never}}})).await;
    let fixture = ToolFixture::with_peers(&peers);
    for request in [
        send_request(),
        stream_request(),
        json!({"action": "list_targets"}),
    ] {
        let cancel = CancellationToken::new();
        let request_count = peers.log("main").len();
        let call = tokio::spawn(fixture.start(&request, &cancel, |_| ()));
        within_timeout(peers.wait_for("main", request_count + 1)).await;
        cancel.cancel();
        let envelope = within_timeout(call).await.unwrap();
        assert_eq!(reason(&envelope), "aborted", "{envelope}");
    }
}

#[tokio::test]
async fn abort_keeps_streamed_output() {
    let events = json!({"sse": [result(task("working"))], "end": "hang"});
    let peers = peers(json!({"main": {"card": card(), "rpc": {"message/stream": events}}})).await;
    let fixture = ToolFixture::with_peers(&peers);
    let cancel = CancellationToken::new();
    let (sender, mut updates) = mpsc::unbounded_channel();
    let receiver = move |update| drop(sender.send(update));
    let call = tokio::spawn(fixture.start(&stream_request(), &cancel, receiver));
    within_timeout(updates.recv()).await.unwrap();
    cancel.cancel();
    let envelope = within_timeout(call).await.unwrap();
    assert_eq!(reason(&envelope), "aborted", "{envelope}");
    let details = &envelope["error"]["details"];
    assert_eq!(details["partial_event_count"], 1, "{envelope}");
    let task = &details["latest_event_summary"]["continuation"]["task"];
    assert_eq!(task["task_id"], "t-1", "{envelope}");
}

#[tokio::test]
async fn aborted_call_opens_no_connection() {
    let peers =
        peers(json!({"main": {"card": card(), "rpc": {"message/send": result(message("pong"))}}}))
            .await;
    let fixture = ToolFixture::with_peers(&peers);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let envelope = timeout(
        WAIT_TIMEOUT,
        fixture.start(&send_request(), &cancel, |_| ()),
    )
    .await;
    assert_eq!(reason(&envelope.unwrap()), "aborted");
    assert_eq!(peers.connections("main"), 0);
}
