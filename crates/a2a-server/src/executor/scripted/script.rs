//! Scripts of the scripted executor.

use std::time::Duration;

use a2a::v1_0::{Artifact, Part};

use super::super::{ExecutionEvent, Outcome};

/// A step of a script.
pub(super) enum Step {
    /// Waits.
    Wait(Duration),
    /// Waits until the run is stopped.
    WaitForever,
    /// Sends an event.
    ExecutionEvent(ExecutionEvent),
}

/// The steps of a run and its outcome. The iterator creates steps lazily, so that a long script needs little memory.
pub(super) struct Script {
    pub(super) steps: Box<dyn Iterator<Item = Step> + Send>,
    pub(super) outcome: Outcome,
}

impl Script {
    /// Creates a script without steps.
    pub(super) fn end(outcome: Outcome) -> Self {
        Self::new([], outcome)
    }

    pub(super) fn new<I>(steps: I, outcome: Outcome) -> Self
    where
        I: IntoIterator<Item = Step>,
        I::IntoIter: Send + 'static,
    {
        Self {
            steps: Box::new(steps.into_iter()),
            outcome,
        }
    }

    /// Prepends a step.
    pub(super) fn after(self, first: Step) -> Self {
        Self {
            steps: Box::new(std::iter::once(first).chain(self.steps)),
            outcome: self.outcome,
        }
    }
}

/// Reports that the run continues.
pub(super) fn working() -> Step {
    Step::ExecutionEvent(ExecutionEvent::Working(None))
}

/// Reports a whole artifact.
pub(super) fn artifact(id: &str, parts: Vec<Part>) -> Step {
    artifact_chunk(id, parts, false, true)
}

/// Reports an artifact or a chunk.
pub(super) fn artifact_chunk(id: &str, parts: Vec<Part>, append: bool, last_chunk: bool) -> Step {
    Step::ExecutionEvent(ExecutionEvent::Artifact {
        artifact: Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts,
            metadata: None,
            extensions: None,
        },
        append,
        last_chunk,
    })
}

/// Creates a text part.
pub(super) fn text_parts(text: impl Into<String>) -> Vec<Part> {
    vec![Part::text(text)]
}
