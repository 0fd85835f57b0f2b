//! The key that binds the ids of MCP tasks to clients. The server stores it, so that task ids survive a restart.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use base::files::{check_private_file, create_private, create_private_dir};
use mcp_server::TaskIdKey;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::exit::Failure;

/// The name of the file in the state directory.
const FILE: &str = "task-ids.key";

/// Reads the key in `directory`, or creates the directory and the key.
///
/// # Errors
/// The file cannot be read or written, other users can read it, or its content is not a key.
pub(super) fn read_or_create(directory: &Path) -> Result<TaskIdKey, Failure> {
    let path = directory.join(FILE);
    let failed = |error: io::Error| {
        Failure::new(format!("cannot use the key `{}`: {error}", path.display()))
    };
    create_private_dir(directory).map_err(failed)?;
    create(&path).map_err(failed)?;
    path.symlink_metadata()
        .and_then(|metadata| check_private_file(&path, &metadata))
        .map_err(failed)?;
    let key = fs::read(&path).map_err(failed)?;
    TaskIdKey::new(&key).ok_or_else(|| {
        Failure::new(format!(
            "the key `{}` does not have 32 bytes; delete the file",
            path.display()
        ))
    })
}

/// Creates the key unless it exists. Writes it atomically, because another server may start at the same time.
fn create(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let temporary = path.with_extension(uuid::Uuid::new_v4().to_string());
    let mut key = [0; 32];
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    create_private(&temporary)?.write_all(&key)?;
    let linked = fs::hard_link(&temporary, path);
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn key_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        read_or_create(folder.path()).unwrap();
        let first = fs::read(folder.path().join(FILE)).unwrap();
        read_or_create(folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), first);
        assert_eq!(first.len(), 32);
    }

    #[test]
    fn damaged_key_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        create_private(&folder.path().join(FILE)).unwrap();
        let message = read_or_create(folder.path()).unwrap_err().message;
        assert!(
            message.contains(FILE) && message.contains("delete"),
            "{message}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn key_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        read_or_create(folder.path()).unwrap();
        fs::set_permissions(folder.path().join(FILE), fs::Permissions::from_mode(0o644)).unwrap();
        let message = read_or_create(folder.path()).unwrap_err().message;
        assert!(message.contains("600"), "{message}");
    }

    #[cfg(unix)]
    #[test]
    fn linked_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(FILE)).unwrap();
        assert!(read_or_create(folder.path()).is_err());
    }
}
