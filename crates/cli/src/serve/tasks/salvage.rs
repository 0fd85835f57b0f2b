//! `remote-agent serve tasks check` and `export`: read the task file without a server.

use std::path::PathBuf;

use a2a_server::store::sqlite;

use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    serve::flags::FileArgs,
};
use openclaw_server::config::TaskStoreKind;

/// Checks the task file.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn check(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let faults = sqlite::check(&directory).map_err(|error| Failure::new(error.to_string()))?;
    for line in &faults {
        note(format_args!("error: {line}"));
    }
    match faults.len() {
        0 => {
            note(format_args!(
                "the task file in {} is intact",
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

/// Prints every readable task.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn export(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let lines = LineWriter::default();
    let mut unwritten = Vec::new();
    let exported = sqlite::export(&directory, |record| match serde_json::to_string(&record) {
        Ok(line) => lines.write(line),
        Err(error) => unwritten.push(format!(
            "cannot write the task `{}` as JSON: {error}",
            record.task.id
        )),
    });
    let unread = exported.map_err(|error| Failure::new(error.to_string()))?;
    let unread = unread.iter().map(ToString::to_string);
    let missing: Vec<String> = unread.chain(unwritten).collect();
    for error in &missing {
        note(format_args!("error: {error}"));
    }
    Ok(match missing.len() {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

fn directory(files: &FileArgs) -> Result<PathBuf, Failure> {
    let store = files.read()?.store(|name| std::env::var(name).ok());
    match store.map_err(|error| Failure::usage(error.to_string()))? {
        TaskStoreKind::Directory(path) => Ok(path),
        TaskStoreKind::Memory | TaskStoreKind::Redis(_) => Err(Failure::usage(
            "cannot read the task file: the configured task store is not a directory",
        )),
    }
}
