//! With which keys a target's agent card must be signed.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use crate::config::TargetConfig;
use crate::jws::KeySet;
use crate::peer::CardKeys;

/// The largest key file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The keys for a target; none where its card need not be signed.
///
/// # Errors
/// What is wrong with its key file, which is read here.
pub(super) fn card_keys(target: &TargetConfig) -> Result<Option<CardKeys>, String> {
    if !target.require_signed_card {
        return Ok(None);
    }
    let Some(file) = &target.jwks_file else {
        return Ok(Some(CardKeys::OfOwnOrigin));
    };
    let shown = file.display();
    let bytes = read(file).map_err(|e| format!("the file `{shown}` cannot be read: {e}"))?;
    let keys = KeySet::parse(&bytes).map_err(|e| format!("in the file `{shown}`, {e}"))?;
    Ok(Some(CardKeys::Given(Arc::new(keys))))
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
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
