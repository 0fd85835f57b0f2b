//! Files and directories that only their owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Options that create a file for its owner alone.
pub(super) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and its missing parents, for their owner alone.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates a directory like [`create_folder`] and syncs its two parents.
pub(super) fn create_folder_durably(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    create_folder(folder)?;
    let parents = folder.ancestors().skip(1);
    parents.take(2).try_for_each(sync_folder)
}

/// Syncs a directory: without that, a power failure may lose new files.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Opens a file for appending, and creates it if it is missing. Removes the permissions of other users.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = private();
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

/// Replaces a file atomically. A new file is for its owner alone; an existing one keeps its permissions.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut draft = path.clone().into_os_string();
    draft.push(".new");
    let draft = Path::new(&draft);
    let mut file = create_new(draft)?;
    if let Ok(before) = fs::metadata(&path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, path)
}

/// Creates an empty file for appending, in place of one that a crash left behind.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private().create_new(true).append(true).open(path)
}
