//! The size limit of tasks.

use a2a::v1_0::{Artifact, Part};

use super::{RunEnd, TaskRunner};
use crate::executor::Outcome;
use base::json::encoded_bytes;

impl TaskRunner {
    /// Returns the size of all artifacts including this one, in bytes of JSON.
    pub(super) fn size_with(&self, artifact: &Artifact, append: bool) -> usize {
        let replaced = match append {
            true => 0,
            false => self
                .record
                .task
                .artifacts
                .iter()
                .flatten()
                .rfind(|known| known.artifact_id == artifact.artifact_id)
                .map_or(0, encoded_bytes),
        };
        self.size.saturating_sub(replaced) + encoded_bytes(artifact)
    }

    /// Checks that `size` bytes do not exceed the maximum size of a task.
    pub(super) fn check_size(&self, size: usize) -> Result<(), RunEnd> {
        match size <= self.core.settings.limits.artifact_bytes {
            true => Ok(()),
            false => Err(RunEnd::TooLarge),
        }
    }
}

/// Returns the bytes of an outcome's parts.
pub(super) fn outcome_bytes(outcome: &Outcome) -> usize {
    let parts: Option<&Vec<Part>> = match outcome {
        Outcome::Completed(parts) => parts.as_ref(),
        Outcome::Message(parts) | Outcome::InputRequired(parts) | Outcome::AuthRequired(parts) => {
            Some(parts)
        }
        Outcome::Rejected(_) | Outcome::Failed { .. } => None,
    };
    parts.map_or(0, encoded_bytes)
}
