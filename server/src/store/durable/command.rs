//! What the one thread that writes is asked for.

use tokio::sync::oneshot;

use super::line::Kept;
use crate::record::{Change, Record};
use crate::store::{Context, StoreError};

/// Something that has to be written.
pub(super) enum Ask {
    /// A new task, and its line.
    Create { record: Box<Record>, line: Vec<u8> },
    /// A change, and its line.
    Append(Box<Append>),
    /// Tasks to be forgotten.
    Forget(Vec<String>),
    /// A context.
    Claim {
        id: String,
        owner: String,
        session: String,
    },
    /// A configuration of push notifications.
    PutPush(Box<Kept>),
    /// One that is not wanted any more.
    DeletePush { task: String, config: String },
    /// Whether anything can be written.
    Probe,
    /// Where this server can be asked.
    Announce(String),
    /// The end.
    Close,
}

/// A change of a task.
pub(super) struct Append {
    pub(super) id: String,
    pub(super) revision: u64,
    pub(super) at_ms: i64,
    pub(super) change: Change,
    pub(super) line: Vec<u8>,
}

/// What there is to say when it is written.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Count(usize),
    Context(Context),
}

pub(super) type Reply = oneshot::Sender<Result<Answer, StoreError>>;

/// A request, and who waits for it.
pub(super) struct Command {
    pub(super) ask: Ask,
    pub(super) reply: Reply,
}

impl Ask {
    /// The tasks and contexts it is about. Two requests about the same one are not written in one go, so that each is
    /// judged by what the other has done.
    pub(super) fn about(&self) -> Vec<String> {
        match self {
            Self::Create { record, .. } => {
                vec![task(&record.task.id), context(&record.task.context_id)]
            }
            Self::Append(append) => vec![task(&append.id)],
            Self::Forget(ids) => ids.iter().map(|id| task(id)).collect(),
            Self::Claim { id, .. } => vec![context(id)],
            Self::PutPush(kept) => vec![task(&kept.config.task_id)],
            Self::DeletePush { task: id, .. } => vec![task(id)],
            Self::Probe | Self::Announce(_) | Self::Close => Vec::new(),
        }
    }
}

fn task(id: &str) -> String {
    format!("t{id}")
}

fn context(id: &str) -> String {
    format!("c{id}")
}
