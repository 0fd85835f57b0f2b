//! The peer: plays a recording, cuts it, and continues its task.
//!
//! It writes recorded bytes and JSON of real servers, and does not use the client's types.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use testkit::http::{Connection, Server};
use tokio::net::{TcpListener, TcpStream};

use crate::cuts::{
    cut::{Aftermath, Cut, CutPoint, EndKind},
    recording::{Answer, Binding, Recording, Version},
    request::{Request, RequestKind},
};

/// A server on loopback. A header of each request identifies its cut.
pub(crate) struct Peer {
    pub(crate) origin: String,
    state: Arc<PeerState>,
    _server: Server,
}

struct PeerState {
    recording: Arc<Recording>,
    origin: String,
    cases: Mutex<HashMap<usize, Case>>,
}

/// A cut and its state.
pub(crate) struct Case {
    cut: Cut,
    /// The number of the task's events so far.
    event_count: usize,
    /// The number of sent messages.
    pub(crate) sends: usize,
    subscriptions: usize,
    /// The number of events after which the peer repeats pieces for each subscriber.
    repeat_events: Option<usize>,
    /// A description of every request.
    pub(crate) requests: Vec<String>,
    /// An unexpected request.
    pub(crate) unexpected: Option<String>,
}

/// The bytes of a response, and the end of the connection.
struct ResponseWriter {
    bytes: Vec<u8>,
    end: Option<EndKind>,
}

impl Peer {
    pub(crate) async fn start(recording: Arc<Recording>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(PeerState {
            recording,
            origin: format!("http://{}", listener.local_addr().unwrap()),
            cases: Mutex::default(),
        });
        let shared_state = Arc::clone(&state);
        let server = Server::on(listener, move |socket, _| {
            Arc::clone(&shared_state).serve(socket)
        });
        Arc::new(Self {
            origin: state.origin.clone(),
            state,
            _server: server,
        })
    }

    /// Begins a case. Its requests have `number`.
    pub(crate) fn open(&self, number: usize, cut: Cut) {
        let case = Case {
            cut,
            event_count: 1,
            sends: 0,
            subscriptions: 0,
            repeat_events: None,
            requests: Vec::new(),
            unexpected: None,
        };
        self.state.lock().insert(number, case);
    }

    pub(crate) fn task_id(&self) -> &str {
        &self.state.recording.task_id
    }

    /// Ends a case and returns its state.
    pub(crate) fn close(&self, number: usize) -> Case {
        self.state.lock().remove(&number).unwrap()
    }
}

impl PeerState {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Case>> {
        self.cases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self: Arc<Self>, socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        let mut connection = Connection::new(socket);
        while let Some(request) = connection.next().await? {
            let out = self.answer(&Request::from(&request));
            connection.write(&out.bytes).await?;
            match out.end {
                None => {}
                Some(EndKind::Fin) => return Ok(()),
                Some(EndKind::Rst) => return connection.stream.set_zero_linger(),
                Some(EndKind::Stall) => connection.drain().await?,
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> ResponseWriter {
        if request.kind == RequestKind::Card {
            return full_response(&self.card());
        }
        let mut cases = self.lock();
        let case = request.cut.and_then(|number| cases.get_mut(&number));
        let Some(case) = case else {
            // A request after the end of its case, or one without the header.
            return text_response("410 Gone", &json!({"message": "unexpected"}));
        };
        case.requests.push(request.reported.clone());
        case.answer(request, &self.recording)
    }

    fn card(&self) -> Value {
        let rpc = self.recording.binding == Binding::JsonRpc;
        let transport = if rpc { "JSONRPC" } else { "HTTP+JSON" };
        let url = format!("{}/{}", self.origin, if rpc { "rpc" } else { "rest" });
        let mut card = json!({
            "name": "Desk", "description": "Writes reports.", "version": "1.0.0", "capabilities": {"streaming": true},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "report", "name": "Report", "description": "Writes a report.", "tags": ["text"]}],
        });
        match self.recording.version {
            Version::V0_3 => {
                card["protocolVersion"] = json!("0.3.0");
                card["url"] = json!(url);
                card["preferredTransport"] = json!(transport);
            }
            Version::V1_0 => {
                let interface =
                    json!({"url": url, "protocolBinding": transport, "protocolVersion": "1.0"});
                card["supportedInterfaces"] = json!([interface]);
            }
        }
        card
    }
}

impl Case {
    fn answer(&mut self, request: &Request, recording: &Recording) -> ResponseWriter {
        let all = recording.tasks.len();
        match request.kind {
            RequestKind::Send => {
                self.sends += 1;
                self.event_count = all;
                self.cut(&recording.reply)
            }
            RequestKind::Stream => {
                self.sends += 1;
                self.cut_stream(recording)
            }
            RequestKind::Task if self.cut.aftermath == Aftermath::Lost => unknown(recording),
            RequestKind::Task => {
                let task = full_response(&self.task(recording));
                // The client polls a stalled connection rarely, and many events happen in between.
                self.advance(
                    if self.cut.end_kind == EndKind::Stall {
                        all
                    } else {
                        2
                    },
                    all,
                );
                task
            }
            RequestKind::Subscription { post } if post == get_task_only(recording) => {
                text_response(
                    "405 Method Not Allowed",
                    &json!({"detail": "Method Not Allowed"}),
                )
            }
            RequestKind::Subscription { .. } => {
                self.subscriptions += 1;
                if self.cut.point == CutPoint::Watched && self.subscriptions == 1 {
                    return self.cut_stream(recording);
                }
                self.resubscribe(recording, all)
            }
            RequestKind::Card | RequestKind::Else => {
                self.unexpected = Some(request.reported.clone());
                unknown(recording)
            }
        }
    }

