//! The lock that reserves a directory for one server.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::database::{file_error, open_private};
use crate::store::StoreError;

const LOCK_FILE_NAME: &str = "lock";

/// The process that has locked a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the process.
    pub process: u32,
    /// When the process acquired the lock.
    pub since: DateTime<Utc>,
    /// The URL of the server, once it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An exclusive lock on a directory. The operating system releases it when the process ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    file: File,
    holder: Holder,
}

impl DirectoryLock {
    pub(super) fn acquire(directory: &Path, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let path = directory.join(LOCK_FILE_NAME);
        let file = open_private(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(in_use(directory, read_holder(file).as_ref()));
            }
            // Some network file systems have no locks. Two servers would then overwrite each other's tasks.
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &path, &error)),
        }
        let holder = Holder {
            process: std::process::id(),
            since: now,
            url: None,
        };
        let mut lock = Self { file, holder };
        lock.publish_address();
        Ok(lock)
    }

    /// Writes the URL of this server to the lock file.
    pub(super) fn announce(&mut self, url: String) {
        self.holder.url = Some(url);
        self.publish_address();
    }

    /// Writes the holder to the lock file. Failures are only logged, because the lock is valid without the content.
    fn publish_address(&mut self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, "cannot record the holder of the task store in its lock file");
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.holder)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // An empty file shows that the directory is free. The operating system releases the lock when the file is
        // closed.
        let _ = self.file.set_len(0);
    }
}

/// Returns the process that has locked the directory; `None` if the directory is free.
///
/// # Errors
/// The lock file cannot be read.
pub fn holder(directory: &Path) -> Result<Option<Option<Holder>>, StoreError> {
    let path: PathBuf = directory.join(LOCK_FILE_NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error("open", &path, &error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder(file))),
        Err(TryLockError::Error(error)) => Err(file_error("lock", &path, &error)),
    }
}

fn read_holder(mut file: File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn in_use(directory: &Path, holder: Option<&Holder>) -> StoreError {
    let by = match holder {
        Some(Holder {
            process,
            since,
            url,
        }) => {
            let at = url
                .as_ref()
                .map(|url| format!(" at {url}"))
                .unwrap_or_default();
            let since = since.format("%Y-%m-%d %H:%M:%S UTC");
            format!("process {process}{at}, since {since}")
        }
        None => "another process".to_owned(),
    };
    StoreError::Failed(format!(
        "the task store `{}` is in use by {by}; stop that server, or give this one a directory of its own with `--state-dir`",
        directory.display()
    ))
}
