//! What there is to do, step by step.

use std::time::Duration;

use a2a::v1_0::{Artifact, Part};

use super::super::{Outcome, Report};

/// One thing to do.
pub(super) enum Step {
    /// Wait so long.
    Wait(Duration),
    /// Wait until the run is stopped.
    WaitForEver,
    /// Report this.
    Report(Report),
}

/// What is done, and how it ends. The steps are made as they are done, so that a long script takes no memory.
pub(super) struct Script {
    pub(super) steps: Box<dyn Iterator<Item = Step> + Send>,
    pub(super) outcome: Outcome,
}

impl Script {
    /// Ends at once.
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

    /// The same after `first`.
    pub(super) fn after(self, first: Step) -> Self {
        Self {
            steps: Box::new(std::iter::once(first).chain(self.steps)),
            outcome: self.outcome,
        }
    }
}

/// The run goes on.
pub(super) fn working() -> Step {
    Step::Report(Report::Working(None))
}

/// One artifact, whole.
pub(super) fn artifact(id: &str, parts: Vec<Part>) -> Step {
    piece(id, parts, false, true)
}

/// An artifact, or more of one.
pub(super) fn piece(id: &str, parts: Vec<Part>, append: bool, last_chunk: bool) -> Step {
    Step::Report(Report::Artifact {
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

/// What an agent says.
pub(super) fn text(said: impl Into<String>) -> Vec<Part> {
    vec![Part::text(said)]
}
