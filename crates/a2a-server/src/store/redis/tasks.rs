//! A task in Redis: what it was at some revision, and the changes since then.
//!
//! `task:ID` is a hash, `log:ID` the list of changes. A change is appended to the list, so that its work does not grow with
//! the task; who loads a task with many changes puts them together for whoever comes next.

use a2a::v1_0::{Role, TaskStatus};
use serde_json::Error;

use super::inner::Inner;
use crate::store::{Phase, StoreError, Summary, parse_state, state_word};
use crate::task_record::{TaskChange, TaskRecord, excerpt};

/// So many changes are put together by who loads them.
const COMPACT_AFTER_CHANGES: usize = 64;

/// What the scripts call a phase.
fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Working => "run",
        Phase::Interrupted => "wait",
        Phase::Terminal => "done",
    }
}

impl Inner {
    pub(super) async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        let status = &record.task.status;
        let phase = Phase::new(&status.state);
        let call = self
            .scripts
            .create
            .call()
            .arg(&record.task.id)
            .arg(serde_json::to_vec(record).map_err(unwritten)?)
            .arg(record.revision)
            .arg(&record.owner)
            .arg(&record.task.context_id)
            .arg(&record.session)
            .arg(state_word(&status.state))
            .arg(since_us(status))
            .arg(record.changed_ms)
            .arg(phase_word(phase))
            .arg(self.token())
            .arg(record.created_ms)
            .arg(record.agent.as_deref().unwrap_or_default())
            .arg(record.asked().unwrap_or_default())
            .arg(status.message.as_ref().map(excerpt).unwrap_or_default());
        let said: String = self.connection.call(&call).await?;
        self.outcome(&record.task.id, Some(phase), &said)
    }

    pub(super) async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        change: &TaskChange,
    ) -> Result<(), StoreError> {
        let (state, since_us, phase) = match change {
            TaskChange::Status(status) => (
                state_word(&status.state),
                since_us(status),
                Some(Phase::new(&status.state)),
            ),
            _ => ("", String::new(), None),
        };
        let (asked, says) = match change {
            TaskChange::Status(status) => (String::new(), status.message.as_ref().map(excerpt)),
            TaskChange::Message(message) if message.role == Role::User => (excerpt(message), None),
            _ => (String::new(), None),
        };
        let call = self
            .scripts
            .append
            .call()
            .arg(task_id)
            .arg(revision)
            .arg(at_ms)
            .arg(serde_json::to_vec(change).map_err(unwritten)?)
            .arg(self.token())
            .arg(state)
            .arg(since_us)
            .arg(phase.map_or("", phase_word))
            .arg(i32::from(self.is_running(task_id)))
            .arg(asked)
            .arg(says.unwrap_or_default());
        // A run that goes on here outlives a restart of Redis. After the lease it is somebody else's.
        let said: String = self.connection.call_until(&call, self.lease).await?;
        self.outcome(task_id, phase, &said)
    }

    fn outcome(&self, task_id: &str, phase: Option<Phase>, said: &str) -> Result<(), StoreError> {
        match said {
            "ok" => {
                match phase {
                    Some(Phase::Working) => self.mark_running(task_id),
                    Some(Phase::Interrupted | Phase::Terminal) => self.mark_ended(task_id),
                    None => {}
                }
                Ok(())
            }
            "conflict" => Err(StoreError::Conflict),
            "lost" => {
                self.mark_ended(task_id);
                tracing::warn!(
                    task_id,
                    "another server has taken the task over: this one was not heard of for longer than its lease"
                );
                Err(StoreError::Conflict)
            }
            "settled" => {
                self.mark_ended(task_id);
                Err(StoreError::Terminal)
            }
            _ => {
                self.mark_ended(task_id);
                Err(StoreError::NotFound)
            }
        }
    }

    pub(super) async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let found = self.fetch(task_id).await?;
        self.read(task_id, found).await
    }

    /// What Redis has of a task.
    async fn fetch(&self, task_id: &str) -> Result<redis::Value, StoreError> {
        let call = self.scripts.load.call().arg(task_id);
        self.connection.call(&call).await
    }

    /// The task that was fetched.
    ///
    /// # Errors
    /// It is none.
    async fn read(
        &self,
        task_id: &str,
        found: redis::Value,
    ) -> Result<Option<TaskRecord>, StoreError> {
        if matches!(&found, redis::Value::Array(parts) if parts.is_empty()) {
            return Ok(None);
        }
        let (base, from, log): (Vec<u8>, u64, Vec<Vec<u8>>) =
            redis::from_redis_value(found).map_err(|why| self.unread(task_id, &why.to_string()))?;
        let mut record: TaskRecord = serde_json::from_slice(&base)
            .map_err(|why| self.unread(task_id, &error_location(&why)))?;
        let many = log.len() >= COMPACT_AFTER_CHANGES;
        for entry in log {
            let (at_ms, change) = entry_of(&entry)
                .ok_or_else(|| self.unread(task_id, "an entry of its log has no time"))?;
            let change: TaskChange = serde_json::from_slice(change)
                .map_err(|why| self.unread(task_id, &error_location(&why)))?;
            record.apply(change, at_ms);
        }
        if many {
            self.compact(&record, from).await;
        }
        Ok(Some(record))
    }

    /// Puts the changes together that made `record` of what it was at revision `from`.
    async fn compact(&self, record: &TaskRecord, from: u64) {
        let Ok(whole) = serde_json::to_vec(record) else {
            return;
        };
        let call = self
            .scripts
            .compact
            .call()
            .arg(&record.task.id)
            .arg(from)
            .arg(record.revision)
            .arg(whole);
        // Nothing is lost where it is not done; the next one to load the task tries again.
        let _: Result<i64, StoreError> = self.connection.call(&call).await;
    }

    pub(super) async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        let call = self.scripts.delete.call().arg(task_id);
        let was: bool = self.connection.call(&call).await?;
        self.mark_ended(task_id);
        Ok(was)
    }

    pub(super) async fn request_cancel(&self, task_id: &str) -> Result<(), StoreError> {
        let call = self.scripts.cancel.call().arg(task_id);
        let said: String = self.connection.call(&call).await?;
        match said.as_str() {
            // What is settled needs no cancelling.
            "ok" | "settled" => Ok(()),
            _ => Err(StoreError::NotFound),
        }
    }

    fn unread(&self, task_id: &str, why: &str) -> StoreError {
        StoreError::Damaged(format!(
            "task `{task_id}` in Redis at {} cannot be read ({why}); another program, or another version of this one, \
             has written under the prefix",
            self.connection.shown()
        ))
    }
}

