//! A peer and the tool that calls it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base::log::{Level, Log};
use openclaw_remote_agent::plugin;
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cuts::{
    cut::{Aftermath, Cut, CutPoint, EndKind},
    peer::{Case, Peer},
    recording::Recording,
    request::CUT,
};

/// The pauses, in place of seconds. On a busy machine an answer may take as long as `silence`, but only a stalled peer
/// should exceed it.
fn poll_intervals(stall_timeout: Duration) -> PollIntervals {
    PollIntervals {
        first_poll: Duration::from_millis(1),
        longest_poll: Duration::from_millis(8),
        idle: stall_timeout,
        final_wait: Duration::from_millis(5),
    }
}

/// The silence of a stalled peer after which the tool polls it.
const STALL_TIMEOUT: Duration = Duration::from_millis(250);

/// The timeout of a call, far longer than it takes on a busy machine.
const LONG_TIMEOUT_MS: u64 = 60_000;

/// The timeout of a call to a peer that stays silent.
const SHORT_TIMEOUT_MS: u64 = 2_000;

/// The time after its deadline at which a call counts as hanging.
const HANG_TIMEOUT: Duration = Duration::from_millis(LONG_TIMEOUT_MS + 10_000);

/// The outcome of a cut.
pub(crate) struct Outcome {
    /// The envelope, if there is one.
    pub(crate) envelope: Option<Value>,
    /// The updates.
    pub(crate) updates: Vec<Value>,
    /// The requests that the peer received.
    pub(crate) case: Case,
}

impl Outcome {
    /// Formats the outcome.
    pub(crate) fn describe(&self) -> String {
        let envelope = self.envelope.as_ref().map(Value::to_string);
        let events = self.updates.iter().map(|update| update["raw"].to_string());
        let lines = self
            .case
            .requests
            .iter()
            .cloned()
            .chain(events)
            .chain(envelope);
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A peer and the tool that calls it.
pub(crate) struct Fixture {
    peer: Arc<Peer>,
    agent: RemoteAgent,
}

struct SilentLog;

impl Log for SilentLog {
    fn log(&self, _: Level, _: &str) {}
}

impl Fixture {
    pub(crate) async fn new(recording: &Arc<Recording>, stalls: bool) -> Self {
        let peer = Peer::start(Arc::clone(recording)).await;
        let config = json!({
            "targets": [{"alias": "desk", "baseUrl": peer.origin, "default": true}],
            "limits": {"concurrency": 10_000, "concurrencyPerTarget": 10_000},
            // Every call is to reach the agent.
            "breaker": {"enabled": false},
        });
        let poll_intervals = poll_intervals(if stalls { STALL_TIMEOUT } else { HANG_TIMEOUT });
        let agent = plugin::assemble(&config.to_string(), poll_intervals, Arc::new(SilentLog));
        Self {
            peer,
            agent: agent.unwrap(),
        }
    }

    /// Makes one cut and returns its outcome.
    pub(crate) async fn run_cut(&self, number: usize, cut: Cut, arrived: usize) -> Outcome {
        self.peer.open(number, cut);
        let no_task = arrived == 0 && cut.point != CutPoint::Watched;
        let stalls_until_timeout =
            cut.end_kind == EndKind::Stall && (no_task || cut.aftermath == Aftermath::Lost);
        let mut request = json!({
            "timeout_ms": if stalls_until_timeout { SHORT_TIMEOUT_MS } else { LONG_TIMEOUT_MS },
            "service_parameters": {CUT: number.to_string()},
        });
        let action = match cut.point {
            CutPoint::Watched => json!({
                "action": "watch", "target_alias": "desk", "task_id": self.peer.task_id(),
            }),
            what => json!({
                "action": "send", "parts": [{"kind": "text", "text": "Write."}], "follow_updates": what != CutPoint::Reply,
            }),
        };
        request
            .as_object_mut()
            .unwrap()
            .extend(action.as_object().unwrap().clone());
        let request = request.to_string();
        let updates = Mutex::new(Vec::new());
        let on_update = |update: &str| updates.lock().unwrap().push(parse(update));
        let call = self.agent.execute(ToolCall {
            request: &request,
            caller: None,
            updates: Some(&on_update),
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        let envelope = tokio::time::timeout(HANG_TIMEOUT, call).await.ok();
        Outcome {
            envelope: envelope.as_deref().map(parse),
            updates: updates.into_inner().unwrap(),
            case: self.peer.close(number),
        }
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
