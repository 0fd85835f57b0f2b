//! Reads files that the configuration names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The size limit in bytes. The files hold certificates and keys.
const LARGEST: u64 = 1 << 20;

/// Reads a whole file.
///
/// # Errors
/// The file cannot be read or is too large.
pub(super) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "it is larger than {LARGEST} bytes"
        )));
    }
    Ok(bytes)
}
