//! Reads tasks, contexts and push notification configurations.

use std::collections::HashSet;

use a2a::v1_0::{TaskPushNotificationConfig, TaskState};
use bytes::Bytes;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::database::SqlError;
use super::tasks::number;
use crate::store::finished_records::FinishedRecords;
use crate::store::{
    Context, Cursor, Filter, ListedTask, Page, Phase, StoreError, Summary, SummaryPage, Usage,
    body, parse_state, state_name,
};
use crate::task_record::TaskRecord;
use a2a::Version;

/// A record, and the number of changes applied to it.
pub(super) struct LoadedTask {
    pub(super) record: TaskRecord,
    pub(super) changes: usize,
    /// Whether the row of the task has the whole record.
    pub(super) in_row: bool,
}

impl LoadedTask {
    /// Returns whether the store should compact the task.
    pub(super) fn is_loose(&self) -> bool {
        self.changes >= body::MAX_CHANGES || (self.record.is_terminal() && !self.in_row)
    }
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
    /// Any number, because a wrong one must not hide what else the row has.
    sum: Option<i64>,
    json: Vec<u8>,
}

/// The log of a task, and the revision in the row of the task; `None` if the row is missing. The log of a compacted
/// terminal task is the record in its row.
#[derive(Default)]
pub(super) struct Log {
    rows: Vec<LogRow>,
    revision: Option<i64>,
    in_row: bool,
}

impl Log {
    /// Returns the record of a compacted terminal task as JSON, if it is intact.
    pub(super) fn into_whole(mut self) -> Result<Vec<u8>, Self> {
        match self.rows.pop() {
            Some(row) if self.in_row && row.sum == Some(checksum(&row.json)) => Ok(row.json),
            row => {
                self.rows.extend(row);
                Err(self)
            }
        }
    }
}

