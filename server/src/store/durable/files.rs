//! The files of a journal: numbered, written at the end of the last one, read anywhere, and dropped from the first one on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

const ENDING: &str = ".journal";

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: u64,
    pub(super) start: u64,
    /// Without the line end.
    pub(super) length: u32,
}

impl Place {
    /// How many bytes of the journal it takes.
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.length) + 1
    }
}

/// What could not be done to which file.
pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    let next = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and try again"
        }
        io::ErrorKind::PermissionDenied => "; give the server's user access to it",
        _ => "",
    };
    StoreError::Failed(format!(
        "the task store cannot {what} `{}`: {error}{next}",
        path.display()
    ))
}

/// The file of that number.
pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:010}{ENDING}"))
}

/// The numbers of the files that are there, in order.
pub(super) fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes a directory and those above it, for their owner alone. Those that are there stay as they are.
pub(super) fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Brings to the disk which files a directory has. A new file may be lost with the power without it.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

/// Opens a file to read it and write it anywhere, and makes it where there is none.
pub(super) fn open_to_write(path: &Path) -> io::Result<File> {
    private()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Opens a file to read it anywhere and to write at its end, and makes it where there is none.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    private().read(true).append(true).create(true).open(path)
}

/// Nobody but the owner may read it.
fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Reads a line.
pub(super) fn read_at(file: &File, place: Place) -> io::Result<Vec<u8>> {
    let mut line = vec![0; place.length as usize];
    #[cfg(unix)]
    std::os::unix::fs::FileExt::read_exact_at(file, &mut line, place.start)?;
    #[cfg(windows)]
    {
        let mut read = 0;
        while let Some(rest) = line.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let at = place.start + read as u64;
            match std::os::windows::fs::FileExt::seek_read(file, rest, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => read += more,
            }
        }
    }
    Ok(line)
}