/// What the scripts say of a task in a list.
pub(super) type Row = (
    String,
    i64,
    String,
    String,
    String,
    String,
    String,
    i64,
    String,
    String,
);

/// Reads what the scripts say of a task.
pub(super) fn summary(row: Row) -> Summary {
    let (id, changed_ms, context_id, owner, agent, state, since_us, created_ms, asked, says) = row;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    Summary {
        id,
        context_id,
        owner,
        agent: some(agent),
        state: parse_state(&state),
        since_us: since_us.parse().ok(),
        created_ms,
        changed_ms,
        asked: some(asked),
        says: some(says),
    }
}

/// A change as it goes over a channel: the revision it made, and itself.
pub(super) fn decode_update(payload: &[u8]) -> Option<(u64, TaskChange)> {
    let (revision, change) = entry_of(payload)?;
    let change = serde_json::from_slice(change).ok()?;
    Some((u64::try_from(revision).ok()?, change))
}

fn entry_of(entry: &[u8]) -> Option<(i64, &[u8])> {
    let space = entry.iter().position(|byte| *byte == b' ')?;
    let (number, rest) = entry.split_at(space);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, rest.get(1..)?))
}

/// Since when a status holds, in microseconds since 1970: Lua's numbers are exact so far.
fn since_us(status: &TaskStatus) -> String {
    status
        .timestamp
        .map(|at| at.timestamp_micros().to_string())
        .unwrap_or_default()
}

fn unwritten(why: Error) -> StoreError {
    StoreError::Failed(format!("the task cannot be written as JSON ({why})"))
}

/// Where JSON is wrong. What is there stays out of it: it may be what a client said.
fn error_location(why: &Error) -> String {
    format!("line {}, column {}", why.line(), why.column())
}
