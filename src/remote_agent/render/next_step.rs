//! The one thing to do next, by what the envelope says of the task.

use super::view::{Summary, Task};

/// The longest next step that is taken from an envelope, in characters.
pub(super) const LONGEST: usize = 240;

/// What to do next about a task, a conversation, or nothing that goes on.
pub(super) fn next_step(summary: &Summary<'_>) -> &'static str {
    let Some(going_on) = &summary.continuation else {
        return "the answer is complete; there is nothing to follow.";
    };
    match &going_on.task {
        Some(task) => of_task(task),
        None => {
            "the answer is complete; to go on with the conversation call send with this agent and the context_id below."
        }
    }
}

fn of_task(task: &Task<'_>) -> &'static str {
    match task.status.as_deref() {
        Some("input-required") => {
            "answer with send: this task_handle and parts. Ask the user if you do not know the answer."
        }
        Some("auth-required") => {
            "tell the user what the agent wants; do not invent credentials. Then go on with send or status and this task_handle."
        }
        Some("completed") => "use the result; nothing more comes of this task.",
        Some("failed" | "rejected" | "canceled") => {
            "tell the user, with the agent's reason; nothing more comes of this task."
        }
        _ if task.can_watch => {
            "the task goes on. Call watch with this task_handle, or status later; do not send the message again."
        }
        _ => {
            "the task goes on. Call status with this task_handle later; do not send the message again."
        }
    }
}
