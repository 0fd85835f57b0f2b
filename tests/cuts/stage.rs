//! A peer with the tool that calls it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::log::{Level, Log};
use openclaw_remote_agent::plugin;
use openclaw_remote_agent::remote_agent::{Pace, RemoteAgent, ToolCall};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cuts::{
    cut::{Cut, CutPoint, How, Then},
    peer::{Case, Peer},
    recording::Recording,
    request::CUT,
};

/// Between two attempts, in place of seconds. On a busy machine an answer may take as long as `silence`, which only a
/// peer that stalls is to be suspected for.
fn pace(silence: Duration) -> Pace {
    Pace {
        first_poll: Duration::from_millis(1),
        longest_poll: Duration::from_millis(8),
        idle: silence,
        final_wait: Duration::from_millis(5),
    }
}

/// How long a peer that stalls is listened to before it is asked.
const SILENCE: Duration = Duration::from_millis(250);

/// Far longer than a call takes on a busy machine.
const LONG_MS: u64 = 60_000;

/// How long a call waits for a peer that will never say more.
const SHORT_MS: u64 = 2_000;

/// A call that outlives its own deadline by so much hangs.
const HANGS: Duration = Duration::from_millis(LONG_MS + 10_000);

/// The outcome of a cut.
pub(crate) struct Came {
    /// The envelope; `None` when none came.
    pub(crate) envelope: Option<Value>,
    /// The updates.
    pub(crate) updates: Vec<Value>,
    /// The requests that the peer received.
    pub(crate) case: Case,
}

impl Came {
    /// Returns all of it in words.
    pub(crate) fn reported(&self) -> String {
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

/// A peer with the tool that calls it.
pub(crate) struct Stage {
    peer: Arc<Peer>,
    agent: RemoteAgent,
}

struct Quiet;

impl Log for Quiet {
    fn log(&self, _: Level, _: &str) {}
}

impl Stage {
    pub(crate) async fn new(recording: &Arc<Recording>, stalls: bool) -> Self {
        let peer = Peer::start(Arc::clone(recording)).await;
        let config = json!({
            "targets": [{"alias": "desk", "baseUrl": peer.origin, "default": true}],
            "limits": {"concurrency": 10_000, "concurrencyPerTarget": 10_000},
        });
        let pace = pace(if stalls { SILENCE } else { HANGS });
        let agent = plugin::assemble(&config.to_string(), pace, Arc::new(Quiet));
        Self {
            peer,
            agent: agent.unwrap(),
        }
    }

    /// Makes one cut and sees what comes of it.
    pub(crate) async fn play(&self, number: usize, cut: Cut, arrived: usize) -> Came {
        self.peer.open(number, cut);
        let waits = arrived == 0 && cut.what != CutPoint::Watched;
        let silent = cut.how == How::Stall && (waits || cut.then == Then::Gone);
        let mut request = json!({
            "timeout_ms": if silent { SHORT_MS } else { LONG_MS },
            "service_parameters": {CUT: number.to_string()},
        });
        let asked = match cut.what {
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
            .extend(asked.as_object().unwrap().clone());
        let request = request.to_string();
        let updates = Mutex::new(Vec::new());
        let take = |update: &str| updates.lock().unwrap().push(parse(update));
        let call = self.agent.execute(ToolCall {
            request: &request,
            caller: None,
            updates: Some(&take),
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        let envelope = tokio::time::timeout(HANGS, call).await.ok();
        Came {
            envelope: envelope.as_deref().map(parse),
            updates: updates.into_inner().unwrap(),
            case: self.peer.close(number),
        }
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