/// Reads the log of a task. The log is empty if the task does not exist.
pub(super) fn log(connection: &Connection, id: &str) -> Result<Log, SqlError> {
    // One transaction, so that the log and the row have the same revision.
    let transaction = connection.unchecked_transaction()?;
    let found = transaction
        .prepare_cached("SELECT key, revision, changed_ms, sum, body FROM tasks WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, log_in_row(row)?)))
        .optional()?;
    let Some((key, mut log)) = found else {
        return Ok(Log::default());
    };
    if !log.in_row {
        log.rows = log_rows(&transaction, key)?;
    }
    Ok(log)
}

/// Reads revision, time, checksum and body from a row of a task, after its first column.
fn log_in_row(row: &rusqlite::Row<'_>) -> Result<Log, rusqlite::Error> {
    let revision = row.get(1)?;
    let body: Option<Vec<u8>> = row.get(4)?;
    let rows = match body {
        Some(json) => vec![LogRow {
            revision,
            at_ms: row.get(2)?,
            sum: row.get(3)?,
            json,
        }],
        None => Vec::new(),
    };
    Ok(Log {
        in_row: !rows.is_empty(),
        rows,
        revision: Some(revision),
    })
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
    let row = |body: &str| {
        transaction
            .prepare_cached(&format!(
                "SELECT key, revision, changed_ms, {body} FROM tasks WHERE key = ?1"
            ))
            .and_then(|mut select| select.query_row([key], log_in_row))
    };
    // A file of an earlier version has no such columns.
    let row = row("sum, body").or_else(|_| row("NULL, NULL")).optional();
    let (mut log, damage) = match row {
        Ok(found) => (found.unwrap_or_default(), None),
        Err(error) => (Log::default(), Some(error)),
    };
    if !log.in_row {
        log.rows = log_rows(&transaction, key)?;
    }
    if let Some(error) = damage.filter(|_| log.rows.is_empty()) {
        return Err(error.into());
    }
    Ok(assemble(&format!("number {key}"), log)?)
}

fn checksum(json: &[u8]) -> i64 {
    i64::from(crc32fast::hash(json))
}

/// Decodes the log of a task, applies the changes, and checks that the log is complete.
pub(super) fn assemble(id: &str, log: Log) -> Result<Option<LoadedTask>, StoreError> {
    let mut loaded: Option<LoadedTask> = None;
    let in_row = log.in_row;
    for row in log.rows {
        let revision = row.revision;
        if row.sum != Some(checksum(&row.json)) {
            return Err(unreadable(
                id,
                &format!("its revision {revision} is damaged"),
            ));
        }
        let read = match &mut loaded {
            None => body::decode_record(&row.json).map(|record| {
                loaded = Some(LoadedTask {
                    record,
                    changes: 0,
                    in_row,
                });
            }),
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

/// Returns a page of tasks. `total` is their number, if it is known.
pub(super) fn page(
    connection: &Connection,
    filter: &Filter,
    total: Option<usize>,
) -> Result<SummaryPage, SqlError> {
    let transaction = connection.unchecked_transaction()?;
    select(&transaction, filter, total, SUMMARY, summary, Cursor::new)
}

/// Returns the same page with the sizes of the records in the rows of tasks, and the records that fit, together at most
/// `json_bytes`.
pub(super) fn listed(
    connection: &Connection,
    filter: &Filter,
    total: Option<usize>,
    known: &FinishedRecords,
    json_bytes: usize,
) -> Result<Page<ListedTask>, SqlError> {
    let transaction = connection.unchecked_transaction()?;
    // Rows are sorted without their records. SQLite reads a record only where its column is asked for.
    let mut keys = Vec::new();
    let each = |row: &rusqlite::Row<'_>| {
        keys.push(row.get::<_, i64>(0)?);
        Ok(ListedTask::new(Cursor {
            changed_ms: row.get(1)?,
            task_id: row.get(2)?,
        }))
    };
    let columns = "key, changed_ms, id";
    let place = ListedTask::place;
    let mut page = select(&transaction, filter, total, columns, each, place)?;
    let owner = filter.owner.as_deref();
    let mut left = known.fill(owner, &mut page.tasks, json_bytes);
    let mut find =
        transaction.prepare_cached("SELECT sum, body, length(body) FROM tasks WHERE key = ?1")?;
    let read = page.tasks.iter_mut().zip(keys);
    for (task, key) in read.filter(|(task, _)| task.bytes.is_none()) {
        let found = find.query_row([key], |row| match row.get::<_, Option<i64>>(2)? {
            Some(size) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                task.set_record(size, || intact(row), &mut left)
            }
            None => Ok(()),
        });
        match found {
            Ok(()) => known.put(owner, task),
            // The load of the task reports a damage.
            Err(_) => task.bytes = None,
        }
    }
    Ok(page)
}

/// Returns the records in the rows of tasks.
pub(super) fn bodies(
    connection: &Connection,
    ids: &[String],
) -> Result<Vec<Option<Bytes>>, SqlError> {
    let mut find = connection.prepare_cached("SELECT sum, body FROM tasks WHERE id = ?1")?;
    // The load of the task reports a damage.
    let body = |id| find.query_row([id], intact).unwrap_or_default();
    Ok(ids.iter().map(body).collect())
}

/// Returns the record in a row with its checksum and its bytes; `None` if it has none or is damaged.
fn intact(row: &rusqlite::Row<'_>) -> Result<Option<Bytes>, rusqlite::Error> {
    let body = row.get_ref(1)?.as_blob_or_null()?;
    let sum: Option<i64> = row.get(0)?;
    let intact = body.filter(|body| sum == Some(checksum(body)));
    Ok(intact.map(Bytes::copy_from_slice))
}

/// Returns what `each` makes of the rows of a page.
fn select<T>(
    transaction: &Connection,
    filter: &Filter,
    total: Option<usize>,
    columns: &str,
    mut each: impl FnMut(&rusqlite::Row<'_>) -> Result<T, rusqlite::Error>,
    place: impl FnOnce(&T) -> Cursor,
) -> Result<Page<T>, SqlError> {
    let (mut clauses, mut values) = conditions(filter);
    let total = match total {
        Some(total) => total,
        None => {
            let count = format!("SELECT count(*) FROM tasks{}", all_of(&clauses));
            let mut count = transaction.prepare_cached(&count)?;
            let total: i64 = count.query_row(params_from_iter(&values), |row| row.get(0))?;
            usize::try_from(total).unwrap_or_default()
        }
    };
    if let Some(after) = &filter.after {
        clauses.push("(changed_ms, id) < (?, ?)");
        values.push(Value::Integer(after.changed_ms));
        values.push(Value::Text(after.task_id.clone()));
    }
    // Read one more task than the page has, to find out whether another page follows.
    let limit = i64::try_from(filter.page_size.saturating_add(1)).unwrap_or(i64::MAX);
    values.push(Value::Integer(limit));
    let mut select = transaction.prepare_cached(&format!(
        "SELECT {columns} FROM tasks{} ORDER BY changed_ms DESC, id DESC LIMIT ?",
        all_of(&clauses)
    ))?;
    let mut rows = select.query(params_from_iter(&values))?;
    let (mut tasks, mut more) = (Vec::new(), false);
    while let Some(row) = rows.next()? {
        if tasks.len() == filter.page_size {
            more = true;
            break;
        }
        tasks.push(each(row)?);
    }
    // A known total may be older than the transaction.
    let total = total.max(tasks.len() + usize::from(more));
    Ok(Page::new(tasks, more, total, place))
}

fn conditions(filter: &Filter) -> (Vec<&'static str>, Vec<Value>) {
    let mut clauses = Vec::new();
    let mut values = Vec::new();
    let is_open = |state: &TaskState| Phase::new(state) != Phase::Terminal;
    let few_open = filter.state.as_ref().is_some_and(is_open);
    if few_open {
        clauses.push("phase < 2");
    }
    if let Some(owner) = &filter.owner {
        // The `+` keeps SQLite from reading all tasks of the owner in their order.
        clauses.push(match few_open {
            true => "+owner = ?",
            false => "owner = ?",
        });
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
        "SELECT pushes.body, version FROM pushes JOIN tasks ON task = key WHERE id = ?1 ORDER BY place",
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

/// Returns whether the file was upgraded from version 1, and its terminal tasks may still have their records in `log`: then it
/// has an index that no query uses any more.
pub(super) fn is_upgraded(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let index = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tasks_settled')";
    connection.query_row(index, [], |row| row.get(0))
}

/// Returns the keys of at most `limit` terminal tasks after the key `after` whose records are in `log`.
pub(super) fn loose(
    connection: &Connection,
    after: i64,
    limit: usize,
) -> Result<Vec<i64>, rusqlite::Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(
        "SELECT key FROM tasks WHERE key > ?1 AND phase = 2 AND body IS NULL ORDER BY key LIMIT ?2",
    )?;
    let keys = select.query_map([after, limit], |row| row.get(0))?;
    keys.collect()
}

/// Returns at most `limit` of the terminal tasks that exceed the retention. Only the clients `crowded` may have more
/// than `count`.
pub(super) fn expired(
    connection: &Connection,
    before_ms: i64,
    count: usize,
    crowded: &[String],
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
    // A small index has all open tasks.
    let mut settled = connection.prepare_cached(
        "SELECT coalesce((SELECT tasks FROM totals WHERE owner = ?1), 0) - (SELECT count(*) FROM tasks WHERE phase < 2 AND +owner = ?1)",
    )?;
    let mut oldest = connection.prepare_cached(
        "SELECT id FROM tasks WHERE phase = 2 AND owner = ?1 ORDER BY changed_ms, id LIMIT ?2",
    )?;
    for owner in crowded {
        let settled: i64 = settled.query_row([owner], |row| row.get(0))?;
        if settled > count {
            let oldest = oldest.query_map(params![owner, (settled - count).min(limit)], |row| {
                row.get(0)
            })?;
            return Ok(oldest.collect::<Result<_, _>>()?);
        }
    }
    Ok(Vec::new())
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
        "SELECT id FROM tasks WHERE phase < 2 AND phase = 1 AND changed_ms < ?1 ORDER BY changed_ms, id LIMIT ?2 OFFSET ?3",
    )?;
    let rows = select.query_map([before_ms, limit, skip], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the bytes and the number of each client's tasks.
pub(super) fn usage(connection: &Connection) -> Result<Usage, rusqlite::Error> {
    let mut select = connection.prepare("SELECT owner, bytes, tasks FROM totals")?;
    let mut rows = select.query([])?;
    let usage = Usage::default();
    while let Some(row) = rows.next()? {
        usage.add(row.get_ref(0)?.as_str()?, row.get(1)?, row.get(2)?);
    }
    Ok(usage)
}

/// Returns the clients whose totals are not those of their tasks; none for a file of an earlier version.
pub(super) fn with_wrong_totals(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    if !connection.table_exists(None, "totals")? {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare(
        "WITH counted AS (SELECT owner, count(*), sum(bytes) FROM tasks GROUP BY owner), stored AS (SELECT owner, tasks, bytes FROM totals)
         SELECT owner FROM (SELECT * FROM counted EXCEPT SELECT * FROM stored)
         UNION SELECT owner FROM (SELECT * FROM stored EXCEPT SELECT * FROM counted)",
    )?;
    let owners = select.query_map([], |row| row.get(0))?;
    owners.collect()
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
