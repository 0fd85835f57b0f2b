//! A simulated OpenClaw gateway with the part of protocol 4 that calls of an agent use. Its frames come from a recording.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egress::{HttpClient, NetError, Request, Upgrade};
use gateway_bridge::testing::{Connection, network};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::fault::Fault;

/// The token of the gateway.
pub(super) const GATEWAY_TOKEN: &str = "s3cret-gateway";

/// The agents of both gateways. They are also the members of the triad.
pub(super) const AGENTS: [&str; 3] = ["alpha", "beta", "charlie"];

/// The number of runs of each message, by its id or text.
pub(super) type Runs = Arc<Mutex<BTreeMap<String, u64>>>;

/// The port of the gateway.
pub(super) const OPENCLAW_PORT: u16 = 2;

/// The interval between the events of a run.
const STEP: Duration = Duration::from_millis(20);

/// The prefix of an agent's answer; the credential that the gateway received follows.
pub(super) const ANSWER: &str = "You said: ";

/// The vote of each member of the triad.
const VOTE: &str = r#"{"vote": "approve", "reasoning": "it fits", "confidence": 0.9}"#;

/// The length of a call's id.
const CALL_ID_BYTES: usize = 21;

/// The gateway and its runs, which outlive connections.
#[derive(Default)]
pub(super) struct OpenClaw {
    runs: Mutex<BTreeMap<String, watch::Receiver<Option<String>>>>,
    operators: Mutex<Vec<mpsc::UnboundedSender<Value>>>,
}

impl OpenClaw {
    /// Connects a client. `fault` may duplicate or reorder frames of the gateway. `run_counts` counts the runs.
    ///
    /// # Errors
    /// Never: the network may fail, but the gateway does not.
    pub(super) async fn upgrade(
        self: &Arc<Self>,
        request: Request,
        fault: Fault,
        run_counts: &Runs,
    ) -> Result<Upgrade, NetError> {
        let (net, mut arrivals) = network();
        let upgraded = net.upgrade(request).await;
        let (gateway, run_counts) = (Arc::clone(self), Arc::clone(run_counts));
        tokio::spawn(async move {
            gateway
                .serve(arrivals.next().await, fault, &run_counts)
                .await
        });
        upgraded
    }

    /// Forgets all runs. Otherwise the answer to `tasks.list` grows with each call.
    pub(super) fn forget_runs(&self) {
        self.runs.lock().unwrap().clear();
    }

