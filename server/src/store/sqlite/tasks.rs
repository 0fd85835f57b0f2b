//! Tasks, contexts and push configurations as rows.

use a2a::{TaskPushNotificationConfig, TaskState};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::database::SqlError;
use crate::caller::Version;
use crate::record::{Change, Record};
use crate::store::body;
use crate::store::{
    Context, Cursor, Filter, Listed, Phase, StoreError, Summary, since_us, state_of, state_word,
};

/// A record, and how many changes it was put together from.
pub(super) struct Loaded {
    pub(super) record: Record,
    pub(super) changes: usize,
}

/// A new task.
pub(super) struct New {
    pub(super) summary: Summary,
    pub(super) session: String,
    pub(super) revision: u64,
    /// Its record.
    pub(super) json: Vec<u8>,
}

/// Inserts a task.
pub(super) fn create(connection: &Connection, new: &New) -> Result<(), SqlError> {
    let task = &new.summary;
    let revision = number(new.revision);
    let mut insert = connection.prepare_cached(
        "INSERT INTO tasks (id, owner, context, agent, state, phase, since_us, created_ms, changed_ms, revision, bytes, asked, says)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO NOTHING",
    )?;
    let inserted = insert.execute(params![
        task.id,
        task.owner,
        task.context_id,
        task.agent,
        state_word(&task.state),
        Phase::of(&task.state) as i64,
        task.since_us,
        task.created_ms,
        task.changed_ms,
        revision,
        length(&new.json),
        task.asked,
        task.says,
    ])?;
    if inserted == 0 {
        return Err(StoreError::Conflict.into());
    }
    let key = connection.last_insert_rowid();
    insert_log(connection, key, revision, task.changed_ms, &new.json)?;
    claim(connection, &task.context_id, &task.owner, &new.session)?;
    Ok(())
}

const SUMMARY: &str =
    "id, context, owner, agent, state, since_us, created_ms, changed_ms, asked, says";

/// Reads the columns of [`SUMMARY`].
fn summary(row: &rusqlite::Row<'_>) -> Result<Summary, rusqlite::Error> {
    Ok(Summary {
        id: row.get(0)?,
        context_id: row.get(1)?,
        owner: row.get(2)?,
        agent: row.get(3)?,
        state: state_of(row.get_ref(4)?.as_str()?),
        since_us: row.get(5)?,
        created_ms: row.get(6)?,
        changed_ms: row.get(7)?,
        asked: row.get(8)?,
        says: row.get(9)?,
    })
}

fn length(json: &[u8]) -> i64 {
    i64::try_from(json.len()).unwrap_or(i64::MAX)
}

/// What a change means for the row of its task.
pub(super) enum Effect {
    Status {
        state: TaskState,
        since_us: Option<i64>,
        says: Option<String>,
    },
    Asked(String),
    Body,
}

impl Effect {
    pub(super) fn of(change: &Change) -> Self {
        match change {
            Change::Status(status) => Self::Status {
                state: status.state.clone(),
                since_us: since_us(status),
                says: status.message.as_ref().map(crate::record::excerpt),
            },
            Change::Message(message) if message.role == a2a::Role::User => {
                Self::Asked(crate::record::excerpt(message))
            }
            _ => Self::Body,
        }
    }
}

