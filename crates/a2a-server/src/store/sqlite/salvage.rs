//! Checks a database, and exports the readable tasks of a damaged one. Both work while a server uses the database.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::{database, queries};
use crate::store::StoreError;
use crate::task_record::TaskRecord;

/// Checks the structure of the database in `directory` (`PRAGMA integrity_check`), the totals of the clients, and whether every
/// task can be read. Returns the faults.
///
/// # Errors
/// The file cannot be opened.
pub fn check(directory: &Path) -> Result<Vec<String>, StoreError> {
    let mut faults = Vec::new();
    {
        let path = database::path(directory);
        let connection = open(directory)?;
        let checked = connection
            .prepare("PRAGMA integrity_check")
            .and_then(|mut check| {
                let rows = check.query_map([], |row| row.get::<_, String>(0))?;
                rows.collect::<Result<Vec<_>, _>>()
            });
        match checked {
            Ok(lines) => faults.extend(lines.into_iter().filter(|line| line != "ok")),
            Err(error) => faults.push(database::failed("check", &path, &error).to_string()),
        }
        match queries::with_wrong_totals(&connection) {
            Ok(owners) => faults.extend(owners.iter().map(|owner| {
                format!(
                    "the totals of the client `{owner}` are not those of its tasks; stop the server and run \
                     `sqlite3 tasks.db 'DROP TABLE totals; PRAGMA user_version = 2'`, so that the next start counts the tasks"
                )
            })),
            Err(error) => faults.push(database::failed("check", &path, &error).to_string()),
        }
    }
    let unreadable = export(directory, |_| {})?;
    faults.extend(unreadable.iter().map(ToString::to_string));
    Ok(faults)
}

/// Calls `each` with every readable task, and returns the errors of the others.
///
/// # Errors
/// The file cannot be opened.
pub fn export(
    directory: &Path,
    mut each: impl FnMut(TaskRecord),
) -> Result<Vec<StoreError>, StoreError> {
    let path = database::path(directory);
    let connection = open(directory)?;
    let (keys, mut unreadable) = keys(&connection, &path);
    for key in keys {
        match queries::load_key(&connection, key) {
            Ok(Some(loaded)) => each(loaded.record),
            // The task was deleted in the meantime, or only an index refers to it, which `integrity_check` reports.
            Ok(None) => {}
            Err(error) => unreadable.push(error.into_store("read a task of", &path)),
        }
    }
    Ok(unreadable)
}

fn open(directory: &Path) -> Result<Connection, StoreError> {
    let path = database::path(directory);
    if let Err(error) = path.metadata() {
        return Err(database::file_error("open", &path, &error));
    }
    let opened = database::open_reader(&path);
    opened.map_err(|error| database::failed("open", &path, &error))
}

/// Returns the keys of all tasks. A scan ends at the first damaged page, so this function scans each table and index
/// from both ends.
fn keys(connection: &Connection, path: &Path) -> (BTreeSet<i64>, Vec<StoreError>) {
    let mut keys = BTreeSet::new();
    let mut unreadable = Vec::new();
    for scan in [
        "SELECT DISTINCT task FROM log ORDER BY task",
        "SELECT DISTINCT task FROM log ORDER BY task DESC",
        "SELECT key FROM tasks NOT INDEXED ORDER BY key",
        "SELECT key FROM tasks NOT INDEXED ORDER BY key DESC",
        "SELECT key FROM tasks INDEXED BY tasks_by_change ORDER BY changed_ms, id",
        "SELECT key FROM tasks INDEXED BY tasks_by_change ORDER BY changed_ms DESC, id DESC",
    ] {
        let scanned = connection.prepare(scan).and_then(|mut select| {
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                keys.insert(row.get(0)?);
            }
            Ok(())
        });
        if let Err(error) = scanned {
            unreadable.push(database::failed("list the tasks of", path, &error));
        }
    }
    (keys, unreadable)
}
