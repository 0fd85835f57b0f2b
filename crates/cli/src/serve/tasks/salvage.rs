//! `remote-agent serve tasks check` and `export`: the file of the tasks, read without a server.

use std::path::PathBuf;

use a2a_server::store::sqlite;

use crate::{
    exit::{Exit, Failure},
    output::{Lines, note},
    serve::flags::FileArgs,
};
use openclaw_server::config::TaskStore;

/// Checks the file of the tasks.
///
/// # Errors
/// It cannot be opened.
pub(super) fn check(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let wrong = sqlite::check(&directory).map_err(|error| Failure::new(error.to_string()))?;
    for line in &wrong {
        note(format_args!("error: {line}"));
    }
    match wrong.len() {
        0 => {
            note(format_args!(
                "the tasks in {} are whole",
                directory.display()
            ));
            Ok(Exit::Ok)
        }
        _ => {
            note("`remote-agent serve tasks export` prints the tasks that can be read");
            Ok(Exit::Failed)
        }
    }
}

/// Prints every task that can be read.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn export(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let lines = Lines::default();
    let exported = sqlite::export(&directory, |record| {
        // A record was JSON before it was read.
        if let Ok(line) = serde_json::to_string(&record) {
            lines.write(line);
        }
    });
    let unread = exported.map_err(|error| Failure::new(error.to_string()))?;
    for why in &unread {
        note(format_args!("error: {why}"));
    }
    Ok(match unread.len() {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

fn directory(files: &FileArgs) -> Result<PathBuf, Failure> {
    let store = files.read()?.store(|name| std::env::var(name).ok());
    match store.map_err(|error| Failure::usage(error.to_string()))? {
        TaskStore::Directory(path) => Ok(path),
        TaskStore::Memory | TaskStore::Redis(_) => Err(Failure::usage(
            "the configuration keeps tasks in no directory; there is no file to read",
        )),
    }
}
