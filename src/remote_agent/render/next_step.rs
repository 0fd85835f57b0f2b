//! The next step for an open task.

use super::view::{Summary, Task};

/// The longest next step from an envelope, in characters.
pub(super) const MAX_CHARS: usize = 240;

/// Returns the next step for an open task; `None` where the result is complete.
pub(super) fn next_step(summary: &Summary<'_>) -> Option<&'static str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    if summary.notify {
        return Some(
            "the task goes on; you will be woken when it ends or asks. Do not send again.",
        );
    }
    of_task(task)
}

fn of_task(task: &Task<'_>) -> Option<&'static str> {
    match task.status.as_deref() {
        Some("input-required") => {
            Some("answer with send and this task_handle; ask the user if you are not sure.")
        }
        Some("auth-required") => Some(
            "tell the user what the agent wants; do not invent credentials. Then send or status with this task_handle.",
        ),
        Some("completed" | "failed" | "rejected" | "canceled") => None,
        _ if task.can_watch => {
            Some("the task goes on: watch it, or look with status later. Do not send again.")
        }
        _ => Some("the task goes on: look with status later. Do not send again."),
    }
}