/// Appends a change, already written as `json`, after the task's first `revision` changes. Returns whose task it is.
pub(super) fn append(
    connection: &Connection,
    id: &str,
    revision: u64,
    at_ms: i64,
    effect: &Effect,
    json: &[u8],
) -> Result<String, SqlError> {
    let mut find =
        connection.prepare_cached("SELECT key, revision, phase, owner FROM tasks WHERE id = ?1")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found: Option<(i64, i64, i64, String)> = find.query_row([id], row).optional()?;
    let Some((key, at, phase, owner)) = found else {
        return Err(StoreError::Gone.into());
    };
    if phase == Phase::Terminal as i64 {
        return Err(StoreError::Settled.into());
    }
    if at != number(revision) {
        return Err(StoreError::Conflict.into());
    }
    let next = at + 1;
    insert_log(connection, key, next, at_ms, json)?;
    let bytes = length(json);
    match effect {
        Effect::Status {
            state,
            since_us,
            says,
        } => connection
            .prepare_cached(
                "UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4, state = ?5, phase = ?6, since_us = ?7, says = ?8
                 WHERE key = ?1",
            )?
            .execute(params![
                key,
                at_ms,
                next,
                bytes,
                state_word(state),
                Phase::of(state) as i64,
                since_us,
                says
            ])?,
        Effect::Asked(asked) => connection
            .prepare_cached(
                "UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4, asked = coalesce(asked, ?5) WHERE key = ?1",
            )?
            .execute(params![key, at_ms, next, bytes, asked])?,
        Effect::Body => connection
            .prepare_cached("UPDATE tasks SET changed_ms = ?2, revision = ?3, bytes = bytes + ?4 WHERE key = ?1")?
            .execute(params![key, at_ms, next, bytes])?,
    };
    Ok(owner)
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

/// Puts the changes up to `record`'s revision together, unless that was done meanwhile. Returns how many bytes more there are.
pub(super) fn compact(
    connection: &Connection,
    id: &str,
    revision: u64,
    at_ms: i64,
    json: &[u8],
) -> Result<i64, SqlError> {
    let found: Option<(i64, i64)> = connection
        .prepare_cached(
            "SELECT key, bytes FROM tasks JOIN log ON task = key AND log.revision = ?2 WHERE id = ?1",
        )?
        .query_row(params![id, number(revision)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((key, before)) = found else {
        return Ok(0);
    };
    connection
        .prepare_cached("DELETE FROM log WHERE task = ?1 AND revision <= ?2")?
        .execute(params![key, number(revision)])?;
    insert_log(connection, key, number(revision), at_ms, json)?;
    let after: i64 = connection
        .prepare_cached(
            "UPDATE tasks SET bytes = (SELECT sum(length(body)) FROM log WHERE task = ?1) WHERE key = ?1 RETURNING bytes",
        )?
        .query_row([key], |row| row.get(0))?;
    Ok(after - before)
}

/// Loads a task.
pub(super) fn load(connection: &Connection, id: &str) -> Result<Option<Loaded>, SqlError> {
    let mut select = connection.prepare_cached(
        "SELECT log.revision, at_ms, sum, body FROM tasks JOIN log ON task = key WHERE id = ?1 ORDER BY log.revision",
    )?;
    let rows = select.query([id])?;
    let loaded = assemble(rows, |why| unreadable(id, why))?;
    if loaded.is_none() && exists(connection, id)? {
        return Err(unreadable(id, "its record is missing").into());
    }
    Ok(loaded)
}

/// Loads the task of that key.
pub(super) fn load_key(connection: &Connection, key: i64) -> Result<Option<Loaded>, SqlError> {
    let mut select = connection.prepare_cached(
        "SELECT revision, at_ms, sum, body FROM log WHERE task = ?1 ORDER BY revision",
    )?;
    let rows = select.query([key])?;
    assemble(rows, |why| unreadable(&format!("number {key}"), why))
}

fn assemble(
    mut rows: rusqlite::Rows<'_>,
    unreadable: impl Fn(&str) -> StoreError,
) -> Result<Option<Loaded>, SqlError> {
    let mut loaded: Option<Loaded> = None;
    while let Some(row) = rows.next()? {
        let (revision, at_ms, sum): (i64, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let json = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        if crc32fast::hash(json) != sum {
            return Err(unreadable(&format!("its revision {revision} is damaged")).into());
        }
        match &mut loaded {
            None => {
                let record = body::decode_record(json).map_err(|why| unreadable(&why))?;
                loaded = Some(Loaded { record, changes: 0 });
            }
            Some(loaded) => {
                body::apply(&mut loaded.record, at_ms, json).map_err(|why| unreadable(&why))?;
                loaded.changes += 1;
            }
        }
        if loaded
            .as_ref()
            .is_some_and(|loaded| number(loaded.record.revision) != revision)
        {
            let why = format!("what happened to it before its revision {revision} is missing");
            return Err(unreadable(&why).into());
        }
    }
    Ok(loaded)
}

/// A task that cannot be read.
fn unreadable(id: &str, why: &str) -> StoreError {
    StoreError::Failed(format!(
        "cannot read the task `{id}`: {why}; delete it, or restore the directory of the task store from a copy"
    ))
}

pub(super) fn exists(connection: &Connection, id: &str) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?
        .exists([id])
}

/// Returns a page.
pub(super) fn page(connection: &Connection, filter: &Filter) -> Result<Listed, SqlError> {
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
    // One more than the page has, to see whether there is another.
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
    Ok(Listed {
        next: tasks.last().filter(|_| more).map(Cursor::of),
        tasks,
        total: usize::try_from(total).unwrap_or_default(),
    })
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
        values.push(Value::Text(state_word(state).to_owned()));
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

/// A task that was deleted.
pub(super) struct Deleted {
    pub(super) id: String,
    pub(super) owner: String,
    pub(super) bytes: i64,
}

/// Deletes a task with all that belongs to it, and its context with the last task of it.
pub(super) fn delete(connection: &Connection, id: String) -> Result<Option<Deleted>, SqlError> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found: Option<(i64, String, String, i64)> = connection
        .prepare_cached("SELECT key, context, owner, bytes FROM tasks WHERE id = ?1")?
        .query_row([&id], row)
        .optional()?;
    let Some((key, context, owner, bytes)) = found else {
        return Ok(None);
    };
    for delete in [
        "DELETE FROM log WHERE task = ?1",
        "DELETE FROM pushes WHERE task = ?1",
        "DELETE FROM tasks WHERE key = ?1",
    ] {
        connection.prepare_cached(delete)?.execute([key])?;
    }
    connection
        .prepare_cached(
            "DELETE FROM contexts WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM tasks WHERE context = ?1)",
        )?
        .execute([context])?;
    Ok(Some(Deleted { id, owner, bytes }))
}

/// Gives back so many pages of the file that hold nothing any more.
pub(super) fn shrink(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(256)")?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Returns whose a context is.
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

/// Gives a context to `owner` unless it has one.
pub(super) fn claim(
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

/// Keeps a push configuration. One that replaces another takes its place.
pub(super) fn put_push(
    connection: &Connection,
    task_id: &str,
    config_id: &str,
    version: Version,
    json: &str,
) -> Result<(), SqlError> {
    let put = connection
        .prepare_cached(
            "INSERT INTO pushes (task, config, place, version, body)
             SELECT key, ?2, (SELECT coalesce(max(place), 0) + 1 FROM pushes WHERE task = key), ?3, ?4 FROM tasks WHERE id = ?1
             ON CONFLICT (task, config) DO UPDATE SET version = excluded.version, body = excluded.body",
        )?
        .execute([task_id, config_id, version_word(version), json])?;
    match put {
        0 => Err(StoreError::Gone.into()),
        _ => Ok(()),
    }
}

/// The push configurations of a task, in the order they were registered in.
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
            _ => Version::V1,
        };
        pushes.push((config, version));
    }
    Ok(pushes)
}

pub(super) fn delete_push(
    connection: &Connection,
    task_id: &str,
    config_id: &str,
) -> Result<bool, SqlError> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM pushes WHERE config = ?2 AND task = (SELECT key FROM tasks WHERE id = ?1)",
        )?
        .execute([task_id, config_id])?;
    Ok(deleted > 0)
}

