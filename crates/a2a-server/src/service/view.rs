//! How much of a task a client is shown.

use a2a::v1_0::Task;

use a2a::{A2aError, ErrorReason};

/// How much of a task is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// So many of the newest messages.
    messages: usize,
    artifacts: bool,
}

impl View {
    /// What `historyLength` asks for (1.0 §3.2.4): nothing said is all, 0 is none; never more than `limit`.
    pub(super) fn new(history_length: Option<i32>, limit: usize) -> Result<Self, A2aError> {
        let messages = match history_length {
            None => limit,
            Some(length) => usize::try_from(length).map_err(|_| {
                A2aError::new(
                    ErrorReason::InvalidParams,
                    format!("`historyLength` is {length}; it has to be 0 or more"),
                )
                .at("historyLength")
            })?,
        };
        Ok(Self {
            messages: messages.min(limit),
            artifacts: true,
        })
    }

    /// The same without artifacts, unless they are asked for.
    pub(super) fn with_artifacts(self, artifacts: bool) -> Self {
        Self { artifacts, ..self }
    }

    /// The task as it is shown.
    pub(super) fn apply(self, mut task: Task) -> Task {
        if let Some(history) = &mut task.history {
            let older = history.len().saturating_sub(self.messages);
            history.drain(..older);
        }
        if task.history.as_ref().is_some_and(Vec::is_empty) {
            task.history = None;
        }
        if !self.artifacts {
            task.artifacts = None;
        }
        task
    }
}
