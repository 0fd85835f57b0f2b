//! A run as a stream of events of A2A 0.3.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use a2a::{Event, text_part};
use peer::{BoxFuture, EventStream, NextEvent, PeerError};

use super::connection::OpenClawConnection;
use super::outcome::{ARTIFACT_ID, RunOutcome, artifact, from_response, message};
use super::protocol;
use super::protocol::{RequestError, invalid_shape};
use super::run_event::{RunEvent, RunEventReceiver, ToolUse};

/// A subscription to one run. Dropping it does not stop the run.
pub(super) struct RunSubscription {
    connection: Arc<OpenClawConnection>,
    run: String,
    events: RunEventReceiver,
}

impl RunSubscription {
    /// Subscribes to later events of `run`.
    pub(super) fn open(connection: &Arc<OpenClawConnection>, run: &str) -> Result<Self, PeerError> {
        Ok(Self {
            connection: Arc::clone(connection),
            run: run.to_owned(),
            events: connection.add_subscriber(run)?,
        })
    }

    /// Subscribes to `run`, starts it, and returns the first response: accepted, or ended if it was started before.
    pub(super) async fn start(
        connection: &Arc<OpenClawConnection>,
        run: &str,
        params: &Value,
    ) -> Result<(Value, Self), RequestError> {
        let subscription = Self::open(connection, run).map_err(RequestError::Connection)?;
        let answer = connection.start_run(run, params).await?;
        Ok((answer, subscription))
    }

    /// Returns the next event and the size of its frame in bytes.
    ///
    /// # Errors
    /// The connection has ended, or this subscriber was too slow.
    pub(super) async fn next(&mut self) -> Result<(RunEvent, usize), PeerError> {
        match self.events.recv().await {
            Some(event) => Ok(event),
            None if self.connection.is_open() => Err(protocol::connection_lost(
                "this subscriber was too slow for the agent's events",
            )),
            None => Err(self.connection.close_error()),
        }
    }
}

impl Drop for RunSubscription {
    fn drop(&mut self) {
        self.connection.remove_subscriber(&self.run, self.events.id);
    }
}

/// The events of one run, until its end.
pub(super) struct RunStream {
    /// `None` once the run has ended.
    subscription: Option<RunSubscription>,
    mapper: RunEventMapper,
    /// Resolves with the end of a run that another caller started.
    end: Option<BoxFuture<'static, Result<RunOutcome, PeerError>>>,
    queued: VecDeque<(Event, usize)>,
}

impl RunStream {
    /// Creates a stream that begins with `first`.
    pub(super) fn new(mapper: RunEventMapper, first: impl IntoIterator<Item = Event>) -> Self {
        Self {
            subscription: None,
            mapper,
            end: None,
            queued: first.into_iter().map(|event| (event, 0)).collect(),
        }
    }

    /// Continues with the events of a subscription.
    pub(super) fn with_subscription(mut self, subscription: RunSubscription) -> Self {
        self.subscription = Some(subscription);
        self
    }

    /// Ends with `end` if it resolves before the gateway reports the end.
    pub(super) fn with_end(
        mut self,
        end: BoxFuture<'static, Result<RunOutcome, PeerError>>,
    ) -> Self {
        self.end = Some(end);
        self
    }

    async fn more(&mut self) -> Option<PeerError> {
        let subscription = self.subscription.as_mut()?;
        let ended = async {
            match &mut self.end {
                Some(end) => end.await,
                None => std::future::pending().await,
            }
        };
        // Deliver events from before the end first.
        let next = tokio::select! {
            biased;
            said = subscription.next() => said.and_then(|(said, size)| {
                let over = matches!(said, RunEvent::Ended(_) | RunEvent::Abandoned(_));
                Ok((self.mapper.map(said)?, size, over))
            }),
            outcome = ended => outcome.and_then(|outcome| Ok((self.mapper.end(outcome)?, 0, true))),
        };
        match next {
            Ok((events, size, over)) => {
                self.queued
                    .extend(events.into_iter().map(|event| (event, size)));
                if over {
                    (self.subscription, self.end) = (None, None);
                }
                None
            }
            Err(error) => {
                (self.subscription, self.end) = (None, None);
                Some(error)
            }
        }
    }
}