    async fn serve(self: Arc<Self>, mut connection: Connection, fault: Fault, run_counts: &Runs) {
        let (sender, mut frames) = mpsc::unbounded_channel();
        let challenge = json!({"nonce": "n", "ts": 1_800_000_000_000_u64});
        let _ = sender.send(event("connect.challenge", challenge));
        let (mut delayed, mut number, mut greeted) = (None, 0, false);
        loop {
            tokio::select! {
                biased;
                text = connection.recv_text() => {
                    let Some(text) = text else { return };
                    let request = serde_json::from_str(&text).unwrap_or_default();
                    let accepts = request_is(&request, "connect")
                        && request["params"]["auth"]["token"] == GATEWAY_TOKEN;
                    if !greeted && !accepts {
                        let _ = connection.close(1008, "unauthorized").await;
                        return;
                    }
                    if !greeted {
                        self.operators.lock().unwrap().push(sender.clone());
                        greeted = true;
                    }
                    self.handle(&request, &sender, run_counts);
                }
                Some(frame) = frames.recv() => {
                    let turn = number;
                    number += 1;
                    if fault == Fault::ReorderEvents(turn) {
                        delayed = Some(frame);
                        continue;
                    }
                    let twin = (fault == Fault::DuplicateEvent(turn)).then(|| frame.clone());
                    for frame in [Some(frame), twin, delayed.take()].into_iter().flatten() {
                        if connection.try_send(&frame).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn handle(
        self: &Arc<Self>,
        request: &Value,
        sender: &mpsc::UnboundedSender<Value>,
        run_counts: &Runs,
    ) {
        let (id, params) = (request["id"].clone(), &request["params"]);
        let answer = |payload: Value| {
            let _ = sender.send(response(&id, payload));
        };
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        match request["method"].as_str().unwrap_or_default() {
            "connect" => answer(json!({
                "type": "hello-ok", "protocol": 4,
                "server": {"version": "2026.9.6", "connId": "c-1"},
                "auth": {"method": "token", "role": "operator", "scopes": ["operator.read", "operator.write"]},
                "policy": {"maxPayload": 26_214_400, "tickIntervalMs": 30_000},
                "snapshot": {},
            })),
            "agents.list" => {
                let agents = AGENTS.map(|name| json!({"id": name, "workspace": "/workspace"}));
                answer(json!({"defaultId": AGENTS[0], "scope": "per-sender", "agents": agents}));
            }
            // The gateway requires both members. A corrupted bit may have renamed one.
            "agent" if params["idempotencyKey"].is_string() && params["message"].is_string() => {
                let run = text("idempotencyKey");
                answer(
                    json!({"runId": run, "status": "accepted", "acceptedAt": 1_800_000_000_000_u64}),
                );
                if self.runs.lock().unwrap().contains_key(&run) {
                    return;
                }
                // The text contains the id of the call, except in the second request for a vote.
                let prompt = text("message");
                let at = prompt.find("call-");
                let call_id = at.and_then(|at| prompt.get(at..at + CALL_ID_BYTES));
                let key = format!("{} {}", text("agentId"), call_id.unwrap_or(&run));
                *run_counts.lock().unwrap().entry(key).or_default() += 1;
                let (ended, end) = watch::channel(None);
                self.runs.lock().unwrap().insert(run.clone(), end);
                let reply = match prompt.contains("\"vote\"") {
                    true => VOTE.to_owned(),
                    false => format!("{ANSWER}{prompt} {GATEWAY_TOKEN}"),
                };
                let (gateway, sender) = (Arc::clone(self), sender.clone());
                tokio::spawn(async move {
                    gateway.run(&run, &reply).await;
                    let _ = ended.send(Some(reply.clone()));
                    let result = json!({"payloads": [{"text": reply, "mediaUrl": null}], "meta": {"durationMs": 60}});
                    let payload = json!({"runId": run, "status": "ok", "summary": "completed", "result": result});
                    let _ = sender.send(response(&id, payload));
                });
            }
            "agent.wait" => {
                let run = text("runId");
                let end = self.runs.lock().unwrap().get(&run).cloned();
                let patience = Duration::from_millis(params["timeoutMs"].as_u64().unwrap_or(0));
                let (id, sender) = (id.clone(), sender.clone());
                tokio::spawn(async move {
                    let reply = match end {
                        Some(mut end) => {
                            let ended = timeout(patience, end.wait_for(Option::is_some)).await;
                            ended.ok().and_then(|ended| ended.ok()?.clone())
                        }
                        None => None,
                    };
                    let payload = match reply {
                        Some(reply) => {
                            json!({"runId": run, "status": "ok", "endedAt": 7, "terminalReply": {"text": reply}})
                        }
                        None => json!({"runId": run, "status": "timeout"}),
                    };
                    let _ = sender.send(response(&id, payload));
                });
            }
            "tasks.list" => {
                let runs = self.runs.lock().unwrap();
                let tasks = runs.iter().map(|(run, end)| {
                    let status = if end.borrow().is_some() { "completed" } else { "running" };
                    json!({"id": format!("task-{run}"), "runId": run, "sessionKey": "agent:alpha:main", "status": status})
                });
                answer(json!({"tasks": tasks.collect::<Vec<_>>()}));
            }
            method => {
                let error = json!({"code": "INVALID_REQUEST", "message": format!("unknown method or parameters: {method}")});
                let _ = sender.send(json!({"type": "res", "id": id, "ok": false, "error": error}));
            }
        }
    }

    /// Sends the events of a run to all clients.
    async fn run(&self, run: &str, reply: &str) {
        let delta = |text: &str, delta: &str| json!({"text": text, "delta": delta});
        let events = [
            ("lifecycle", json!({"phase": "start", "startedAt": 1})),
            ("assistant", delta(&reply[..5], &reply[..5])),
            ("assistant", delta(reply, &reply[5..])),
            ("lifecycle", json!({"phase": "end", "endedAt": 2})),
        ];
        for (seq, (stream, data)) in events.into_iter().enumerate() {
            sleep(STEP).await;
            let payload = json!({"runId": run, "seq": seq, "stream": stream, "data": data});
            let frame = event("agent", payload);
            let mut operators = self.operators.lock().unwrap();
            operators.retain(|operator| operator.send(frame.clone()).is_ok());
        }
    }
}

fn request_is(request: &Value, method: &str) -> bool {
    request["type"] == "req" && request["method"] == method
}

fn event(name: &str, payload: Value) -> Value {
    json!({"type": "event", "event": name, "payload": payload})
}

fn response(id: &Value, payload: Value) -> Value {
    json!({"type": "res", "id": id, "ok": true, "payload": payload})
}
