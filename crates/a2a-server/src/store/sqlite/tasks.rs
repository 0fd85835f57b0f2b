//! Writes tasks, contexts and push notification configurations.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::database::SqlError;
use super::writer::Transaction;
use crate::store::{Phase, StatusChange, StoreError, Summary, SummaryChange, length, state_name};
use a2a::Version;

/// The bytes of the push notification configurations of a task, in SQL.
macro_rules! push_bytes {
    () => {
        "(SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM pushes WHERE task = key)"
    };
}

/// A new task.
pub(super) struct NewTask {
    pub(super) summary: Summary,
    pub(super) session: String,
    pub(super) revision: u64,
    /// The record as JSON.
    pub(super) json: Vec<u8>,
}

pub(super) fn create(transaction: &Transaction, new: &NewTask) -> Result<(), SqlError> {
    let task = &new.summary;
    let revision = number(new.revision);
    let mut insert = transaction.prepare_cached(
        "INSERT INTO tasks (id, owner, context, agent, state, phase, since_us, created_ms, changed_ms, revision, bytes, asked, says)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO NOTHING",
    )?;
    let inserted = insert.execute(params![
        task.id,
        task.owner,
        task.context_id,
        task.agent,
        state_name(&task.state),
        Phase::new(&task.state) as i64,
        task.since_us,
        task.created_ms,
        task.changed_ms,
        revision,
        length(new.json.len()),
        task.request_excerpt,
        task.status_excerpt,
    ])?;
    if inserted == 0 {
        return Err(StoreError::Conflict.into());
    }
    let key = transaction.last_insert_rowid();
    insert_log(transaction, key, revision, task.changed_ms, &new.json)?;
    get_or_create_context(transaction, &task.context_id, &task.owner, &new.session)?;
    transaction.add_to_totals(&task.owner, 1, length(new.json.len()));
    Ok(())
}

/// What writes need of a task that is not terminal.
struct FoundTask {
    key: i64,
    owner: String,
    phase: i64,
    bytes: i64,
}

/// Finds a task that is at `revision`.
///
/// # Errors
/// The task does not exist, is terminal, or has another revision.
fn find(connection: &Connection, id: &str, revision: u64) -> Result<FoundTask, SqlError> {
    let mut find = connection
        .prepare_cached("SELECT key, revision, phase, owner, bytes FROM tasks WHERE id = ?1")?;
    let found = find.query_row([id], |row| {
        let task = FoundTask {
            key: row.get(0)?,
            owner: row.get(3)?,
            phase: row.get(2)?,
            bytes: row.get(4)?,
        };
        Ok((row.get::<_, i64>(1)?, task))
    });
    match found.optional()? {
        None => Err(StoreError::NotFound.into()),
        Some((_, task)) if task.phase == Phase::Terminal as i64 => Err(StoreError::Terminal.into()),
        Some((at, _)) if at != number(revision) => Err(StoreError::Conflict.into()),
        Some((_, task)) => Ok(task),
    }
}

/// Appends changes to a task at `revision` and returns its owner. `encoded` are the changes as JSON, and `effect` is
/// their common effect on the summary.
pub(super) fn append(
    transaction: &Transaction,
    id: &str,
    revision: u64,
    at_ms: i64,
    effect: &SummaryChange,
    encoded: &[Vec<u8>],
) -> Result<String, SqlError> {
    let task = find(transaction, id, revision)?;
    let mut next = number(revision);
    for json in encoded {
        next += 1;
        insert_log(transaction, task.key, next, at_ms, json)?;
    }
    let bytes = length(encoded.iter().map(Vec::len).sum());
    let SummaryChange {
        status,
        request_excerpt,
    } = effect;
    match status {
        Some(StatusChange {
            state,
            since_us,
            status_excerpt,
        }) => transaction
            .prepare_cached(match Phase::new(state) as i64 == task.phase {
                // An index has the phase, so it is set only if it changes.
                true => {
                    "UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4, asked = coalesce(asked, ?5), state = ?6,
                     since_us = ?8, says = ?9 WHERE key = ?1"
                }
                false => {
                    "UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4, asked = coalesce(asked, ?5), state = ?6,
                     phase = ?7, since_us = ?8, says = ?9 WHERE key = ?1"
                }
            })?
            .execute(params![
                task.key,
                at_ms,
                next,
                bytes,
                request_excerpt,
                state_name(state),
                Phase::new(state) as i64,
                since_us,
                status_excerpt
            ])?,
        None => transaction
            .prepare_cached(
                "UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4, asked = coalesce(asked, ?5) WHERE key = ?1",
            )?
            .execute(params![task.key, at_ms, next, bytes, request_excerpt])?,
    };
    transaction.add_to_totals(&task.owner, 0, bytes);
    Ok(task.owner)
}

