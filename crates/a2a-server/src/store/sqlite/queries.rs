//! Reads tasks, contexts and push notification configurations.

use std::collections::HashSet;

use a2a::v1_0::TaskPushNotificationConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::database::SqlError;
use super::tasks::number;
use crate::store::{
    Context, Filter, StoreError, Summary, SummaryPage, body, parse_state, state_name,
};
use crate::task_record::TaskRecord;
use a2a::Version;

/// A record, and the number of changes applied to it.
pub(super) struct LoadedTask {
    pub(super) record: TaskRecord,
    pub(super) changes: usize,
}

const SUMMARY: &str =
    "id, context, owner, agent, state, since_us, created_ms, changed_ms, asked, says";

/// Reads a row with the columns of [`SUMMARY`].
fn summary(row: &rusqlite::Row<'_>) -> Result<Summary, rusqlite::Error> {
    Ok(Summary {
        id: row.get(0)?,
        context_id: row.get(1)?,
        owner: row.get(2)?,
        agent: row.get(3)?,
        state: parse_state(row.get_ref(4)?.as_str()?),
        since_us: row.get(5)?,
        created_ms: row.get(6)?,
        changed_ms: row.get(7)?,
        request_excerpt: row.get(8)?,
        status_excerpt: row.get(9)?,
    })
}

/// A row of a task's log.
pub(super) struct LogRow {
    revision: i64,
    at_ms: i64,
    sum: u32,
    json: Vec<u8>,
}

/// The log of a task, and the revision in the row of the task; `None` if the row is missing.
pub(super) struct Log {
    rows: Vec<LogRow>,
    revision: Option<i64>,
}

/// Reads the log of a task. The log is empty if the task does not exist.
pub(super) fn log(connection: &Connection, id: &str) -> Result<Log, SqlError> {
    // One transaction, so that the log and the row have the same revision.
    let transaction = connection.unchecked_transaction()?;
    let found = transaction
        .prepare_cached("SELECT key, revision FROM tasks WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (rows, revision) = match found {
        Some((key, revision)) => (log_rows(&transaction, key)?, Some(revision)),
        None => (Vec::new(), None),
    };
    Ok(Log { rows, revision })
}

fn log_rows(connection: &Connection, key: i64) -> Result<Vec<LogRow>, rusqlite::Error> {
    let mut select = connection.prepare_cached(
        "SELECT revision, at_ms, sum, body FROM log WHERE task = ?1 ORDER BY revision",
    )?;
    let rows = select.query_map([key], log_row)?;
    rows.collect()
}

fn log_row(row: &rusqlite::Row<'_>) -> Result<LogRow, rusqlite::Error> {
    Ok(LogRow {
        revision: row.get(0)?,
        at_ms: row.get(1)?,
        sum: row.get(2)?,
        json: row.get(3)?,
    })
}

/// Loads a task by its key. Works with a damaged row if the log is intact.
pub(super) fn load_key(connection: &Connection, key: i64) -> Result<Option<LoadedTask>, SqlError> {
    let transaction = connection.unchecked_transaction()?;
    let rows = log_rows(&transaction, key)?;
    let row = transaction
        .prepare_cached("SELECT revision FROM tasks WHERE key = ?1")
        .and_then(|mut select| select.query_row([key], |row| row.get(0)));
    let log = Log {
        rows,
        revision: row.ok(),
    };
    Ok(assemble(&format!("number {key}"), log)?)
}

