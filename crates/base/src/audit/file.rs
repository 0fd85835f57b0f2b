//! Appends lines to the file and rotates it before it grows too large.
//!
//! Several instances and processes may write to one file. Each line is one write to the end of the file, which the system
//! does not mix with others. Only the rotation needs a lock.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::files::{self, private_options};

/// The file by its path. The writer opens it for each batch of lines, so that it soon notices a rotation by another
/// process.
pub(super) struct LogFile {
    path: PathBuf,
    max_bytes: u64,
    /// Whether the last line was cut off, as on a full disk. The next line then starts with a line feed.
    torn: bool,
}

/// The open file, and its last known size.
pub(super) struct Open {
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Creates a writer for the file at `path`, without opening it.
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self {
            path,
            max_bytes,
            torn: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file. Creates a missing file, readable only by its owner.
    pub(super) fn open(&self) -> io::Result<Open> {
        let mut options = private_options();
        // Windows locks no file that is only open for appending.
        options.create(true).read(true).append(true);
        let file = options.open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok(Open { file, bytes })
    }

    /// Appends a line with its line end. The inner result is that of the rotation, if one was due.
    ///
    /// # Errors
    /// The line is lost, whole or in part.
    pub(super) fn append(&mut self, open: &mut Open, line: &str) -> io::Result<io::Result<()>> {
        let mut rotate = Ok(());
        if open.bytes > 0 && open.bytes + line.len() as u64 > self.max_bytes {
            rotate = self.rotate(open);
        }
        let whole = self.torn.then(|| format!("\n{line}"));
        let text = whole.as_deref().unwrap_or(line).as_bytes();
        // One write, because another process could write between the writes of `write_all`.
        let written = loop {
            match open.file.write(text) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        open.bytes += written as u64;
        self.torn = written < text.len() && (written > 0 || self.torn);
        if written < text.len() {
            let message = "the disk has no space for a whole line";
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        Ok(rotate)
    }

    /// Rotates the file and opens a new one, unless another process does so or has done so.
    fn rotate(&mut self, open: &mut Open) -> io::Result<()> {
        match open.file.try_lock() {
            // A file system without locks: assume that no other process writes.
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if self.is_current(&open.file) {
            fs::rename(&self.path, files::with_suffix(&self.path, ".1"))?;
            self.torn = false;
        }
        *open = self.open()?;
        Ok(())
    }

    /// Returns whether the path still refers to this file.
    #[cfg(unix)]
    fn is_current(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(here), Ok(there)) = (file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        (here.dev(), here.ino()) == (there.dev(), there.ino())
    }

    /// Compares the sizes, because Windows shows no stable number of a file: that of a file that another process has rotated
    /// is above the limit, and that of the new one below.
    #[cfg(not(unix))]
    fn is_current(&self, file: &File) -> bool {
        let (Ok(here), Ok(there)) = (file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        here.len() == there.len()
    }
}
