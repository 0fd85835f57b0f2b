//! The archive of a workspace: one file a session, whole or not there.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::index::Known;
use super::line::{self, Event, Scanner, Written};
use super::reader::Lines;
use super::workspace::Workspace;
use super::{SessionError, files};

/// The folder below a workspace's.
const FOLDER: &str = "archive";
const EXTENSION: &str = "jsonl";

/// What the first line of an archived session says of it. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) entries: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) committed: Option<u64>,
}

/// The name of a session's file, which nothing in its id can lead elsewhere: the SHA-256 of the id.
pub(super) fn name(session: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::with_capacity(64);
    for byte in digest(&SHA256, session.as_bytes()).as_ref() {
        // Writing to memory does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Where a session of the workspace in `folder` is archived.
pub(super) fn path(folder: &Path, session: &str) -> PathBuf {
    let file = folder.join(FOLDER).join(name(session));
    file.with_extension(EXTENSION)
}

/// The names of all archived sessions of the workspace in `folder`.
pub(super) fn names(folder: &Path) -> Result<HashSet<String>, SessionError> {
    let all = paths(folder)?;
    let stems = all.iter().filter_map(|path| path.file_stem()?.to_str());
    Ok(stems.map(str::to_owned).collect())
}

/// What is known of each archived session of the workspace in `folder`, by its id.
pub(super) fn all(folder: &Path) -> Result<Vec<(String, About)>, SessionError> {
    let mut found = Vec::new();
    for path in paths(folder)? {
        // What is no archived session was put there by somebody else.
        found.extend(about(&path).map_err(|e| SessionError::io("read", &path, e))?);
    }
    Ok(found)
}

/// Puts a session into the archive. It stays in the workspace's file until that is written anew, before which the archive is to
/// be brought to the disk.
pub(super) fn put(
    workspace: &Workspace,
    session: &str,
    known: &Known,
    now: u64,
) -> Result<(), SessionError> {
    let path = path(&workspace.folder, session);
    let folder = workspace.folder.join(FOLDER);
    let about = About {
        entries: known.entries,
        created: known.created,
        updated: known.updated,
        committed: known.committed,
    };
    let wrong = |error| SessionError::io("write", &path, error);
    files::create_folder(&folder).map_err(wrong)?;
    let new = path.with_extension("new");
    let mut file = BufWriter::new(files::create_new(&new).map_err(wrong)?);
    // It is made of numbers, which always can be written.
    let content = serde_json::to_value(about).unwrap_or(Value::Null);
    let first = line::event(Event::Archived, session, now, content);
    file.write_all(&first).map_err(wrong)?;
    let mut lines = Lines::open(&workspace.path(), known.pieces.clone(), session)?;
    while let Some(line) = lines.next()? {
        let written = file.write_all(line).and_then(|()| file.write_all(b"\n"));
        written.map_err(wrong)?;
    }
    let done = file.into_inner().map_err(io::IntoInnerError::into_error);
    done.and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&new, &path))
        .map_err(wrong)
}

/// Brings to the disk which sessions are in the archive of the workspace in `folder`.
pub(super) fn sync(folder: &Path) -> Result<(), SessionError> {
    let folder = folder.join(FOLDER);
    files::sync_folder(&folder).map_err(|e| SessionError::io("write", &folder, e))
}

/// Takes a session out of the archive, and says whether it was there.
pub(super) fn remove(folder: &Path, session: &str) -> Result<bool, SessionError> {
    let path = path(folder, session);
    match fs::remove_file(&path) {
        Ok(()) => {
            let synced = files::sync_folder(&folder.join(FOLDER));
            synced.map_err(|e| SessionError::io("delete", &path, e))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SessionError::io("delete", &path, error)),
    }
}

fn paths(folder: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let folder = folder.join(FOLDER);
    let wrong = |error| SessionError::io("read", &folder, error);
    let listed = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(wrong)?,
    };
    let mut all = Vec::new();
    for one in listed {
        let path = one.map_err(wrong)?.path();
        if path.extension().is_some_and(|end| end == EXTENSION) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

fn about(path: &Path) -> io::Result<Option<(String, About)>> {
    let mut lines = Scanner::new(BufReader::new(File::open(path)?), 0);
    let first = lines.next()?.and_then(|line| line.bytes);
    let written = first.and_then(|line| serde_json::from_slice::<Written<'_>>(line).ok());
    Ok(written.and_then(|written| {
        let about = About::deserialize(written.entry.content.as_ref()).ok()?;
        Some((written.entry.session_id.into_owned(), about))
    }))
}