/// Decodes the log of a task, applies the changes, and checks that the log is complete.
pub(super) fn assemble(id: &str, log: Log) -> Result<Option<LoadedTask>, StoreError> {
    let mut loaded: Option<LoadedTask> = None;
    for row in log.rows {
        let revision = row.revision;
        if crc32fast::hash(&row.json) != row.sum {
            return Err(unreadable(
                id,
                &format!("its revision {revision} is damaged"),
            ));
        }
        let read = match &mut loaded {
            None => body::decode_record(&row.json)
                .map(|record| loaded = Some(LoadedTask { record, changes: 0 })),
            Some(loaded) => {
                loaded.changes += 1;
                body::apply(&mut loaded.record, row.at_ms, &row.json)
            }
        };
        read.map_err(|cause| unreadable(id, &cause))?;
        if loaded
            .as_ref()
            .is_some_and(|loaded| number(loaded.record.revision) != revision)
        {
            let cause = format!("the changes before its revision {revision} are missing");
            return Err(unreadable(id, &cause));
        }
    }
    let found = loaded.as_ref().map(|loaded| number(loaded.record.revision));
    match (log.revision, found) {
        (Some(_), None) => Err(unreadable(id, "its record is missing")),
        (Some(revision), Some(found)) if revision != found => {
            let cause = format!("it is at revision {revision}, and its record ends at {found}");
            Err(unreadable(id, &cause))
        }
        _ => Ok(loaded),
    }
}

fn unreadable(id: &str, cause: &str) -> StoreError {
    StoreError::Damaged(format!(
        "cannot read the task `{id}`: {cause}; delete it, or restore the directory of the task store from a copy"
    ))
}

/// Returns a page of tasks.
pub(super) fn page(connection: &Connection, filter: &Filter) -> Result<SummaryPage, SqlError> {
    let transaction = connection.unchecked_transaction()?;
    let (mut clauses, mut values) = conditions(filter);
    let total: i64 = transaction
        .prepare_cached(&format!("SELECT count(*) FROM tasks{}", all_of(&clauses)))?
        .query_row(params_from_iter(&values), |row| row.get(0))?;
    if let Some(after) = &filter.after {
        clauses.push("(changed_ms, id) < (?, ?)");
        values.push(Value::Integer(after.changed_ms));
        values.push(Value::Text(after.task_id.clone()));
    }
    // Read one more task than the page has, to find out whether another page follows.
    let limit = i64::try_from(filter.page_size.saturating_add(1)).unwrap_or(i64::MAX);
    values.push(Value::Integer(limit));
    let mut select = transaction.prepare_cached(&format!(
        "SELECT {SUMMARY} FROM tasks{} ORDER BY changed_ms DESC, id DESC LIMIT ?",
        all_of(&clauses)
    ))?;
    let rows = select.query_map(params_from_iter(&values), summary)?;
    let mut tasks: Vec<Summary> = rows.collect::<Result<_, _>>()?;
    let more = tasks.len() > filter.page_size;
    tasks.truncate(filter.page_size);
    let total = usize::try_from(total).unwrap_or_default();
    Ok(SummaryPage::new(tasks, more, total))
}

fn conditions(filter: &Filter) -> (Vec<&'static str>, Vec<Value>) {
    let mut clauses = Vec::new();
    let mut values = Vec::new();
    if let Some(owner) = &filter.owner {
        clauses.push("owner = ?");
        values.push(Value::Text(owner.clone()));
    }
    if let Some(context) = &filter.context_id {
        clauses.push("context = ?");
        values.push(Value::Text(context.clone()));
    }
    if let Some(state) = &filter.state {
        clauses.push("state = ?");
        values.push(Value::Text(state_name(state).to_owned()));
    }
    if let Some(after) = &filter.changed_after {
        clauses.push("since_us >= ?");
        values.push(Value::Integer(after.timestamp_micros()));
    }
    (clauses, values)
}

fn all_of(clauses: &[&str]) -> String {
    match clauses {
        [] => String::new(),
        clauses => format!(" WHERE {}", clauses.join(" AND ")),
    }
}

/// Returns a context.
pub(super) fn context(
    connection: &Connection,
    id: &str,
) -> Result<Option<Context>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT owner, session FROM contexts WHERE id = ?1")?
        .query_row([id], |row| {
            Ok(Context {
                owner: row.get(0)?,
                session: row.get(1)?,
            })
        })
        .optional()
}