/// A terminal task as its last changes leave it.
pub(super) struct FinishedTask {
    pub(super) summary: Summary,
    pub(super) revision: u64,
    /// The record as JSON.
    pub(super) json: Vec<u8>,
}

/// Ends a task at the revision `from`: its row gets the record, and its log is deleted. Returns by how many bytes the
/// task grows.
pub(super) fn finish(
    transaction: &Transaction,
    from: u64,
    finished: &FinishedTask,
) -> Result<i64, SqlError> {
    let task = &finished.summary;
    let found = find(transaction, &task.id, from)?;
    delete_log(transaction, found.key)?;
    let push_bytes: i64 = transaction
        .prepare_cached(concat!(
            "SELECT ",
            push_bytes!(),
            " FROM tasks WHERE key = ?1"
        ))?
        .query_row([found.key], |row| row.get(0))?;
    let bytes = length(finished.json.len()) + push_bytes;
    // Without `RETURNING`, for which SQLite creates a table.
    transaction
        .prepare_cached(
            "UPDATE tasks SET sum = ?2, body = ?3, bytes = ?4, changed_ms = ?5, revision = ?6, asked = ?7, state = ?8, phase = ?9,
             since_us = ?10, says = ?11 WHERE key = ?1",
        )?
        .execute(params![
            found.key,
            crc32fast::hash(&finished.json),
            finished.json,
            bytes,
            task.changed_ms,
            number(finished.revision),
            task.request_excerpt,
            state_name(&task.state),
            Phase::new(&task.state) as i64,
            task.since_us,
            task.status_excerpt,
        ])?;
    let more = bytes - found.bytes;
    transaction.add_to_totals(&found.owner, 0, more);
    Ok(more)
}

fn delete_log(connection: &Connection, key: i64) -> Result<usize, rusqlite::Error> {
    connection
        .prepare_cached("DELETE FROM log WHERE task = ?1")?
        .execute([key])
}

fn insert_log(
    connection: &Connection,
    key: i64,
    revision: i64,
    at_ms: i64,
    json: &[u8],
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO log (task, revision, at_ms, sum, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![key, revision, at_ms, crc32fast::hash(json), json])?;
    Ok(())
}

/// Replaces the log up to `revision` by the record `json`, unless another compaction has replaced it already. Returns
/// the difference in bytes.
pub(super) fn compact(
    transaction: &Transaction,
    id: &str,
    revision: u64,
    at_ms: i64,
    json: &[u8],
) -> Result<i64, SqlError> {
    let found: Option<(i64, i64, i64, i64, String, i64)> = transaction
        .prepare_cached(concat!(
            "SELECT key, phase, tasks.revision, bytes, owner, ",
            push_bytes!(),
            " FROM tasks JOIN log ON task = key AND log.revision = ?2 WHERE id = ?1"
        ))?
        .query_row(params![id, number(revision)], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
            ))
        })
        .optional()?;
    let Some((key, phase, last, before, owner, push_bytes)) = found else {
        return Ok(0);
    };
    // The task may have ended since `json` was loaded; then the log has changes that `json` lacks.
    if phase == Phase::Terminal as i64 && last == number(revision) {
        delete_log(transaction, key)?;
        let bytes = length(json.len()) + push_bytes;
        transaction
            .prepare_cached("UPDATE tasks SET sum = ?2, body = ?3, bytes = ?4 WHERE key = ?1")?
            .execute(params![key, crc32fast::hash(json), json, bytes])?;
        transaction.add_to_totals(&owner, 0, bytes - before);
        return Ok(bytes - before);
    }
    transaction
        .prepare_cached("DELETE FROM log WHERE task = ?1 AND revision <= ?2")?
        .execute(params![key, number(revision)])?;
    insert_log(transaction, key, number(revision), at_ms, json)?;
    Ok(count_bytes(transaction, key)?.1)
}

