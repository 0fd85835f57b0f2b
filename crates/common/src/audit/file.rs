//! The file: lines are appended, and it is put aside before it grows too large.
//!
//! Several instances and processes may write to one file. Each line is one write to the file's end, which the system keeps
//! apart from others; only who puts the file aside needs to be alone.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::files::private_options;

/// The file by its path. It is opened anew for each batch of lines, so that one that another process has put aside is not
/// written to for long.
pub(super) struct LogFile {
    path: PathBuf,
    max_bytes: u64,
    /// The last line was cut off, as on a full disk; the next one must not hang on to it.
    torn: bool,
}

/// The open file, and how large it was when it was looked at last.
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

    /// Opens the file, which is made where there is none, readable only by its owner.
    pub(super) fn open(&self) -> io::Result<Open> {
        let mut options = private_options();
        let file = options.create(true).append(true).open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok(Open { file, bytes })
    }

    /// Appends a line with its line end, and says whether the file could be put aside where it had to be.
    ///
    /// # Errors
    /// The line is lost, whole or in part.
    pub(super) fn append(&mut self, open: &mut Open, line: &str) -> io::Result<io::Result<()>> {
        let mut put_aside = Ok(());
        if open.bytes > 0 && open.bytes + line.len() as u64 > self.max_bytes {
            put_aside = self.put_aside(open);
        }
        let whole = self.torn.then(|| format!("\n{line}"));
        let text = whole.as_deref().unwrap_or(line).as_bytes();
        // One write and not `write_all`, whose later writes could come after another process's.
        let written = loop {
            match open.file.write(text) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        open.bytes += written as u64;
        self.torn = written < text.len() && (written > 0 || self.torn);
        if written < text.len() {
            let message = "there is no room for a whole line";
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        Ok(put_aside)
    }

    /// Puts the file aside and opens a new one, unless another process is doing that or has done it already.
    fn put_aside(&mut self, open: &mut Open) -> io::Result<()> {
        match open.file.try_lock() {
            // A file system without locks: assume that no other process writes.
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if self.is_current(&open.file) {
            fs::rename(&self.path, aside(&self.path))?;
            self.torn = false;
        }
        *open = self.open()?;
        Ok(())
    }

    /// Returns whether the path still leads to this file.
    #[cfg(unix)]
    fn is_current(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(here), Ok(there)) = (file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        (here.dev(), here.ino()) == (there.dev(), there.ino())
    }

    #[cfg(not(unix))]
    fn is_current(&self, _file: &File) -> bool {
        true
    }
}

/// Returns the path of the rotated file: the same name with `.1`.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
