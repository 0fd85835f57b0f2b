//! A task in Redis: its record at some revision, and the later changes.
//!
//! `task:ID` is a hash, and `log:ID` a list of changes. The cost of an append does not grow with the task. The last
//! change of a task stores its record with a checksum and deletes the log. Loading a task with many changes, or a
//! terminal one with a log, compacts them.

use std::collections::BTreeMap;
use std::string::FromUtf8Error;

use redis::{FromRedisValue, ParsingError};

use super::Inner;
use crate::store::{Cursor, ListedTask, Loaded, Phase, StoreError, Summary, body, parse_state};
use crate::task_record::{TaskChange, TaskRecord};

/// What Redis has of a task: its record at the revision `from`, and the log of later changes.
struct Found {
    base: Vec<u8>,
    from: u64,
    owner: Vec<u8>,
    revision: u64,
    log: Vec<Vec<u8>>,
    /// Empty if the task is not terminal.
    settled: Vec<u8>,
    /// The checksum of the record of a terminal task.
    sum: Vec<u8>,
}

impl Found {
    /// Returns whether `base` is the record of a finished task with its checksum, as [`with_sum`] computes it.
    fn is_whole(&self, task_id: &str) -> bool {
        let sum = |owner| checksum(task_id, owner, &self.revision.to_string(), &self.base);
        let owner = std::str::from_utf8(&self.owner);
        !self.settled.is_empty()
            && self.revision == self.from
            && owner.is_ok_and(|owner| self.sum == sum(owner).as_bytes())
    }
}

impl Inner {
    /// Returns the outcome of a script that changes a task, with the phase after the change.
    pub(super) fn outcome(
        &self,
        task_id: &str,
        phase: Option<Phase>,
        reply: &str,
    ) -> Result<(), StoreError> {
        match reply {
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
            "gone" => {
                self.mark_ended(task_id);
                Err(StoreError::NotFound)
            }
            "damaged" => Err(self.unreadable(task_id, "fields are missing or have other types")),
            _ => Err(self.connection.unexpected_answer()),
        }
    }

    pub(super) async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let _permit = self.loads.acquire().await;
        match self.fetch(task_id).await? {
            Some(found) => self.read(task_id, found).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn load_stored(&self, task_id: &str) -> Result<Option<Loaded>, StoreError> {
        let _permit = self.loads.acquire().await;
        Ok(match self.fetch(task_id).await? {
            None => None,
            Some(found) if found.is_whole(task_id) => Some(Loaded::Json(found.base.into())),
            Some(found) => Some(Loaded::Record(Box::new(self.read(task_id, found).await?))),
        })
    }

    /// Reads the record and the changes of a task.
    async fn fetch(&self, task_id: &str) -> Result<Option<Found>, StoreError> {
        let call = self.scripts.load.call().arg(task_id);
        let found: redis::Value = self.connection.call(&call).await?;
        if matches!(&found, redis::Value::Array(parts) if parts.is_empty()) {
            return Ok(None);
        }
        // The error contains the value.
        let parts = redis::from_redis_value(found)
            .map_err(|_| self.unreadable(task_id, "fields are missing or have other types"))?;
        let (base, from, owner, revision, log, settled, sum) = parts;
        Ok(Some(Found {
            base,
            from,
            owner,
            revision,
            log,
            settled,
            sum,
        }))
    }

    /// Decodes a task.
    ///
    /// # Errors
    /// The stored values are not a valid task.
    async fn read(&self, task_id: &str, found: Found) -> Result<TaskRecord, StoreError> {
        let Found {
            base,
            from,
            owner,
            revision,
            log,
            ..
        } = found;
        let mut record =
            body::decode_record(&base).map_err(|error| self.unreadable(task_id, &error))?;
        let is_consistent = record.task.id == task_id
            && record.owner.as_bytes() == owner
            && record.revision == from
            && revision >= from
            // Redis counts revisions, too.
            && i64::try_from(from).is_ok_and(|from| from < i64::MAX / 2);
        if !is_consistent {
            return Err(self.unreadable(task_id, "its record has another id, owner or revision"));
        }
        let changes = changes_of(&log, from)
            .ok_or_else(|| self.unreadable(task_id, "an entry of its log has no time"))?;
        for (_, (at_ms, change)) in changes.range(from + 1..revision.saturating_add(1)) {
            body::apply(&mut record, *at_ms, change)
                .map_err(|error| self.unreadable(task_id, &error))?;
        }
        if record.revision != revision {
            return Err(self.unreadable(task_id, "its log lacks changes"));
        }
        if log.len() >= body::MAX_CHANGES || (record.is_terminal() && !log.is_empty()) {
            self.compact(&record, from, log.len()).await;
        }
        Ok(record)
    }

    /// Replaces the record at revision `from` and the first `entries` of the log by `record`.
    async fn compact(&self, record: &TaskRecord, from: u64, entries: usize) {
        let Ok((encoded, sum)) = with_sum(record) else {
            return;
        };
        let call = self
            .scripts
            .compact
            .call()
            .arg(&record.task.id)
            .arg(from)
            .arg(record.revision)
            .arg(encoded)
            .arg(entries)
            .arg(sum);
        // A failure loses no data: the next load tries again.
        let _: Result<i64, StoreError> = self.connection.call(&call).await;
    }

    pub(super) async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        let call = self.scripts.delete.call().arg(task_id);
        let existed: bool = self.connection.call(&call).await?;
        self.mark_ended(task_id);
        self.finished.remove(task_id);
        Ok(existed)
    }

