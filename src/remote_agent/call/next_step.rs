//! The next step after a call whose task is not done.

use super::Call;

/// Why a result is incomplete, though the peer sends no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remote_agent) enum Incomplete {
    /// Pieces of an ended task may be missing.
    Pieces,
    /// The stream ended before the task, and the agent keeps no tasks to query.
    StreamEnded,
    /// The agent answered with an open task, and keeps no tasks to query.
    NoQueries,
    /// The task stays in a state that A2A does not define.
    UnknownState,
}

impl Call<'_> {
    /// Returns the next step for a task that is not done.
    pub(super) fn next_step(&self) -> Option<&'static str> {
        let has_handle = self.handle.is_some();
        if self.awaits_answer() {
            return match &self.person.report {
                Some(report) => self.step_after_person(report),
                None => self.step_before_person(),
            };
        }
        match (self.wait_expired, self.incomplete) {
            (true, _) if has_handle && self.query_error.is_some() => Some(
                "The latest queries of the task failed or its events cannot be read, so its state is not certain. Call watch with this task_handle or continuation to wait for more, or status to look once.",
            ),
            (true, _) if has_handle => Some(
                "The task goes on. Call watch with this task_handle or continuation to wait for more, or status to look once.",
            ),
            (true, _) => Some(
                "The agent was not done and named no task to continue. Send with a larger timeout_ms to get the answer.",
            ),
            (_, Some(_)) if self.collected.is_terminal_or_interrupted() => Some(
                "Part of what the task produced may be missing. Call status with this task_handle or continuation to fetch it whole.",
            ),
            (_, Some(Incomplete::UnknownState)) => Some(
                "The agent reports a state that A2A does not define. Call status with this task_handle or continuation later.",
            ),
            (_, Some(Incomplete::NoQueries)) => Some(
                "The agent did not finish the task and answers no query about it. Call status with this task_handle or continuation later.",
            ),
            (_, None)
                if self.message_state() == Some("queued")
                    && !self.collected.is_terminal_or_interrupted() =>
            {
                Some(
                    "The task has a turn with the message when its running turn has ended. Call watch with this task_handle or continuation to wait for it.",
                )
            }
            (_, Some(_)) => Some(
                "The agent ended the stream before the task was done. Call status with this task_handle or continuation later.",
            ),
            _ => None,
        }
    }
}
