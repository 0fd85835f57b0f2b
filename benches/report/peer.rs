//! A fast A2A server in its own process, in both protocol versions. It sends literal text, so that it needs far less CPU
//! time than a client.
//!
//! It responds to a message `append N`, `status N`, `replace N` or `artifacts N` with a stream of N events, and to any other
//! with a message.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::ListenerExt as _,
};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{net::TcpListener, sync::watch};

use crate::process::Process;

pub(crate) const ROLE: &str = "--peer";

/// Returns the aliases of the targets in a group.
pub(crate) fn group() -> Vec<String> {
    (0..10).map(|place| format!("member-{place}")).collect()
}

/// The running peer.
pub(crate) struct Peer {
    process: Process,
    origins: Value,
}

impl Peer {
    pub(crate) fn start() -> Self {
        let process = Process::start_role(&[ROLE]);
        let origins = serde_json::from_str(&process.ready).unwrap();
        Self { process, origins }
    }

    /// Returns the origin of the server for this version.
    pub(crate) fn origin(&self, version: &str) -> &str {
        self.origins[version].as_str().unwrap()
    }

    /// Returns a configuration of the tool with the targets `0.3` and `1.0`, and those of a group.
    pub(crate) fn config(&self) -> String {
        let target = |version: &str| json!({"alias": version, "baseUrl": self.origin(version)});
        let member = |alias| json!({"alias": alias, "baseUrl": self.origin("1.0")});
        let mut targets = vec![target("1.0"), target("0.3")];
        targets.extend(group().into_iter().map(member));
        // The limits allow all concurrent calls: the report measures the path of a call, not the wait for a permit.
        let limits = json!({
            "concurrency": 10_000, "concurrencyPerTarget": 10_000, "responseBytes": 1 << 30,
        });
        let policy = json!({"allowPrivateTargetUrls": true});
        json!({"targets": targets, "policy": policy, "limits": limits}).to_string()
    }

    /// Waits until `count` watches are open.
    pub(crate) fn wait_for_watches(&mut self, count: usize) {
        self.process.call(&json!({"watches": count}));
    }

    /// Completes the tasks of all watches.
    pub(crate) fn complete_watches(&mut self) {
        self.process.call(&json!("complete"));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Version {
    V03,
    V10,
}

/// The shared state of the servers of both versions.
#[derive(Clone)]
struct Shared {
    version: Version,
    origin: Arc<str>,
    watches: Arc<AtomicUsize>,
    open_sender: watch::Sender<usize>,
    completed_sender: watch::Sender<u64>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    params: Value,
}

/// Serves until standard input ends.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (open_sender, mut open_count) = watch::channel(0);
    let (completed_sender, _) = watch::channel(0);
    let origins = runtime.block_on(async {
        let watches = Arc::new(AtomicUsize::new(0));
        let mut origins = json!({});
        for (name, version) in [("0.3", Version::V03), ("1.0", Version::V10)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let origin = format!("http://{}", listener.local_addr().unwrap());
            // As Node.js and our servers do. Without it, streams wait for delayed acknowledgements, 40 ms each.
            let listener = listener.tap_io(|socket| socket.set_nodelay(true).unwrap());
            let shared = Shared {
                version,
                origin: origin.as_str().into(),
                watches: watches.clone(),
                open_sender: open_sender.clone(),
                completed_sender: completed_sender.clone(),
            };
            origins[name] = origin.into();
            let app = Router::new()
                .route("/.well-known/{card}", get(card))
                .route("/rpc", post(handle_request))
                .with_state(shared);
            tokio::spawn(axum::serve(listener, app).into_future());
        }
        origins
    });
    println!("{origins}");
    let (commands, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            commands.send(line).unwrap();
        }
    });
    runtime.block_on(async {
        while let Some(line) = lines.recv().await {
            let command: Value = serde_json::from_str(&line).unwrap();
            if let Some(count) = command["watches"].as_u64() {
                open_count
                    .wait_for(|open| *open as u64 >= count)
                    .await
                    .unwrap();
            } else {
                completed_sender.send_modify(|times| *times += 1);
            }
            println!("{{}}");
        }
    });
}

async fn card(State(shared): State<Shared>, Path(_): Path<String>) -> Response {
    let url = format!("{}/rpc", shared.origin);
    let mut card = json!({
        "name": "Peer", "description": "Answers.", "version": "1.0.0",
        "capabilities": {"streaming": true}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    });
    match shared.version {
        Version::V03 => {
            card["protocolVersion"] = "0.3.0".into();
            card["url"] = url.into();
            card["preferredTransport"] = "JSONRPC".into();
        }
        Version::V10 => {
            let interface =
                json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
            card["supportedInterfaces"] = json!([interface]);
        }
    }
    ([(CONTENT_TYPE, "application/json")], card.to_string()).into_response()
}