/// Returns the push configurations of a task in the order of their registration.
pub(super) fn pushes(
    connection: &Connection,
    task_id: &str,
) -> Result<Vec<(TaskPushNotificationConfig, Version)>, SqlError> {
    let mut select = connection.prepare_cached(
        "SELECT body, version FROM pushes JOIN tasks ON task = key WHERE id = ?1 ORDER BY place",
    )?;
    let mut rows = select.query([task_id])?;
    let mut pushes = Vec::new();
    while let Some(row) = rows.next()? {
        let (json, version): (String, String) = (row.get(0)?, row.get(1)?);
        let config = serde_json::from_str(&json)
            .map_err(|_| unreadable(task_id, "one of its push configurations is damaged"))?;
        let version = match version.as_str() {
            "0.3" => Version::V0_3,
            _ => Version::V1_0,
        };
        pushes.push((config, version));
    }
    Ok(pushes)
}

/// Returns the ids of the tasks with push configurations.
pub(super) fn with_pushes(connection: &Connection) -> Result<HashSet<String>, rusqlite::Error> {
    let mut select =
        connection.prepare("SELECT id FROM tasks WHERE key IN (SELECT task FROM pushes)")?;
    let ids = select.query_map([], |row| row.get(0))?;
    ids.collect()
}

/// Returns the unfinished tasks whose keys are at most `last`.
pub(super) fn open(connection: &Connection, last: i64) -> Result<Vec<Summary>, SqlError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT {SUMMARY} FROM tasks WHERE phase < 2 AND key <= ?1"
    ))?;
    let rows = select.query_map([last], summary)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the key of the newest task.
pub(super) fn last_key(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("SELECT coalesce(max(key), 0) FROM tasks", [], |row| {
        row.get(0)
    })
}

/// Returns at most `limit` of the terminal tasks that exceed the retention.
pub(super) fn expired(
    connection: &Connection,
    before_ms: i64,
    count: usize,
    limit: usize,
) -> Result<Vec<String>, SqlError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut old = connection.prepare_cached(
        "SELECT id FROM tasks WHERE changed_ms < ?1 AND phase = 2 ORDER BY changed_ms, id LIMIT ?2",
    )?;
    let old = old.query_map([before_ms, limit], |row| row.get(0))?;
    let old: Vec<String> = old.collect::<Result<_, _>>()?;
    if !old.is_empty() {
        return Ok(old);
    }
    let mut crowded = connection.prepare_cached(
        "SELECT owner, count(*) FROM tasks WHERE phase = 2 GROUP BY owner HAVING count(*) > ?1 LIMIT 1",
    )?;
    let crowded = crowded.query_row([count], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((owner, settled)) = crowded.optional()? else {
        return Ok(Vec::new());
    };
    let (owner, settled): (String, i64) = (owner, settled);
    let mut oldest = connection.prepare_cached(
        "SELECT id FROM tasks WHERE phase = 2 AND owner = ?1 ORDER BY changed_ms, id LIMIT ?2",
    )?;
    let oldest = oldest.query_map(params![owner, (settled - count).min(limit)], |row| {
        row.get(0)
    })?;
    Ok(oldest.collect::<Result<_, _>>()?)
}

/// Returns the interrupted tasks that last changed before `before_ms`, the oldest first.
pub(super) fn unanswered(
    connection: &Connection,
    before_ms: i64,
    skip: usize,
    limit: usize,
) -> Result<Vec<String>, SqlError> {
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(
        "SELECT id FROM tasks WHERE phase = 1 AND changed_ms < ?1 ORDER BY changed_ms, id LIMIT ?2 OFFSET ?3",
    )?;
    let rows = select.query_map([before_ms, limit, skip], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the bytes of each client's tasks.
pub(super) fn usage(connection: &Connection) -> Result<Vec<(String, i64)>, rusqlite::Error> {
    let mut select =
        connection.prepare("SELECT owner, sum(bytes) FROM tasks GROUP BY owner ORDER BY owner")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Returns the oldest terminal tasks of a client that have `bytes` together. Returns no tasks if all of them have fewer
/// bytes.
pub(super) fn oldest(
    connection: &Connection,
    owner: &str,
    bytes: u64,
) -> Result<Vec<String>, SqlError> {
    let mut select = connection.prepare_cached(
        "SELECT id, bytes FROM tasks WHERE phase = 2 AND owner = ?1 ORDER BY changed_ms, id",
    )?;
    let rows = select.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(crate::store::oldest(rows, bytes)?)
}