    pub(super) async fn request_cancel(&self, task_id: &str) -> Result<(), StoreError> {
        let call = self.scripts.cancel.call().arg(task_id);
        let reply: String = self.connection.call(&call).await?;
        match reply.as_str() {
            // A terminal task needs no cancel request.
            "ok" | "settled" => Ok(()),
            "gone" => Err(StoreError::NotFound),
            _ => Err(self.connection.unexpected_answer()),
        }
    }

    fn unreadable(&self, task_id: &str, cause: &str) -> StoreError {
        StoreError::Damaged(format!(
            "task `{task_id}` in Redis at {} cannot be read ({cause}); another program, or another version of this one, \
             has written under the prefix",
            self.connection.display_address()
        ))
    }
}

/// A text of a summary, in which another program may have written any bytes.
pub(super) struct Text(pub(super) String);

impl FromRedisValue for Text {
    fn from_redis_value(value: redis::Value) -> Result<Self, ParsingError> {
        let bytes: Vec<u8> = redis::from_redis_value(value)?;
        let text = String::from_utf8(bytes);
        let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
        Ok(Self(text.unwrap_or_else(lossy)))
    }
}

/// A summary in the form that the scripts return.
pub(super) type Row = (Text, i64, Text, Text, Text, Text, Text, Text, Text, Text);

/// Converts a row to a summary.
pub(super) fn summary(row: Row) -> Summary {
    let (
        id,
        changed_ms,
        context_id,
        owner,
        agent,
        state,
        since_us,
        created_ms,
        request_excerpt,
        status_excerpt,
    ) = row;
    let some = |Text(text): Text| Some(text).filter(|text| !text.is_empty());
    Summary {
        id: id.0,
        context_id: context_id.0,
        owner: owner.0,
        agent: some(agent),
        state: parse_state(&state.0),
        since_us: since_us.0.parse().ok(),
        created_ms: created_ms.0.parse().unwrap_or(changed_ms),
        changed_ms,
        request_excerpt: some(request_excerpt),
        status_excerpt: some(status_excerpt),
    }
}

/// Returns the tasks that `list.lua` returns as ids and scores in turns.
pub(super) fn places(rows: Vec<Text>) -> Vec<ListedTask> {
    // A number that Lua represents exactly.
    const MAX: i64 = 1 << 53;
    let mut rows = rows.into_iter();
    let next = || {
        let (Text(task_id), Text(score)) = (rows.next()?, rows.next()?);
        // Another program may have written any score.
        let rounded = |_| score.parse().map_or(0, |score: f64| score.floor() as i64);
        let changed_ms = score.parse().unwrap_or_else(rounded).clamp(-MAX, MAX);
        Some(ListedTask::new(Cursor {
            changed_ms,
            task_id,
        }))
    };
    std::iter::from_fn(next).collect()
}

type Field = Option<Text>;

/// A record as `records.lua` returns it: its size, the owner, the revision, the checksum and the JSON.
pub(super) type MeasuredRecord = (usize, Field, Field, Field, Option<Vec<u8>>);

/// Sets the size of a listed task, and its record if `record` has it. A record counts only with its checksum, because another
/// program, or an earlier version of this one, may have written it; and only for the client `only`, because another program
/// may have added it to a list.
pub(super) fn set_record(task: &mut ListedTask, only: Option<&str>, record: MeasuredRecord) {
    let id = &task.place.task_id;
    match record {
        (_, Some(owner), Some(revision), Some(sum), Some(json)) => {
            let is_own = only.is_none_or(|only| only == owner.0);
            if is_own && sum.0 == checksum(id, &owner.0, &revision.0, &json) {
                task.bytes = Some(json.len());
                task.json = Some(json.into());
            }
        }
        (size, ..) => task.bytes = Some(size),
    }
}

/// Returns a record as JSON, and its checksum.
pub(super) fn with_sum(record: &TaskRecord) -> Result<(Vec<u8>, String), StoreError> {
    let json = body::encode(record)?;
    let revision = record.revision.to_string();
    let sum = checksum(&record.task.id, &record.owner, &revision, &json);
    Ok((json, sum))
}

/// Returns the CRC-32 of a record and what it belongs to.
fn checksum(id: &str, owner: &str, revision: &str, json: &[u8]) -> String {
    let mut sum = crc32fast::Hasher::new();
    for part in [id, owner, revision] {
        sum.update(part.as_bytes());
        sum.update(b" ");
    }
    sum.update(json);
    sum.finalize().to_string()
}

/// Decodes a message of a task's channel: a revision and its change.
pub(super) fn decode_update(payload: &[u8]) -> Option<(u64, TaskChange)> {
    let (revision, change) = entry_of(payload)?;
    let change = body::decode_change(change).ok()?;
    Some((u64::try_from(revision).ok()?, change))
}

/// Returns the changes of a log whose record has the revision `from`, by their revision, with their time. Redis may repeat
/// entries after a kill; the last one of a revision is the stored one.
fn changes_of(log: &[Vec<u8>], from: u64) -> Option<BTreeMap<u64, (i64, &[u8])>> {
    let mut changes = BTreeMap::new();
    let mut last = from;
    for entry in log {
        let (number, rest) = entry_of(entry)?;
        let (revision, change) = if rest.starts_with(b"{") {
            // Earlier versions stored no revision.
            (last.checked_add(1)?, (number, rest))
        } else {
            (u64::try_from(number).ok()?, entry_of(rest)?)
        };
        changes.insert(revision, change);
        last = revision;
    }
    Some(changes)
}

/// Splits a number from what follows it.
fn entry_of(entry: &[u8]) -> Option<(i64, &[u8])> {
    let space = entry.iter().position(|byte| *byte == b' ')?;
    let (number, rest) = entry.split_at(space);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, rest.get(1..)?))
}
