//! Converts the events of a run at the gateway to execution events and to the outcome.

use a2a::v1_0::Artifact;
use a2a_server::executor::{ExecutionEvent, ExecutionEvents, Outcome};
use serde_json::Value;

use a2a::{Event, TaskState};

use super::{outcome, parts};

/// Forwards the events of one run.
pub(super) struct EventForwarder(ExecutionEvents);

impl EventForwarder {
    pub(super) fn new(events: ExecutionEvents) -> Self {
        Self(events)
    }

    /// Forwards an event. Returns the outcome if the event ends the run.
    pub(super) async fn forward(&self, event: Event) -> Option<Outcome> {
        let json = event.json();
        let state = match &event {
            Event::Message(message) => {
                return Some(Outcome::Completed(Some(parts::message_parts(
                    message.json(),
                ))));
            }
            Event::Task(task) => task.state(),
            Event::Status(update) => update.state(),
            Event::Artifact(_) => {
                self.send_artifact(
                    &json["artifact"],
                    json["append"] == true,
                    json["lastChunk"] == true,
                )
                .await;
                return None;
            }
            Event::Unknown(_) => return None,
        };
        for artifact in json["artifacts"].as_array().map_or(&[][..], Vec::as_slice) {
            self.send_artifact(artifact, false, state.is_terminal())
                .await;
        }
        if let Some(metadata) = json["metadata"]
            .as_object()
            .filter(|fields| !fields.is_empty())
        {
            self.send(ExecutionEvent::Metadata(parts::task_metadata(metadata)))
                .await;
        }
        self.forward_status(&state, &json["status"]["message"])
            .await
    }

    /// Forwards a state of the run with the status text of the agent. Returns the outcome if the state ends the run.
    async fn forward_status(&self, state: &TaskState, message: &Value) -> Option<Outcome> {
        let status_parts = parts::message_parts(message);
        let text = || {
            let texts: Vec<_> = status_parts
                .iter()
                .filter_map(|part| part.as_text())
                .collect();
            texts.join("\n\n")
        };
        Some(match state {
            TaskState::Working => {
                let status_parts = (!status_parts.is_empty()).then_some(status_parts);
                self.send(ExecutionEvent::Working(status_parts)).await;
                return None;
            }
            TaskState::Completed => {
                Outcome::Completed((!status_parts.is_empty()).then_some(status_parts))
            }
            TaskState::InputRequired => Outcome::InputRequired(status_parts),
            TaskState::AuthRequired => Outcome::AuthRequired(status_parts),
            TaskState::Rejected => Outcome::Rejected(text()),
            TaskState::Failed => outcome::failed(text_or(
                text(),
                "the agent's run failed without a reason from the gateway",
            )),
            TaskState::Canceled => Outcome::Failed {
                reason: "aborted",
                text: "the run was aborted at the gateway, not by the client".into(),
            },
            TaskState::Submitted | TaskState::Other(_) => return None,
        })
    }

    async fn send_artifact(&self, artifact: &Value, append: bool, last_chunk: bool) {
        let text = |key: &str| artifact[key].as_str().map(str::to_owned);
        let parts = artifact["parts"].as_array();
        let artifact = Artifact {
            artifact_id: text("artifactId").unwrap_or_default(),
            name: text("name"),
            description: text("description"),
            parts: parts::from_agent(parts.map_or(&[][..], Vec::as_slice)),
            metadata: artifact["metadata"].as_object().map(parts::to_hash_map),
            extensions: None,
        };
        self.send(ExecutionEvent::Artifact {
            artifact,
            append,
            last_chunk,
        })
        .await;
    }

    /// Sends an event. Ignores that the receiver may have been dropped.
    async fn send(&self, event: ExecutionEvent) {
        let _ = self.0.send(event).await;
    }
}

fn text_or(text: String, default: &str) -> String {
    if text.is_empty() {
        default.to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    async fn forward(event: Value) -> (Vec<ExecutionEvent>, Option<Outcome>) {
        let (events, mut received) = mpsc::channel(8);
        let outcome = EventForwarder::new(events)
            .forward(Event::read(event).unwrap())
            .await;
        let mut forwarded = Vec::new();
        while let Some(event) = received.recv().await {
            forwarded.push(event);
        }
        (forwarded, outcome)
    }

    #[tokio::test]
    async fn text_chunk_is_an_artifact_chunk() {
        let event = json!({"kind": "artifact-update", "taskId": "t", "append": true, "lastChunk": false,
            "artifact": {"artifactId": "reply", "parts": [{"kind": "text", "text": "more"}]}});
        let (events, outcome) = forward(event).await;
        let [
            ExecutionEvent::Artifact {
                artifact,
                append: true,
                last_chunk: false,
            },
        ] = &events[..]
        else {
            unreachable!("{events:?}")
        };
        assert_eq!((artifact.parts[0].as_text(), outcome), (Some("more"), None));
    }

    #[tokio::test]
    async fn tool_call_of_the_agent_is_a_status_text() {
        let event = json!({"kind": "status-update", "taskId": "t", "status": {"state": "working",
            "message": {"kind": "message", "parts": [{"kind": "text", "text": "Tool ls started."}]}}});
        let (events, outcome) = forward(event).await;
        let [ExecutionEvent::Working(Some(status_parts))] = &events[..] else {
            unreachable!("{events:?}")
        };
        assert_eq!(
            (status_parts[0].as_text(), outcome),
            (Some("Tool ls started."), None)
        );
    }

    #[tokio::test]
    async fn final_event_has_usage() {
        let event = json!({"kind": "status-update", "taskId": "t", "final": true, "status": {"state": "completed"},
            "metadata": {"openclaw": {"usage": {"total": 3}}}});
        let (events, outcome) = forward(event).await;
        let [ExecutionEvent::Metadata(parts)] = &events[..] else {
            unreachable!("{events:?}")
        };
        assert_eq!(parts["openclaw"]["usage"]["total"], 3);
        let own = json!({"tokens": {"total": 3}, "estimated": false});
        assert_eq!(parts[a2a::USAGE_KEY], own);
        assert_eq!(outcome, Some(Outcome::Completed(None)));
    }

    #[tokio::test]
    async fn ended_run_is_forwarded_with_its_artifacts() {
        let event = json!({"kind": "task", "id": "t", "status": {"state": "failed",
            "message": {"kind": "message", "parts": [{"kind": "text", "text": "no model"}]}},
            "artifacts": [{"artifactId": "reply", "parts": [{"kind": "text", "text": "so far"}]}]});
        let (events, outcome) = forward(event).await;
        assert!(
            matches!(
                &events[..],
                [ExecutionEvent::Artifact {
                    append: false,
                    last_chunk: true,
                    ..
                }]
            ),
            "{events:?}"
        );
        assert_eq!(
            outcome,
            Some(Outcome::Failed {
                reason: "agent_failed",
                text: "no model".into()
            })
        );
    }
}
