//! File locks against writes of other processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

use super::SessionError;
use base::files;

/// Locks out other processes until it is dropped. The operating system releases the lock when the process ends.
pub(super) struct ProcessLock {
    _file: File,
}

impl ProcessLock {
    /// Acquires the lock of the directory `folder`. Creates the directory if necessary.
    pub(super) fn acquire(folder: &Path) -> Result<Self, SessionError> {
        files::create_private_dir(folder).map_err(|e| SessionError::io("create", folder, e))?;
        // No workspace can have this name.
        let path = folder.join(".lock");
        let opened = files::open_private_append(&path);
        let mut file = opened.map_err(|e| SessionError::io("open", &path, e))?;
        try_lock(&file, &path)?;
        // The content of the file is only informative; ignore errors.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

/// Locks a file until it is closed.
///
/// # Errors
/// 4003 if another process holds the lock.
pub(super) fn try_lock(file: &File, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        // Some network file systems do not support locks. Continue without a lock.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let process = fs::read_to_string(path).ok();
            let process = process.and_then(|text| text.parse().ok());
            Err(SessionError::Locked(path.to_owned(), process))
        }
        Err(TryLockError::Error(error)) => Err(SessionError::io("lock", path, error)),
    }
}