#[async_trait]
impl EventStream for RunStream {
    async fn next(&mut self) -> NextEvent {
        loop {
            if let Some((event, size)) = self.queued.pop_front() {
                return Some(Ok((event, size)));
            }
            self.subscription.as_ref()?;
            if let Some(error) = self.more().await {
                return Some(Err(error));
            }
        }
    }
}

/// Maps the events of one run, in order.
#[derive(Debug)]
pub(super) struct RunEventMapper {
    run: String,
    context: String,
    /// The text of the answer so far.
    sent_text: String,
    /// Whether any text of the answer was sent.
    has_text: bool,
}

impl RunEventMapper {
    /// Creates the mapper of `run`.
    pub(super) fn new(run: &str, context: &str) -> Self {
        Self {
            run: run.to_owned(),
            context: context.to_owned(),
            sent_text: String::new(),
            has_text: false,
        }
    }

    /// Returns the run as a task in its current state.
    ///
    /// # Errors
    /// The run or context id is invalid.
    pub(super) fn snapshot(&self, outcome: &RunOutcome) -> Result<Event, PeerError> {
        outcome.task(&self.run, &self.context).map(Event::Task)
    }

    /// Maps one run event.
    ///
    /// # Errors
    /// The run or context id is invalid.
    pub(super) fn map(&mut self, event: RunEvent) -> Result<Vec<Event>, PeerError> {
        let value = match event {
            RunEvent::Started => self.status(json!({ "state": "working" }), false),
            RunEvent::Remark(text) => self.status(
                json!({ "state": "working", "message": message(&text) }),
                false,
            ),
            RunEvent::Tool(tool) => self.tool(&tool),
            RunEvent::Text { whole, text } => self.text(whole, text),
            RunEvent::Ended(response) => return self.end(from_response(&response)),
            RunEvent::Abandoned(reason) => return self.end(RunOutcome::failed(&reason)),
        };
        Ok(vec![Event::read(value).map_err(invalid_shape)?])
    }

    /// Maps the end of the run: the full answer if it differs from the text so far, then the final state.
    ///
    /// # Errors
    /// The run or context id is invalid.
    pub(super) fn end(&mut self, outcome: RunOutcome) -> Result<Vec<Event>, PeerError> {
        let mut events = Vec::new();
        if !outcome.parts.is_empty() && !self.has_sent(&outcome.parts) {
            let whole = self.artifact(artifact(&outcome.parts), false, true);
            events.push(Event::read(whole).map_err(invalid_shape)?);
        }
        let mut last = self.status(outcome.status(), true);
        if !outcome.metadata.is_empty() {
            last["metadata"] = json!({ "openclaw": outcome.metadata });
        }
        events.push(Event::read(last).map_err(invalid_shape)?);
        Ok(events)
    }

    fn has_sent(&self, parts: &[Value]) -> bool {
        matches!(parts, [one] if one["text"] == self.sent_text.as_str())
    }

    fn text(&mut self, whole: bool, text: String) -> Value {
        let append = self.has_text && !whole;
        let piece = artifact(&[text_part(&text)]);
        if append {
            self.sent_text.push_str(&text);
        } else {
            self.sent_text = text;
        }
        self.has_text = true;
        self.artifact(piece, append, false)
    }

    fn tool(&self, tool: &ToolUse) -> Value {
        let ToolUse { name, text, .. } = tool;
        let doing = match (tool.phase, tool.status.as_deref()) {
            ("start", _) => "started",
            ("end", Some(status)) => status,
            ("end", None) => "done",
            _ => "under way",
        };
        let text = match text {
            Some(text) => format!("Tool {name} {doing}: {text}"),
            None => format!("Tool {name} {doing}."),
        };
        let mut update = message(&text);
        update["metadata"] = json!({ "openclaw": { "tool": {
            "name": name, "callId": tool.call_id, "phase": tool.phase, "status": tool.status,
        } } });
        self.status(json!({ "state": "working", "message": update }), false)
    }