async fn handle_request(State(shared): State<Shared>, body: Bytes) -> Response {
    let request: Request<'_> = serde_json::from_slice(&body).unwrap();
    let id = request.id.get();
    let v03 = shared.version == Version::V03;
    let result = match request.method {
        "tasks/get" | "GetTask" => task(v03, "completed", &request.params["id"]),
        "message/send" | "SendMessage" if v03 => {
            r#"{"kind":"message","messageId":"m-1","role":"agent","parts":[{"kind":"text","text":"pong"}]}"#.to_owned()
        }
        "message/send" | "SendMessage" => {
            r#"{"message":{"messageId":"m-1","role":"ROLE_AGENT","parts":[{"text":"pong"}]}}"#
                .to_owned()
        }
        "message/stream" | "SendStreamingMessage" => {
            let text = request.params["message"]["parts"][0]["text"].as_str();
            let (kind, count) = text.unwrap().split_once(' ').unwrap();
            return event_stream(v03, id.to_owned(), kind.to_owned(), count.parse().unwrap());
        }
        "tasks/resubscribe" | "SubscribeToTask" => return watch_stream(&shared, id, &request.params),
        other => panic!("unknown method `{other}`"),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Returns a task in the format of `GetTask`.
fn task(v03: bool, state: &str, id: &Value) -> String {
    let part = match v03 {
        true => r#"{"kind":"text","text":"pong"}"#,
        false => r#"{"text":"pong"}"#,
    };
    let kind = if v03 { r#""kind":"task","# } else { "" };
    let state = wire_state(v03, state);
    format!(
        r#"{{{kind}"id":{id},"contextId":"c-1","status":{{"state":"{state}"}},"artifacts":[{{"artifactId":"a-1","parts":[{part}]}}]}}"#
    )
}

fn wire_state(v03: bool, state: &str) -> String {
    match v03 {
        true => state.to_owned(),
        false => format!("TASK_STATE_{}", state.to_uppercase()),
    }
}

/// Returns one event of a stream as a server-sent event.
fn event(v03: bool, id: &str, kind: &str, number: usize, count: usize) -> String {
    let ids = r#""taskId":"t-1","contextId":"c-1""#;
    let text = |text: String| match v03 {
        true => format!(r#"{{"kind":"text","text":"{text}"}}"#),
        false => format!(r#"{{"text":"{text}"}}"#),
    };
    let (name, body) = match (number, kind) {
        (0, _) => {
            let state = wire_state(v03, "working");
            let body = format!(r#""id":"t-1","contextId":"c-1","status":{{"state":"{state}"}}"#);
            (["task", "task"], body)
        }
        (last, _) if last + 1 == count => {
            let (state, end) = (
                wire_state(v03, "completed"),
                if v03 { r#","final":true"# } else { "" },
            );
            let body = format!(r#"{ids},"status":{{"state":"{state}"}}{end}"#);
            (["status-update", "statusUpdate"], body)
        }
        (_, "status") => {
            let (state, part) = (wire_state(v03, "working"), text(format!("step {number}")));
            let role = if v03 {
                r#""kind":"message","role":"agent""#
            } else {
                r#""role":"ROLE_AGENT""#
            };
            let end = if v03 { r#","final":false"# } else { "" };
            let body = format!(
                r#"{ids},"status":{{"state":"{state}","message":{{{role},"messageId":"m-{number}","parts":[{part}]}}}}{end}"#
            );
            (["status-update", "statusUpdate"], body)
        }
        (_, kind) => {
            let part = text(format!("line {number}\\n"));
            let append = kind == "append" && number > 1;
            let artifact = if kind == "artifacts" { number } else { 1 };
            let body = format!(
                r#"{ids},"artifact":{{"artifactId":"a-{artifact}","parts":[{part}]}},"append":{append}"#
            );
            (["artifact-update", "artifactUpdate"], body)
        }
    };
    let result = match v03 {
        true => format!(r#"{{"kind":"{}",{body}}}"#, name[0]),
        false => format!(r#"{{"{}":{{{body}}}}}"#, name[1]),
    };
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n")
}

fn event_stream(v03: bool, id: String, kind: String, count: usize) -> Response {
    // A fast server sends many events in one write.
    const EVENTS_PER_WRITE: usize = 64;
    let chunks = stream::iter((0..count).step_by(EVENTS_PER_WRITE)).map(move |first| {
        let events = first..count.min(first + EVENTS_PER_WRITE);
        let text: String = events
            .map(|number| event(v03, &id, &kind, number, count))
            .collect();
        Ok::<_, std::convert::Infallible>(Bytes::from(text))
    });
    sse_response(Body::from_stream(chunks))
}

fn sse_response(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Returns a stream with a working task. It ends when the report completes the tasks.
fn watch_stream(shared: &Shared, id: &str, params: &Value) -> Response {
    let v03 = shared.version == Version::V03;
    let (id, task_id) = (id.to_owned(), params["id"].clone());
    let event = move |state: &str| {
        let task = task(v03, state, &task_id);
        let result = if v03 {
            task
        } else {
            format!(r#"{{"task":{task}}}"#)
        };
        Bytes::from(format!(
            "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n"
        ))
    };
    let mut completed_sender = shared.completed_sender.subscribe();
    let open = shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
    shared.open_sender.send_replace(open);
    let (first, watches) = (event("working"), shared.watches.clone());
    let last = async move {
        completed_sender.changed().await.unwrap();
        watches.fetch_sub(1, Ordering::Relaxed);
        event("completed")
    };
    let events = stream::once(async { first }).chain(stream::once(last));
    sse_response(Body::from_stream(
        events.map(Ok::<_, std::convert::Infallible>),
    ))
}
