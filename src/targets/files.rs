//! Reads files that the configuration names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The size limit in bytes. The files hold certificates and keys.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a whole file.
///
/// # Errors
/// The file cannot be read or is too large.
pub(super) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    Ok(bytes)
}
