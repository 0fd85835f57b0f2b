//! The bridge against an OpenClaw gateway that the test controls.
#![allow(clippy::unwrap_used, clippy::panic)]

mod connection;
mod handshake;
mod runs;
mod tasks;

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use crate::delegation::{self, DelegationFile};
use crate::dial::dial;
use crate::testing::{Connection, network};
use a2a::{Part, TaskState};
use base::environment::SystemEnvironment;
use base::log::Silent;
use collective::ErrorCode;
use peer::{Delivered, PeerError, PeerErrorKind};

use super::*;

/// The gateway's end of a connection.
struct Gateway(Connection);

impl Gateway {
    /// Returns the id and the parameters of the next request, which must be for `method`.
    async fn next_request(&mut self, method: &str) -> (String, Value) {
        let mut frame = self.0.recv().await;
        assert_eq!(
            (&frame["type"], &frame["method"]),
            (&json!("req"), &json!(method)),
            "{frame}"
        );
        (
            frame["id"].as_str().unwrap().to_owned(),
            frame["params"].take(),
        )
    }

    async fn answer(&mut self, id: &str, payload: Value) {
        self.0
            .send(json!({"type": "res", "id": id, "ok": true, "payload": payload}))
            .await;
    }

    /// Answers the next request, which must be for `method`, and returns its parameters.
    async fn respond(&mut self, method: &str, payload: Value) -> Value {
        let (id, params) = self.next_request(method).await;
        self.answer(&id, payload).await;
        params
    }

    async fn refuse(&mut self, id: &str, code: &str, message: &str) {
        self.0.send(json!({"type": "res", "id": id, "ok": false, "error": {"code": code, "message": message}})).await;
    }

    async fn agent(&mut self, run: &str, stream: &str, data: Value) {
        self.0.send(json!({"type": "event", "event": "agent", "payload": {"runId": run, "stream": stream, "data": data}})).await;
    }

    /// Accepts a run and returns the id of its request.
    async fn accept(&mut self) -> (String, Value) {
        let (id, params) = self.next_request("agent").await;
        self.answer(
            &id,
            json!({"status": "accepted", "runId": params["idempotencyKey"]}),
        )
        .await;
        (id, params)
    }
}

fn settings() -> Settings {
    let mut settings = Settings::new(Url::parse("ws://127.0.0.1:1").unwrap());
    settings.token = Some("a-token-of-the-gateway".to_owned().into());
    settings
}

fn hello() -> Value {
    json!({"type": "hello-ok", "protocol": 4, "auth": {"scopes": ["operator.read", "operator.write"]},
        "policy": {"tickIntervalMs": 30_000, "maxPayload": 1_000_000, "attachments": {"maxImageBytes": 1000}}})
}

/// Returns a connection on which the gateway has answered `connect` with `answer`.
async fn connect_with(
    answer: impl AsyncFnOnce(&mut Gateway, &str, Value),
) -> (Result<Arc<dyn GatewayLink>, PeerError>, Gateway) {
    reconnect_with(Arc::default(), answer).await
}

/// Returns such a connection, which knows the runs of earlier ones.
async fn reconnect_with(
    runs: Arc<Mutex<RunCache>>,
    answer: impl AsyncFnOnce(&mut Gateway, &str, Value),
) -> (Result<Arc<dyn GatewayLink>, PeerError>, Gateway) {
    let (net, mut arrivals) = network();
    let settings = Arc::new(settings());
    let calls = async {
        let dialled = dial(&net, &settings).await?;
        crate::openclaw::handshake(
            dialled,
            Arc::clone(&settings),
            Arc::new(SystemEnvironment),
            Arc::new(Silent),
            runs,
        )
        .await
    };
    let gateway = async {
        let mut gateway = Gateway(arrivals.next().await);
        gateway.0.send(json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}})).await;
        let (id, params) = gateway.next_request("connect").await;
        answer(&mut gateway, &id, params).await;
        gateway
    };
    tokio::join!(calls, gateway)
}

async fn connected() -> (Arc<dyn GatewayLink>, Gateway) {
    reconnected(Arc::default()).await
}

async fn reconnected(runs: Arc<Mutex<RunCache>>) -> (Arc<dyn GatewayLink>, Gateway) {
    let hello = async |gateway: &mut Gateway, id: &str, _| gateway.answer(id, hello()).await;
    let (link, gateway) = reconnect_with(runs, hello).await;
    (link.unwrap(), gateway)
}

fn call_context() -> CallContext {
    CallContext {
        agent: "alpha".into(),
        context_id: Some("ctx".into()),
        ..CallContext::default()
    }
}

fn text_message(text: &str) -> SendRequest {
    SendRequest {
        message_id: "run-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..SendRequest::default()
    }
}

fn error_number(error: &PeerError) -> u16 {
    match error.kind {
        PeerErrorKind::Gateway(code) => code.number(),
        other => panic!("{other:?}: {error}"),
    }
}

#[track_caller]
fn assert_error(error: &PeerError, number: u16, delivered: Delivered) {
    assert_eq!((error_number(error), error.delivered), (number, delivered));
}

fn task(reply: Result<Reply, PeerError>) -> Task {
    match reply.unwrap() {
        Reply::Task(task) => task,
        Reply::Message(message) => panic!("a message: {}", message.json()),
    }
}

/// Returns all events, each as its kind or state, until the end.
async fn collect_events(stream: &mut dyn EventStream) -> (Vec<Value>, Result<(), PeerError>) {
    let mut reported = Vec::new();
    loop {
        match stream.next().await {
            Some(Ok((event, _))) => reported.push(event.into_json()),
            Some(Err(error)) => return (reported, Err(error)),
            None => return (reported, Ok(())),
        }
    }
}
