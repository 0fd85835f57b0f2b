//! One process has the sessions at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

use super::{SessionError, files};

/// The lock's file, in the folder of all workspaces. No workspace can have its name.
const NAME: &str = ".lock";

/// Keeps other processes away until it is dropped. The system drops it with the process, however that ends.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock in `folder`, which is made where there is none.
    pub(super) fn take(folder: &Path) -> Result<Self, SessionError> {
        files::create_folder(folder).map_err(|e| SessionError::io("make", folder, e))?;
        let path = folder.join(NAME);
        let opened = files::open_to_append(&path);
        let mut file = opened.map_err(|e| SessionError::io("open", &path, e))?;
        if !is_ours(&file, &path)? {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let process = text.trim().parse().ok();
            return Err(SessionError::Locked { path, process });
        }
        // Who has it is told for people; the lock holds without.
        let _ = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

/// Locks the file of a workspace until it is closed: whoever else writes it, or works on it under a lock, is not disturbed.
///
/// # Errors
/// 4003: somebody else has it.
pub(super) fn hold(file: &File, path: &Path) -> Result<(), SessionError> {
    match is_ours(file, path)? {
        true => Ok(()),
        false => Err(SessionError::Locked {
            path: path.to_owned(),
            process: None,
        }),
    }
}

fn is_ours(file: &File, path: &Path) -> Result<bool, SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        // Some network file systems have no locks. Better two writers than none.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(SessionError::io("lock", path, error)),
    }
}
