//! A temporary folder for a test.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use uuid::Uuid;

/// A temporary folder. Dropping it removes the folder.
pub struct Folder(PathBuf);

#[allow(clippy::new_without_default, reason = "each is another folder")]
impl Folder {
    /// Creates an empty folder.
    ///
    /// # Panics
    /// The system's folder for temporary files cannot be written.
    pub fn new() -> Self {
        let path = env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder, which need not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
