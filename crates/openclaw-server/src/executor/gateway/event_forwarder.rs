//! Converts the events of a run at the gateway to execution events and to the outcome.

use a2a::v1_0::Artifact;
use a2a_server::executor::{ExecutionEvent, ExecutionEvents, Outcome};
use serde_json::Value;

use a2a::{Event, TaskState};

use super::{outcome, parts};

/// Reports the events of one run.
pub(super) struct RunReporter(ExecutionEvents);

impl RunReporter {
    pub(super) fn new(events: ExecutionEvents) -> Self {
        Self(events)
    }

    /// Reports an event. Returns the outcome if the event ends the run.
    pub(super) async fn on_event(&self, event: Event) -> Option<Outcome> {
        let said = event.json();
        let state = match &event {
            Event::Message(message) => {
                return Some(Outcome::Completed(Some(parts::of_message(message.json()))));
            }
            Event::Task(task) => task.state(),
            Event::Status(update) => update.state(),
            Event::Artifact(_) => {
                self.artifact(
                    &said["artifact"],
                    said["append"] == true,
                    said["lastChunk"] == true,
                )
                .await;
                return None;
            }
            Event::Unknown(_) => return None,
        };
        for artifact in said["artifacts"].as_array().map_or(&[][..], Vec::as_slice) {
            self.artifact(artifact, false, state.is_terminal()).await;
        }
        if let Some(metadata) = said["metadata"].as_object().filter(|all| !all.is_empty()) {
            self.report(ExecutionEvent::Metadata(parts::owned(metadata)))
                .await;
        }
        self.stands(&state, &said["status"]["message"]).await
    }

    /// Reports a state of the run with the status text of the agent. Returns the outcome if the state ends the run.
    async fn stands(&self, state: &TaskState, message: &Value) -> Option<Outcome> {
        let words = parts::of_message(message);
        let text = || {
            let texts: Vec<_> = words.iter().filter_map(|part| part.as_text()).collect();
            texts.join("\n\n")
        };
        Some(match state {
            TaskState::Working => {
                let words = (!words.is_empty()).then_some(words);
                self.report(ExecutionEvent::Working(words)).await;
                return None;
            }
            TaskState::Completed => Outcome::Completed((!words.is_empty()).then_some(words)),
            TaskState::InputRequired => Outcome::InputRequired(words),
            TaskState::AuthRequired => Outcome::AuthRequired(words),
            TaskState::Rejected => Outcome::Rejected(text()),
            TaskState::Failed => outcome::failed(or(
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

    async fn artifact(&self, artifact: &Value, append: bool, last_chunk: bool) {
        let text = |key: &str| artifact[key].as_str().map(str::to_owned);
        let all = artifact["parts"].as_array();
        let artifact = Artifact {
            artifact_id: text("artifactId").unwrap_or_default(),
            name: text("name"),
            description: text("description"),
            parts: parts::from_agent(all.map_or(&[][..], Vec::as_slice)),
            metadata: artifact["metadata"].as_object().map(parts::owned),
            extensions: None,
        };
        self.report(ExecutionEvent::Artifact {
            artifact,
            append,
            last_chunk,
        })
        .await;
    }

    /// Sends an event. Ignores that the receiver may have been dropped.
    async fn report(&self, report: ExecutionEvent) {
        let _ = self.0.send(report).await;
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
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

    async fn reporter(event: Value) -> (Vec<ExecutionEvent>, Option<Outcome>) {
        let (events, mut received) = mpsc::channel(8);
        let outcome = RunReporter::new(events)
            .on_event(Event::read(event).unwrap())
            .await;
        let mut all = Vec::new();
        while let Some(report) = received.recv().await {
            all.push(report);
        }
        (all, outcome)
    }

    #[tokio::test]
    async fn pieces_of_text_are_pieces_of_the_artifact() {
        let event = json!({"kind": "artifact-update", "taskId": "t", "append": true, "lastChunk": false,
            "artifact": {"artifactId": "reply", "parts": [{"kind": "text", "text": "more"}]}});
        let (events, outcome) = reporter(event).await;
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
    async fn a_tool_of_the_agent_is_reported_in_words() {
        let event = json!({"kind": "status-update", "taskId": "t", "status": {"state": "working",
            "message": {"kind": "message", "parts": [{"kind": "text", "text": "Tool ls started."}]}}});
        let (events, outcome) = reporter(event).await;
        let [ExecutionEvent::Working(Some(words))] = &events[..] else {
            unreachable!("{events:?}")
        };
        assert_eq!(
            (words[0].as_text(), outcome),
            (Some("Tool ls started."), None)
        );
    }

    #[tokio::test]
    async fn last_report_has_usage() {
        let event = json!({"kind": "status-update", "taskId": "t", "final": true, "status": {"state": "completed"},
            "metadata": {"openclaw": {"usage": {"total": 3}}}});
        let (events, outcome) = reporter(event).await;
        let [ExecutionEvent::Metadata(all)] = &events[..] else {
            unreachable!("{events:?}")
        };
        assert_eq!(all["openclaw"]["usage"]["total"], 3);
        assert_eq!(outcome, Some(Outcome::Completed(None)));
    }

    #[tokio::test]
    async fn a_run_that_is_over_already_comes_as_a_whole() {
        let event = json!({"kind": "task", "id": "t", "status": {"state": "failed",
            "message": {"kind": "message", "parts": [{"kind": "text", "text": "no model"}]}},
            "artifacts": [{"artifactId": "reply", "parts": [{"kind": "text", "text": "so far"}]}]});
        let (events, outcome) = reporter(event).await;
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
