//! The tasks that a peer lists for its client.

use a2a::{Task, Usage};
use base::redact::Secrets;
use peer::{CallOptions, PeerErrorKind};
use serde_json::{Value, json};

use super::super::RemoteAgent;
use super::super::deadline::Deadline;
use super::super::envelope;
use super::super::error::ToolError;
use super::object;
use crate::targets::{FetchedCard, Target};

/// How many tasks of a peer the listing shows.
const MAX_LISTED_TASKS: usize = 100;

/// How many pages of tasks the listing requests of a peer. A page may be empty, and a token may be that of the same page.
const MAX_PAGES: usize = 20;

/// A task that no peer has. A peer that lists no tasks shows with its answer whether it accepts the credential.
const UNKNOWN_TASK: &str = "00000000-0000-0000-0000-000000000000";

/// The tasks of a target, and why they cannot be read.
#[derive(Default)]
pub(super) struct Tasks {
    listed: Option<Vec<Value>>,
    /// Whether the peer has more, or may have.
    has_more: bool,
    /// How many elements of the peer's list are no tasks.
    unreadable: usize,
    error: Option<Value>,
}

impl Tasks {
    pub(super) fn merge_into(self, target: &mut Value) {
        if let Some(tasks) = self.listed {
            target["tasks"] = tasks.into();
        }
        if self.has_more {
            target["tasks_more"] = true.into();
        }
        if self.unreadable > 0 {
            target["tasks_unreadable"] = self.unreadable.into();
        }
        if let Some(error) = self.error {
            target["tasks_error"] = error;
        }
    }

    /// Adds tasks as far as there is room, and returns whether one of them was not listed before.
    fn add(&mut self, tasks: &[Task], secrets: &Secrets) -> bool {
        let is_first = self.listed.is_none();
        let listed = self.listed.get_or_insert_default();
        let before = listed.len();
        for task in tasks {
            let id = task.id();
            let is_known = !is_first && listed.iter().any(|known| known["task_id"].as_str() == id);
            if is_known {
                continue;
            }
            if listed.len() == MAX_LISTED_TASKS {
                self.has_more = true;
                break;
            }
            listed.push(shown(task, secrets));
        }
        listed.len() > before
    }
}

/// Requests the tasks that the client of a peer may see. If its protocol has no such list, requests an unknown task instead,
/// whose error shows whether the peer accepts calls.
pub(super) async fn list(
    tool: &RemoteAgent,
    target: &Target,
    cached: &FetchedCard,
    deadline: &Deadline,
) -> Tasks {
    let mut tasks = Tasks::default();
    match read_pages(&mut tasks, tool, target, cached, deadline).await {
        Err(error) if tasks.listed.is_none() => tasks.error = Some(envelope::error_json(error)),
        // What is listed stays, and is not all.
        Err(_) => tasks.has_more = true,
        Ok(()) => {}
    }
    tasks
}

async fn read_pages(
    tasks: &mut Tasks,
    tool: &RemoteAgent,
    target: &Target,
    cached: &FetchedCard,
    deadline: &Deadline,
) -> Result<(), ToolError> {
    let options = CallOptions::default();
    let peer = tool
        .directory
        .open(&target.peer_config, &cached.card, &options)?;
    let mut token: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let page = match deadline.run(peer.list_tasks(token.as_deref())).await? {
            Err(error) if error.kind == PeerErrorKind::UnsupportedVersion => {
                deadline.run(peer.get_task(UNKNOWN_TASK, None)).await??;
                return Ok(());
            }
            page => page?,
        };
        let is_first = token.is_none();
        let is_new = tasks.add(&page.tasks, &peer.secrets());
        token = page.next_page_token;
        // Some servers repeat a page under a token.
        let repeats = !is_first && !is_new && !page.tasks.is_empty();
        if !repeats {
            tasks.unreadable += page.unreadable;
        }
        if token.is_none() || tasks.has_more || repeats {
            break;
        }
    }
    tasks.has_more |= token.is_some();
    Ok(())
}

fn shown(task: &Task, secrets: &Secrets) -> Value {
    let mut shown = object([
        ("task_id", json!(task.id())),
        ("status", json!(task.state().as_str())),
        ("status_message", json!(task.status_text())),
        ("updated_at", task.json()["status"]["timestamp"].clone()),
    ]);
    let mut usage = Usage::default();
    usage.add(task.json());
    if !usage.is_empty() {
        shown["usage"] = json!(usage);
    }
    secrets.redact_value(&mut shown);
    shown
}