    fn cut_stream(&mut self, recording: &Recording) -> ResponseWriter {
        let answer = recording.answer(self.cut.point).unwrap();
        self.event_count = answer.started(self.cut.offset).max(1);
        self.cut(&answer.bytes)
    }

    /// Returns the task in its current state, in the body of an answer.
    fn task(&self, recording: &Recording) -> Value {
        match self.repeat_events {
            Some(since) => repeat_events(&recording.tasks[..self.event_count], since),
            None => recording.tasks[self.event_count - 1].clone(),
        }
    }

    fn advance(&mut self, events: usize, all: usize) {
        self.event_count = all.min(self.event_count + events);
    }

    fn cut(&self, bytes: &[u8]) -> ResponseWriter {
        ResponseWriter {
            bytes: bytes[..self.cut.offset].to_vec(),
            end: Some(self.cut.end_kind),
        }
    }

    fn resubscribe(&mut self, recording: &Recording, all: usize) -> ResponseWriter {
        match (self.cut.aftermath, self.subscriptions) {
            (Aftermath::Lost, _) => return unknown(recording),
            (Aftermath::Polled, _) => return refused(recording),
            (Aftermath::Finished, _) => self.event_count = all,
            (Aftermath::Bare | Aftermath::Doubled, _) => self.advance(self.cut.offset / 3 % 3, all),
            (Aftermath::Snapshot | Aftermath::SecondCut, _) => {}
        }
        if self.event_count == all {
            return delayed(recording);
        }
        // The client has subscribed before.
        let resubscriptions = self.subscriptions - usize::from(self.cut.point == CutPoint::Watched);
        let bare = match self.cut.aftermath {
            Aftermath::Bare | Aftermath::Doubled => true,
            Aftermath::SecondCut => resubscriptions == 2,
            _ => false,
        };
        if self.cut.aftermath == Aftermath::Doubled {
            self.repeat_events.get_or_insert(self.event_count);
        }
        let snapshot = (!bare).then(|| snapshot(recording, self.event_count));
        let later = recording.stream.events_from(self.event_count).to_vec();
        let response = stream(recording, snapshot.into_iter().chain(later));
        if self.cut.aftermath == Aftermath::SecondCut && resubscriptions == 1 {
            // At another position than the first cut.
            let at = self.cut.offset * 7919 % response.len();
            let started = Answer::read(response.clone()).started(at);
            self.advance(started.saturating_sub(1), all);
            return ResponseWriter {
                bytes: response[..at].to_vec(),
                end: Some(if self.cut.end_kind == EndKind::Fin {
                    EndKind::Rst
                } else {
                    EndKind::Fin
                }),
            };
        }
        self.event_count = all;
        ResponseWriter {
            bytes: response,
            end: None,
        }
    }
}

/// Returns whether the server accepts subscriptions only by `GET`, like the official Python server of 0.3 over HTTP+JSON.
fn get_task_only(recording: &Recording) -> bool {
    (recording.version, recording.binding) == (Version::V0_3, Binding::HttpJson)
}

/// Returns the snapshot event of the task after so many events.
fn snapshot(recording: &Recording, event_count: usize) -> Vec<u8> {
    let task = &recording.tasks[event_count - 1];
    let event = match (recording.binding, recording.version) {
        (Binding::JsonRpc, Version::V0_3) => task.clone(),
        (Binding::JsonRpc, Version::V1_0) => {
            json!({"jsonrpc": "2.0", "id": 1, "result": {"task": task["result"]}})
        }
        (Binding::HttpJson, _) => json!({"task": task}),
    };
    format!("data: {event}\n\n").into_bytes()
}

/// Returns the newest of `tasks`, with each piece after the first `since` of them repeated.
fn repeat_events(tasks: &[Value], since: usize) -> Value {
    let parts = |task: &Value, id: &Value| {
        let artifacts = artifacts_of(task).into_iter().flatten();
        let artifact = artifacts
            .into_iter()
            .find(|artifact| artifact["artifactId"] == *id);
        artifact.map_or(0, |artifact| artifact["parts"].as_array().unwrap().len())
    };
    let mut newest = tasks.last().unwrap().clone();
    let path = if newest.get("result").is_some() {
        "/result/artifacts"
    } else {
        "/artifacts"
    };
    let Some(Value::Array(artifacts)) = newest.pointer_mut(path) else {
        return newest;
    };
    for artifact in artifacts {
        let known = parts(&tasks[since - 1], &artifact["artifactId"]).max(1);
        let shown = artifact["parts"].as_array().unwrap();
        let (old, new) = shown.split_at(known.min(shown.len()));
        let twice = new.iter().flat_map(|part| [part.clone(), part.clone()]);
        artifact["parts"] = old.iter().cloned().chain(twice).collect();
    }
    newest
}

fn artifacts_of(task: &Value) -> Option<&Vec<Value>> {
    task.get("result").unwrap_or(task)["artifacts"].as_array()
}

/// Returns a complete response with these events.
fn stream(recording: &Recording, events: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = recording.stream.head().as_bytes().to_vec();
    for event in events {
        bytes.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
        bytes.extend_from_slice(&event);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Returns the answer of the recorded server to a subscription to a finished task.
fn delayed(recording: &Recording) -> ResponseWriter {
    match (recording.version, recording.binding) {
        // The official JavaScript server sends the task and ends.
        (Version::V0_3, Binding::JsonRpc) => ResponseWriter {
            bytes: stream(
                recording,
                [snapshot(recording, recording.tasks.len())].into_iter(),
            ),
            end: None,
        },
        // The official Python server breaks off after the head.
        (Version::V0_3, Binding::HttpJson) => ResponseWriter {
            bytes: recording.stream.head().as_bytes().to_vec(),
            end: Some(EndKind::Fin),
        },
        (Version::V1_0, _) => refused(recording),
    }
}

/// The error for a task without subscriptions.
fn refused(recording: &Recording) -> ResponseWriter {
    failure(
        recording,
        -32004,
        "400 Bad Request",
        "UNSUPPORTED_OPERATION",
        "cannot be subscribed to",
    )
}

/// The error for an unknown task.
fn unknown(recording: &Recording) -> ResponseWriter {
    failure(
        recording,
        -32001,
        "404 Not Found",
        "TASK_NOT_FOUND",
        "Task not found",
    )
}

fn failure(
    recording: &Recording,
    code: i32,
    status: &str,
    reason: &str,
    message: &str,
) -> ResponseWriter {
    let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}]);
    match (recording.binding, recording.version) {
        (Binding::JsonRpc, _) => {
            let error = json!({"code": code, "message": message, "data": info});
            full_response(&json!({"jsonrpc": "2.0", "id": 1, "error": error}))
        }
        (Binding::HttpJson, Version::V0_3) => text_response(status, &json!({"message": message})),
        (Binding::HttpJson, Version::V1_0) => {
            let number: u16 = status[..3].parse().unwrap();
            text_response(
                status,
                &json!({"error": {"code": number, "message": message, "details": info}}),
            )
        }
    }
}

fn full_response(body: &Value) -> ResponseWriter {
    text_response("200 OK", body)
}

fn text_response(status: &str, body: &Value) -> ResponseWriter {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    ResponseWriter {
        bytes: (head + &body).into_bytes(),
        end: None,
    }
}
