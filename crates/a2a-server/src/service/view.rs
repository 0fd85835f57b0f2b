//! The part of a task that a client requests.

use a2a::v1_0::Task;

use a2a::{A2aError, ErrorReason};

/// The requested part of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// The number of newest messages in the history.
    messages: usize,
    artifacts: bool,
}

impl View {
    /// Creates a view for `historyLength` (A2A 1.0 §3.2.4). `None` means all messages and 0 none. `limit` is the
    /// maximum.
    pub(super) fn new(history_length: Option<i32>, limit: usize) -> Result<Self, A2aError> {
        let messages = match history_length {
            None => limit,
            Some(length) => usize::try_from(length).map_err(|_| {
                A2aError::new(
                    ErrorReason::InvalidParams,
                    format!("`historyLength` is {length}; it must be 0 or more"),
                )
                .at("historyLength")
            })?,
        };
        Ok(Self {
            messages: messages.min(limit),
            artifacts: true,
        })
    }

    /// Sets whether the view includes artifacts.
    pub(super) fn with_artifacts(self, artifacts: bool) -> Self {
        Self { artifacts, ..self }
    }

    /// Reduces a task to the view.
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
