//! Events of one run (OpenClaw gateway protocol 4), and their queue from the connection to a call.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// The maximum length of a tool's text, in bytes.
const MAX_TOOL_TEXT_BYTES: usize = 500;

/// The maximum number of queued events of a subscriber.
const MAX_QUEUED_EVENTS: usize = 512;

/// The maximum size of a subscriber's queued events, in bytes. A slower subscriber must query the remaining events later.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RunEvent {
    /// The agent started.
    Started,
    /// Text of the answer.
    Text {
        /// Whether `text` replaces the text so far. Otherwise it is appended.
        whole: bool,
        /// The text.
        text: String,
    },
    /// A remark of the agent before it starts to work.
    Remark(String),
    /// A tool call started, progressed or ended.
    Tool(ToolUse),
    /// The run ended: the last response to the request that started it.
    Ended(Value),
    /// The run ended because the gateway abandoned it: the reason.
    Abandoned(String),
}

/// A tool call of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolUse {
    /// The tool's name.
    pub name: String,
    /// The id that all events of the tool call share.
    pub call_id: Option<String>,
    /// `start`, `update` or `end`.
    pub phase: &'static str,
    /// The outcome: `completed`, `failed`, `blocked` and others.
    pub status: Option<String>,
    /// The output or error, at most a few lines.
    pub text: Option<String>,
}

/// Decodes the events of a run. It remembers the last text to skip repetitions and detect gaps.
#[derive(Debug, Default)]
pub(super) struct RunEventDecoder {
    item: Option<String>,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunReference<'a> {
    #[serde(borrow)]
    run_id: Text<'a>,
}

/// A text that is borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    stream: Text<'a>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assistant<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
    #[serde(borrow)]
    item_id: Option<Text<'a>>,
    #[serde(default)]
    replace: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    kind: Option<String>,
    phase: Option<String>,
    name: Option<String>,
    tool_call_id: Option<String>,
    status: Option<String>,
    error: Option<String>,
    progress_text: Option<String>,
    partial_result: Option<Value>,
}

/// Returns the run of an event.
pub(super) fn run_of(payload: &RawValue) -> Option<Cow<'_, str>> {
    let reference: RunReference<'_> = serde_json::from_str(payload.get()).ok()?;
    Some(reference.run_id.0)
}

impl RunEventDecoder {
    /// Decodes an `agent` event. Returns `None` for thoughts, usage and other unused streams.
    pub(super) fn decode(&mut self, payload: &RawValue) -> Option<RunEvent> {
        let payload: Payload<'_> = serde_json::from_str(payload.get()).ok()?;
        let data = payload.data.get();
        match &*payload.stream.0 {
            "assistant" => self.text(&serde_json::from_str(data).ok()?),
            "lifecycle" => {
                let step: Step = serde_json::from_str(data).ok()?;
                (step.phase.as_deref() == Some("start")).then_some(RunEvent::Started)
            }
            "item" => item(serde_json::from_str(data).ok()?),
            // The start and end of a tool also come as items, which every operator receives.
            "tool" => progress(serde_json::from_str(data).ok()?),
            _ => None,
        }
    }

    fn text(&mut self, assistant: &Assistant<'_>) -> Option<RunEvent> {
        let item = assistant.item_id.as_ref().map_or("", |item| &*item.0);
        let same = self.item.as_deref() == Some(item);
        let follows = |whole: &str, piece: &str| self.bytes + piece.len() == whole.len();
        let (whole, text) = match (&assistant.text, &assistant.delta) {
            (Some(all), Some(piece)) if same && !assistant.replace && follows(&all.0, &piece.0) => {
                (false, &piece.0)
            }
            (Some(all), _) => (true, &all.0),
            (None, Some(piece)) => (!same || assistant.replace, &piece.0),
            (None, None) => return None,
        };
        if !same {
            self.item = Some(item.to_owned());
        }
        self.bytes = if whole {
            text.len()
        } else {
            self.bytes + text.len()
        };
        (whole || !text.is_empty()).then(|| RunEvent::Text {
            whole,
            text: text.clone().into_owned(),
        })
    }
}

fn item(step: Step) -> Option<RunEvent> {
    let ends = step.phase.as_deref() == Some("end");
    match step.kind.as_deref()? {
        "preamble" if ends => {
            let text = step.progress_text.filter(|text| !text.trim().is_empty())?;
            Some(RunEvent::Remark(text))
        }
        "tool" => Some(RunEvent::Tool(ToolUse {
            name: step.name?,
            call_id: step.tool_call_id,
            phase: match step.phase.as_deref()? {
                "start" => "start",
                "end" => "end",
                _ => return None,
            },
            status: step.status,
            text: step.error.map(shortened),
        })),
        _ => None,
    }
}

fn progress(step: Step) -> Option<RunEvent> {
    if step.phase.as_deref() != Some("update") {
        return None;
    }
    let text = step
        .partial_result
        .as_ref()
        .and_then(|result| result.pointer("/content/0/text"))
        .and_then(Value::as_str)
        .map(|text| shortened(text.to_owned()));
    Some(RunEvent::Tool(ToolUse {
        name: step.name?,
        call_id: step.tool_call_id,
        phase: "update",
        status: None,
        text,
    }))
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TOOL_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TOOL_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// The sending end of a subscription.
pub(super) struct Subscriber {
    pub(super) id: u64,
    pub(super) decoder: RunEventDecoder,
    events: mpsc::Sender<(RunEvent, usize)>,
    queued_bytes: Arc<AtomicUsize>,
}

/// The receiving end of a subscription. Each event comes with the size of its frame in bytes.
pub(super) struct RunEventReceiver {
    pub(super) id: u64,
    events: mpsc::Receiver<(RunEvent, usize)>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Subscriber {
    pub(super) fn new(id: u64) -> (Self, RunEventReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let subscriber = Self {
            id,
            decoder: RunEventDecoder::default(),
            events: sender,
            queued_bytes: Arc::clone(&queued_bytes),
        };
        let receiver = RunEventReceiver {
            id,
            events: receiver,
            queued_bytes,
        };
        (subscriber, receiver)
    }

    /// Queues an event. Returns `false` if the subscriber is too slow.
    pub(super) fn push(&self, event: RunEvent, size: usize) -> bool {
        let before = self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        before <= MAX_QUEUED_BYTES && self.events.try_send((event, size)).is_ok()
    }
}

impl RunEventReceiver {
    /// Returns the next event and its size; `None` once the subscription has ended.
    pub(super) async fn recv(&mut self) -> Option<(RunEvent, usize)> {
        let (event, size) = self.events.recv().await?;
        self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        Some((event, size))
    }
}

#[cfg(test)]
mod tests;