/// The tasks up to `last` that are not terminal.
pub(super) fn open(connection: &Connection, last: i64) -> Result<Vec<Summary>, SqlError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT {SUMMARY} FROM tasks WHERE phase < 2 AND key <= ?1"
    ))?;
    let rows = select.query_map([last], summary)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The key of the newest task.
pub(super) fn last_key(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("SELECT coalesce(max(key), 0) FROM tasks", [], |row| {
        row.get(0)
    })
}

/// Some of the settled tasks that retention does not keep, at most `limit`; none where there are none.
pub(super) fn outlived(
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

/// Tasks that have waited for their client since before `before_ms`.
pub(super) fn unanswered(
    connection: &Connection,
    before_ms: i64,
    limit: usize,
) -> Result<Vec<String>, SqlError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection
        .prepare_cached("SELECT id FROM tasks WHERE phase = 1 AND changed_ms < ?1 LIMIT ?2")?;
    let rows = select.query_map([before_ms, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The bytes of each client's tasks.
pub(super) fn usage(connection: &Connection) -> Result<Vec<(String, i64)>, rusqlite::Error> {
    let mut select =
        connection.prepare("SELECT owner, sum(bytes) FROM tasks GROUP BY owner ORDER BY owner")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The oldest settled tasks of a client that take `bytes` together; none where all of them take less.
pub(super) fn oldest(
    connection: &Connection,
    owner: &str,
    bytes: u64,
) -> Result<Vec<String>, SqlError> {
    let mut select = connection.prepare_cached(
        "SELECT id, bytes FROM tasks WHERE phase = 2 AND owner = ?1 ORDER BY changed_ms, id",
    )?;
    let mut rows = select.query([owner])?;
    let (mut ids, mut found) = (Vec::new(), 0_u64);
    while let Some(row) = rows.next()? {
        ids.push(row.get(0)?);
        found = found.saturating_add_signed(row.get(1)?);
        if found >= bytes {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}

fn number(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn version_word(version: Version) -> &'static str {
    match version {
        Version::V0_3 => "0.3",
        Version::V1 => "1.0",
    }
}
