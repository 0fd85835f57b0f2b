//! The sessions that a later process can resume: a file each, with the continuation of the conversation.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use base::{
    config::{check_state_dir, default_state_dir},
    files::{self, check_private_dir, create_private_dir, read_bounded},
};
use serde_json::Value;
use uuid::Uuid;

use crate::{exit::Failure, output::note};

/// How long a session that no prompt changes can be resumed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The maximum size of a file. A continuation has ids and the address of its agent.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A directory of sessions that only this user can read: who holds a continuation can send messages in its conversation.
pub(super) struct SessionFiles(PathBuf);

impl SessionFiles {
    /// Opens the directory and removes old sessions. Returns `None` if none is named and the environment names no home; the
    /// sessions then end with the process.
    ///
    /// # Errors
    /// The named directory cannot be used.
    pub(super) fn open(directory: Option<PathBuf>) -> Result<Option<Self>, Failure> {
        let variable = |name: &str| std::env::var_os(name);
        let is_named = directory.is_some();
        let directory = directory.unwrap_or_else(|| default_state_dir("acp", variable));
        if check_state_dir(&directory, "acp", variable).is_err() && !is_named {
            return Ok(None);
        }
        let usable = create_private_dir(&directory).map_err(|error| error.to_string());
        let is_private = |()| check_private_dir(&directory).map_err(|cause| format!("it {cause}"));
        if let Err(error) = usable.and_then(is_private) {
            let directory = directory.display();
            let message = format!("cannot keep sessions in `{directory}`: {error}");
            if is_named {
                return Err(Failure::usage(message));
            }
            note(format!("{message}; they end with this process"));
            return Ok(None);
        }
        remove_old(&directory);
        Ok(Some(Self(directory)))
    }

    /// Returns the id of a new session.
    pub(super) fn new_id() -> String {
        Uuid::new_v4().to_string()
    }

    /// Returns the continuation of a session, which a session without a prompt lacks. `None` if there is no such session.
    #[expect(
        clippy::option_option,
        reason = "a session need not have a continuation"
    )]
    pub(super) fn read(&self, id: &str) -> Option<Option<Value>> {
        let text = read_bounded(&self.path(id)?, MAX_FILE_BYTES).ok()?;
        let continuation: Value = serde_json::from_str(&text).ok()?;
        Some(continuation.is_object().then_some(continuation))
    }

    /// Stores a session. If that fails, standard error says so, and the session ends with the process.
    pub(super) fn write(&self, id: &str, continuation: Option<&Value>) {
        let Some(path) = self.path(id) else { return };
        let text = continuation.map_or_else(|| "null".to_owned(), Value::to_string);
        if let Err(error) = files::replace(&path, &text) {
            note(format_args!(
                "cannot keep the session in `{}`: {error}",
                path.display()
            ));
        }
    }

    /// Returns the file of a session. `None` for what is not one of our ids, so that an id names no other file.
    fn path(&self, id: &str) -> Option<PathBuf> {
        is_id(id).then(|| self.0.join(id).with_extension("json"))
    }
}

/// Returns whether a text has the form of [`SessionFiles::new_id`].
fn is_id(text: &str) -> bool {
    Uuid::parse_str(text).is_ok_and(|id| id.to_string() == text)
}

/// Removes old sessions. The directory may have other files, also of JSON.
fn remove_old(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        let name = path.file_name().and_then(|name| name.to_str());
        let is_session = name
            .and_then(|name| name.strip_suffix(".json"))
            .is_some_and(is_id);
        if is_session && age.is_some_and(|age| age > MAX_AGE) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_sessions_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (SessionFiles::new_id(), SessionFiles::new_id());
        let names = [&old, &new, "package"].map(|name| format!("{name}.json"));
        for name in &names {
            let file = fs::File::create(directory.path().join(name)).unwrap();
            if !name.starts_with(&new) {
                let modified = SystemTime::now() - 2 * MAX_AGE;
                file.set_modified(modified).unwrap();
            }
        }
        SessionFiles::open(Some(directory.path().to_owned())).unwrap();
        let left = names.map(|name| directory.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[cfg(unix)]
    #[test]
    fn directory_that_every_user_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mode = fs::Permissions::from_mode(0o777);
        fs::set_permissions(directory.path(), mode).unwrap();
        let opened = SessionFiles::open(Some(directory.path().to_owned()));
        let refused = opened.err().unwrap();
        assert!(
            refused.message.contains("every user"),
            "{}",
            refused.message
        );
    }
}
