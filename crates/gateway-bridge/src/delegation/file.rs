//! The file with the delegation of each session.
//!
//! Format: `{"version": 1, "sessions": [{"session", "hop", "chain"}]}`, the newest session last. Writers replace the
//! whole file, so a reader sees the old or the new version. Only its owner may read it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use base::files;
use base::log::{Level, Log};

use super::Delegation;

/// The maximum number of sessions in the file. The oldest record is removed first.
pub const MAX_SESSIONS: usize = 1000;

/// The maximum length of a session key, in bytes.
pub const MAX_SESSION_KEY_BYTES: usize = 1024;

/// The maximum size of the file. An escaped character takes up to six bytes. This code never writes a larger file.
const MAX_FILE_BYTES: u64 = (MAX_SESSIONS * (MAX_SESSION_KEY_BYTES + 256) * 6) as u64;

/// The directory below the state directory.
const DIR_NAME: &str = "remote-agent";
const FILE_NAME: &str = "delegations.json";

/// The delegation file at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationFile {
    path: PathBuf,
}

/// Identifies one version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileVersion {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl FileVersion {
    /// Returns the modification time of the file, if the file system has one.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.modified
    }
}

impl DelegationFile {
    /// Returns the file of a host with the given state directory: `<state_dir>/remote-agent/delegations.json`.
    pub fn of_host(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join(DIR_NAME).join(FILE_NAME),
        }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the delegation of a session; `None` if the file has none.
    ///
    /// # Errors
    /// The file exists but cannot be read or parsed.
    pub fn find(&self, session: &str) -> io::Result<Option<Delegation>> {
        let all = self.read()?;
        let found = all.into_iter().rev().find(|(key, _)| key == session);
        Ok(found.map(|(_, delegation)| delegation))
    }

    /// Records the delegation of a session and replaces its earlier record. Waits while another process writes.
    /// Replaces a file that cannot be parsed and logs a warning.
    ///
    /// # Errors
    /// The file cannot be read or written, or the key is longer than [`MAX_SESSION_KEY_BYTES`]. The old file remains.
    pub fn record(&self, session: &str, work: &Delegation, log: &dyn Log) -> io::Result<()> {
        if session.is_empty() || session.len() > MAX_SESSION_KEY_BYTES {
            let message = format!("a session key has 1 to {MAX_SESSION_KEY_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        files::create_private_dir(folder)?;
        let _alone = self.lock()?;
        let mut all = match self.read() {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                log.log(Level::Warn, &format!("{error}; a new file replaces it"));
                Vec::new()
            }
            // A file that could not be read may still hold valid records: keep it.
            Err(error) => return Err(error),
        };
        all.retain(|(key, _)| key != session);
        all.push((session.to_owned(), work.clone()));
        let surplus = all.len().saturating_sub(MAX_SESSIONS);
        all.drain(..surplus);
        self.replace(&written(&all))
    }

    /// Returns every session, the newest last. A missing file has none.
    pub(super) fn read(&self) -> io::Result<Vec<(String, Delegation)>> {
        let mut text = String::new();
        let describe = |error: io::Error| {
            let message = format!("the file `{}` cannot be used: {error}", self.path.display());
            io::Error::new(error.kind(), message)
        };
        match File::open(&self.path) {
            Ok(file) => file
                .take(MAX_FILE_BYTES + 1)
                .read_to_string(&mut text)
                .map_err(describe)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(describe(error)),
        };
        let all = if text.len() as u64 > MAX_FILE_BYTES {
            Err("it is too large".to_owned())
        } else {
            parse_sessions(&text)
        };
        all.map_err(|reason| describe(io::Error::new(io::ErrorKind::InvalidData, reason)))
    }

    /// Returns the version of the file, or `None` if it does not exist.
    pub(super) fn stamp(&self) -> Option<FileVersion> {
        let metadata = fs::metadata(&self.path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(FileVersion {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            inode,
        })
    }

    /// Locks the file against other writers until the returned file is dropped.
    fn lock(&self) -> io::Result<File> {
        let mut options = files::private_options();
        options.create(true).append(true);
        let file = options.open(self.path.with_extension("lock"))?;
        match file.lock() {
            // Some network file systems have no locks. Write without a lock then.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.path.with_extension("new");
        // A file that a crash left behind may be readable by others.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = files::private_options()
            .create_new(true)
            .write(true)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

/// Indexes the sessions by key, for repeated lookups in one version of the file.
pub(super) fn by_session(all: Vec<(String, Delegation)>) -> HashMap<String, Delegation> {
    all.into_iter().collect()
}

fn written(all: &[(String, Delegation)]) -> String {
    let sessions = all.iter().map(|(session, work)| {
        let mut entry = work.json();
        entry["session"] = json!(session);
        entry
    });
    json!({ "version": 1, "sessions": sessions.collect::<Vec<_>>() }).to_string()
}

/// Parses the sessions, and skips invalid ones so that the others remain usable.
fn parse_sessions(text: &str) -> Result<Vec<(String, Delegation)>, String> {
    let value: Value = base::json::from_str(text, base::json::Limits::NONE)
        .map_err(|e| format!("it is not JSON: {e}"))?;
    if value["version"] != 1 {
        return Err("its `version` is not 1".to_owned());
    }
    let sessions = value["sessions"]
        .as_array()
        .ok_or("its `sessions` is not a list")?;
    let read = |entry: &Value| {
        Some((
            entry["session"].as_str()?.to_owned(),
            Delegation::read(entry)?,
        ))
    };
    Ok(sessions.iter().filter_map(read).collect())
}
