//! The key that binds the ids of MCP tasks to clients. It is kept, so that tasks outlive the server.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use common::files::{create_private_dir, private_options};
use mcp_server::TaskIdKey;

use crate::exit::Failure;

/// The file's name in the state directory.
const FILE: &str = "task-ids.key";

/// Returns the key in `directory`, which is created there first.
///
/// # Errors
/// The file cannot be read or written, or its content is no key.
pub(super) fn read_or_create(directory: &Path) -> Result<TaskIdKey, Failure> {
    let path = directory.join(FILE);
    let failed = |error: std::io::Error| {
        Failure::new(format!("cannot use the key `{}`: {error}", path.display()))
    };
    create_private_dir(directory).map_err(failed)?;
    let created = private_options().write(true).create_new(true).open(&path);
    match created {
        Ok(mut file) => {
            let key: [u8; 32] = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()]
                .map(uuid::Uuid::into_bytes)
                .concat()
                .try_into()
                .unwrap_or_default();
            file.write_all(&key).map_err(failed)?;
            Ok(TaskIdKey::new(&key))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let key = fs::read(&path).map_err(failed)?;
            let key = <[u8; 32]>::try_from(key).map_err(|_| {
                Failure::new(format!(
                    "the key `{}` does not have 32 bytes; delete the file",
                    path.display()
                ))
            })?;
            Ok(TaskIdKey::new(&key))
        }
        Err(error) => Err(failed(error)),
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
        fs::write(folder.path().join(FILE), "short").unwrap();
        let message = read_or_create(folder.path()).unwrap_err().message;
        assert!(
            message.contains(FILE) && message.contains("delete"),
            "{message}"
        );
    }
}
