//! Files and folders that nobody but their owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Options for a file that nobody but its owner may read, where it is made.
pub(super) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder and those above it, for their owner alone. Those that are there stay as they are.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Brings to the disk which files a folder has. A new file may be lost with the power without it.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Opens a file to append to it, and makes it where there is none. One that others may read becomes its owner's alone.
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

/// Writes a file as a whole: another process reads the old text or the new one. A new file is for its owner alone, and one that
/// is there keeps its permissions.
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

/// Opens an empty file to append to it, in place of one that a crash has left behind.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    private().create_new(true).append(true).open(path)
}
