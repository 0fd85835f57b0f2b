//! A task in Redis: its record at some revision, and the changes since.
//!
//! `task:ID` is a hash, `log:ID` a list of changes. Appending does not grow with the task. Loading a task with many
//! changes compacts them.

use a2a::v1_0::{Role, TaskStatus};
use serde_json::Error;

use super::inner::Inner;
use crate::store::{Phase, StoreError, Summary, parse_state, state_word};
use crate::task_record::{TaskChange, TaskRecord, excerpt};

/// The number of changes from which loading a task compacts its log.
const COMPACT_AFTER_CHANGES: usize = 64;

/// Returns the word of the scripts for a phase.
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
        // A run survives a restart of Redis. After the lease, another server owns it.
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
                    "another server took the task over: the lease of this server had expired"
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

    /// Reads the stored parts of a task.
    async fn fetch(&self, task_id: &str) -> Result<redis::Value, StoreError> {
        let call = self.scripts.load.call().arg(task_id);
        self.connection.call(&call).await
    }

    /// Decodes a task.
    ///
    /// # Errors
    /// The stored parts are no task.
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

    /// Replaces the record at revision `from` and the changes up to `record` with `record`.
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
        // A failure loses nothing: the next load tries again.
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
            // An ended task needs no cancel request.
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

/// A task in a list, as the scripts return it.
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

/// Converts a row of a list.
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

/// Decodes a message of a channel: a revision and its change.
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

/// Returns the timestamp of a status in microseconds since 1970, which Lua's numbers hold exactly.
fn since_us(status: &TaskStatus) -> String {
    status
        .timestamp
        .map(|at| at.timestamp_micros().to_string())
        .unwrap_or_default()
}

fn unwritten(why: Error) -> StoreError {
    StoreError::Failed(format!("cannot write the task as JSON: {why}"))
}

/// Describes where JSON is wrong. The text itself stays out of the error, because it may be a client's.
fn error_location(why: &Error) -> String {
    format!("line {}, column {}", why.line(), why.column())
}
