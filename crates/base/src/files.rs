//! Files and directories that only their owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use crate::text::shell_word;

/// The interval of attempts to lock a file.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// When a store acknowledges a change. In every mode, changes survive a crash of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// After a sync to disk. The change survives a loss of power.
    Always,
    /// After the write; a sync follows within a set time. A loss of power loses at most the changes of that time.
    Interval,
    /// After the write, without a sync. A loss of power loses the changes since then and may damage the file.
    Never,
}

/// Runs `work` on a thread that may block.
///
/// # Errors
/// That of `work`, or it panicked, or the runtime ends.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Opens a file for reading.
///
/// # Errors
/// The file cannot be opened, or is no regular file: a pipe would block the caller, and a device may have no end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(path)?;
    File::open(path)
}

fn check_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Reads a text file of at most `max_bytes`.
///
/// # Errors
/// The file cannot be read, is larger, or is no regular file.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_checked(path, max_bytes, |_, _| Ok(()))
}

/// Reads a text file like [`read_bounded`], if `check` accepts it, for example [`check_private_file`].
///
/// # Errors
/// Those of [`read_bounded`] and of `check`.
pub fn read_checked(
    path: &Path,
    max_bytes: u64,
    check: impl FnOnce(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<String> {
    let file = open_regular(path)?;
    check(path, &file.metadata()?)?;
    io::read_to_string(&*read_bytes(file, max_bytes)?)
}

/// Returns options that create a file readable only by its owner.
pub fn private_options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and its missing parents, readable only by their owner.
///
/// # Errors
/// A parent is not a directory, or the system refuses the creation.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Checks that no other user can replace the files of a directory: it belongs to the user of this process or to root, and not
/// everyone may write to it. Root uses the directories of all users.
///
/// # Errors
/// Another user can, or the directory cannot be read; a clause for a sentence about the directory.
pub fn check_private_dir(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
        if !rustix::process::geteuid().is_root() {
            check_owner(metadata.uid())?;
        }
        // In a sticky directory users can replace only their own files.
        if metadata.mode() & 0o1002 == 0o002 {
            return Err(
                "is one that every user can write to (`chmod o-w` changes that)".to_owned(),
            );
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Checks that a file at `path` is a regular one that only its owner can read, as a file with a key must be.
///
/// # Errors
/// It is not; a sentence about the file, with the command that changes it.
pub fn check_private_file(path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(metadata) & 0o077 != 0 {
        let path = shell_word(&path.to_string_lossy());
        let message = format!("others may read it; `chmod 600 {path}` changes that");
        return Err(io::Error::other(message));
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Checks a file like [`check_private_file`], and that the user of this process or root wrote it.
///
/// # Errors
/// Those of [`check_private_file`], or it belongs to another user.
pub fn check_own_file(path: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    check_owner(std::os::unix::fs::MetadataExt::uid(metadata)).map_err(|cause| {
        io::Error::other(format!("it {cause}; remove it, or use its owner's account"))
    })?;
    check_private_file(path, metadata)
}

/// Checks that what belongs to user `owner` belongs to the user of this process or to root.
#[cfg(unix)]
fn check_owner(owner: u32) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    match owner == user || owner == 0 {
        true => Ok(()),
        false => Err(format!(
            "belongs to user {owner}, and this process runs as user {user}"
        )),
    }
}

/// Creates a directory like [`create_private_dir`], and syncs its two parents if it was missing.
///
/// # Errors
/// The creation or a sync fails.
pub fn create_private_dir_durably(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    create_private_dir(path)?;
    let parents = path.ancestors().skip(1);
    parents.take(2).try_for_each(sync_dir)
}

/// Syncs a directory: without that, a power failure may lose new files.
///
/// # Errors
/// The directory cannot be opened or synced.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Renames a file after its content is on disk, and syncs both directories.
///
/// # Errors
/// A sync or the renaming fails. After a failed sync of a directory, the file has its new name.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    let dir = to.parent().unwrap_or(to);
    create_private_dir_durably(dir)?;
    // Windows syncs no file that is only open for reading.
    OpenOptions::new().write(true).open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_dir(dir)?;
    from.parent().map_or(Ok(()), sync_dir)
}

/// Removes a file durably, and returns whether it existed.
///
/// # Errors
/// The system refuses the removal, or the sync of the directory fails.
pub fn remove_durably(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_dir).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads an open file of at most `max_bytes`.
///
/// # Errors
/// The file cannot be read, or is larger ([`io::ErrorKind::FileTooLarge`]).
pub fn read_bytes(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("it has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Creates a file for writing that only its owner can read.
///
/// # Errors
/// The file exists, or cannot be created.
pub fn create_private(path: &Path) -> io::Result<File> {
    private_options().write(true).create_new(true).open(path)
}

/// Opens a file for appending, and creates it if it is missing. Removes the permissions of other users.
///
/// # Errors
/// The file cannot be opened, is no regular file, or its permissions cannot be changed.
pub fn open_private_append(path: &Path) -> io::Result<File> {
    match check_regular(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = private_options();
    // Windows locks no file that is only open for appending.
    let file = options.read(true).append(true).create(true).open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata()?.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    Ok(file)
}

/// A file whose lock ends when it is dropped.
///
/// Closing the file would not do: a child process that is being started shares its lock until the child runs its program.
#[derive(Debug)]
pub struct LockedFile(pub File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Locks a file for this process by another one beside it, because [`replace`] makes a new file. Blocks the thread until then;
/// `None` if another process still has the lock after `timeout`.
///
/// # Errors
/// The file beside it cannot be opened or locked.
pub fn lock_beside(path: &Path, timeout: Duration) -> io::Result<Option<LockedFile>> {
    let mut options = private_options();
    options.read(true).write(true).create(true);
    let file = options.open(with_suffix(path, ".lock"))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(LockedFile(file))),
            Err(TryLockError::WouldBlock) if began.elapsed() < timeout => {
                thread::sleep(LOCK_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// A version of a file. Two versions may have the same time and length, but on Unix a replaced file has another inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    /// The modification time, if the file system has one.
    pub modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl FileVersion {
    /// Returns the version of the file at `path`; `None` without a file.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Returns the version of the file with this metadata.
    pub fn of(metadata: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            inode,
        }
    }
}

/// Returns the path of a file beside another one.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Replaces a file atomically. A new file is readable only by its owner; an existing one keeps its permissions.
///
/// # Errors
/// The new content cannot be written or renamed; the file keeps its old content.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    fs::rename(write_draft(&path, text, true)?, path)
}

/// Replaces a file like [`replace`], but makes it readable only by its owner in any case.
///
/// # Errors
/// Those of [`replace`].
pub fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    fs::rename(write_draft(path, text, false)?, path)
}

/// Checks that [`replace`] can write beside a file, and leaves the file as it is.
///
/// # Errors
/// It cannot.
pub fn check_replace(path: &Path) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    fs::remove_file(write_draft(&path, "", true)?)
}

/// Writes the next content of a file beside it, and returns the path.
fn write_draft(path: &Path, text: &str, keeps_permissions: bool) -> io::Result<PathBuf> {
    let draft = with_suffix(path, ".new");
    // A file that a crash left behind may be readable by others.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&draft)?;
    if keeps_permissions && let Ok(before) = fs::metadata(path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(draft)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let own = Path::new(file!()).file_name().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(own);
        let text = fs::read_to_string(&path).unwrap();
        let size = text.len() as u64;
        assert_eq!(read_bounded(&path, size).unwrap(), text);
        let error = read_bounded(&path, size - 1).unwrap_err().to_string();
        assert!(error.contains("more than"), "{error}");
        let error = read_bounded(Path::new("/"), size).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn file_of_another_user_is_refused() {
        let user = rustix::process::geteuid().as_raw();
        assert!(check_owner(user).is_ok() && check_owner(0).is_ok());
        let error = check_owner(user + 1).unwrap_err();
        assert!(
            error.contains(&format!("belongs to user {}", user + 1)),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn pipe_is_opened_neither_for_reading_nor_for_appending() {
        let pipe = std::env::temp_dir().join(format!("pipe-{}", uuid::Uuid::new_v4()));
        crate::testing::make_pipe(&pipe);
        for opened in [open_regular(&pipe), open_private_append(&pipe)] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
        fs::remove_file(pipe).unwrap();
    }
}