    fn status(&self, status: Value, last: bool) -> Value {
        json!({ "kind": "status-update", "taskId": self.run, "contextId": self.context, "status": status, "final": last })
    }

    fn artifact(&self, artifact: Value, append: bool, last: bool) -> Value {
        debug_assert_eq!(artifact["artifactId"], ARTIFACT_ID);
        json!({ "kind": "artifact-update", "taskId": self.run, "contextId": self.context, "artifact": artifact, "append": append, "lastChunk": last })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn piece(whole: bool, text: &str) -> RunEvent {
        RunEvent::Text {
            whole,
            text: text.into(),
        }
    }

    /// Returns what each event of a run becomes.
    fn mapped<const N: usize>(events: [RunEvent; N]) -> [Vec<String>; N] {
        let summary = |event: &Event| match event {
            Event::Artifact(update) => {
                let artifact = update.artifact();
                format!(
                    "{}:{}",
                    update.append(),
                    artifact.text().unwrap_or_default()
                )
            }
            Event::Status(update) => {
                let text = update.status_text().unwrap_or_default();
                format!("{} {text}", update.state().as_str())
            }
            other => format!("{other:?}"),
        };
        let mut mapper = RunEventMapper::new("r", "c");
        events.map(|event| mapper.map(event).unwrap().iter().map(summary).collect())
    }

    fn ended(text: &str) -> RunEvent {
        RunEvent::Ended(json!({"status": "ok", "result": {"payloads": [{"text": text}]}}))
    }

    #[test]
    fn streamed_text_is_not_repeated_at_the_end() {
        let events = mapped([piece(true, "a"), piece(false, " b"), ended("a b")]);
        assert_eq!(events, [["false:a"], ["true: b"], ["completed "]]);
    }

    #[test]
    fn unstreamed_answer_is_reported_at_the_end() {
        let [_, last] = mapped([piece(true, "draft"), ended("fair copy")]);
        assert_eq!(last, ["false:fair copy", "completed "]);
    }

    #[test]
    fn text_after_a_tool_replaces_the_remark() {
        let [_, remark, text, end] = mapped([
            piece(true, "Let me look."),
            RunEvent::Remark("Let me look.".into()),
            piece(true, "It is fine."),
            ended("It is fine."),
        ]);
        assert_eq!(remark, ["working Let me look."]);
        assert_eq!(text, ["false:It is fine."]);
        assert_eq!(end, ["completed "]);
    }

    #[test]
    fn tools_are_reported_by_name_while_working() {
        let tool = |phase, status: Option<&str>, text: Option<&str>| {
            RunEvent::Tool(ToolUse {
                name: "read".into(),
                call_id: Some("c1".into()),
                phase,
                status: status.map(str::to_owned),
                text: text.map(str::to_owned),
            })
        };
        let events = mapped([
            tool("start", Some("running"), None),
            tool("update", None, Some("50 %")),
            tool("end", Some("failed"), Some("no such file")),
            RunEvent::Abandoned("no room".into()),
        ]);
        let expected = [
            ["working Tool read started."],
            ["working Tool read under way: 50 %"],
            ["working Tool read failed: no such file"],
            ["failed no room"],
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn last_event_has_final_mark_and_usage() {
        let mut mapper = RunEventMapper::new("r", "c");
        let response = json!({"status": "ok", "result": {"payloads": [], "meta": {"agentMeta": {"usage": {"total": 3}}}}});
        let events = mapper.map(RunEvent::Ended(response)).unwrap();
        let [Event::Status(last)] = &events[..] else {
            unreachable!("one event: {events:?}")
        };
        assert!(last.is_final());
        assert_eq!(
            events[0].json()["metadata"],
            json!({"openclaw": {"usage": {"total": 3}}})
        );
    }
}