/// A deleted task.
pub(super) struct DeletedTask {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) bytes: i64,
    pub(super) is_terminal: bool,
}

/// Deletes a task with its log and configurations, and its context if that was its last task.
pub(super) fn delete(transaction: &Transaction, id: &str) -> Result<Option<DeletedTask>, SqlError> {
    let row = |row: &rusqlite::Row<'_>| {
        let deleted = DeletedTask {
            id: id.to_owned(),
            owner: row.get(2)?,
            bytes: row.get(3)?,
            is_terminal: row.get::<_, i64>(4)? == Phase::Terminal as i64,
        };
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, deleted))
    };
    let found = transaction
        .prepare_cached("SELECT key, context, owner, bytes, phase FROM tasks WHERE id = ?1")?
        .query_row([id], row)
        .optional()?;
    let Some((key, context, deleted)) = found else {
        return Ok(None);
    };
    for delete in [
        "DELETE FROM log WHERE task = ?1",
        "DELETE FROM pushes WHERE task = ?1",
        "DELETE FROM tasks WHERE key = ?1",
    ] {
        transaction.prepare_cached(delete)?.execute([key])?;
    }
    transaction
        .prepare_cached(
            "DELETE FROM contexts WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM tasks WHERE context = ?1)",
        )?
        .execute([context])?;
    transaction.add_to_totals(&deleted.owner, -1, -deleted.bytes);
    Ok(Some(deleted))
}

/// Returns up to 128 free pages of the file to the file system.
pub(super) fn shrink(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(128)")?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Creates a context for `owner` unless it exists.
pub(super) fn get_or_create_context(
    connection: &Connection,
    id: &str,
    owner: &str,
    session: &str,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO contexts (id, owner, session) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING",
        )?
        .execute([id, owner, session])?;
    Ok(())
}

/// Stores a push notification configuration. A replacement keeps the position of the replaced one. Returns the owner of
/// the task, and by how many bytes the task grows.
pub(super) fn put_push(
    transaction: &Transaction,
    task_id: &str,
    config_id: &str,
    version: Version,
    json: &str,
) -> Result<(String, i64), SqlError> {
    let key = key(transaction, task_id)?.ok_or(StoreError::NotFound)?;
    transaction
        .prepare_cached(
            "INSERT INTO pushes (task, config, place, version, body)
             VALUES (?1, ?2, (SELECT coalesce(max(place), 0) + 1 FROM pushes WHERE task = ?1), ?3, ?4)
             ON CONFLICT (task, config) DO UPDATE SET version = excluded.version, body = excluded.body",
        )?
        .execute(params![key, config_id, version.as_str(), json])?;
    count_bytes(transaction, key)
}

/// Deletes a push notification configuration. Returns the owner of the task, and by how many bytes the task grows;
/// `None` if there is no such configuration.
pub(super) fn delete_push(
    transaction: &Transaction,
    task_id: &str,
    config_id: &str,
) -> Result<Option<(String, i64)>, SqlError> {
    let Some(key) = key(transaction, task_id)? else {
        return Ok(None);
    };
    let deleted = transaction
        .prepare_cached("DELETE FROM pushes WHERE config = ?2 AND task = ?1")?
        .execute(params![key, config_id])?;
    match deleted {
        0 => Ok(None),
        _ => count_bytes(transaction, key).map(Some),
    }
}

fn key(connection: &Connection, task_id: &str) -> Result<Option<i64>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT key FROM tasks WHERE id = ?1")?
        .query_row([task_id], |row| row.get(0))
        .optional()
}

/// Counts the bytes of a task again: its record, its log and its push notification configurations. Returns its owner and the
/// difference.
fn count_bytes(transaction: &Transaction, key: i64) -> Result<(String, i64), SqlError> {
    let (owner, before): (String, i64) = transaction
        .prepare_cached("SELECT owner, bytes FROM tasks WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let after: i64 = transaction
        .prepare_cached(concat!(
            "UPDATE tasks SET bytes = coalesce(length(body), 0) + (SELECT coalesce(sum(length(body)), 0) FROM log WHERE task = ?1) + ",
            push_bytes!(),
            " WHERE key = ?1 RETURNING bytes"
        ))?
        .query_row([key], |row| row.get(0))?;
    transaction.add_to_totals(&owner, 0, after - before);
    Ok((owner, after - before))
}

pub(super) fn number(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
