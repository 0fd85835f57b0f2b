//! With which keys a target's agent card must be signed.

use std::sync::Arc;

use crate::config::TargetConfig;
use common::jws::KeySet;
use peer::CardKeys;

use super::files;

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
    let bytes = files::read(file).map_err(|e| format!("the file `{shown}` cannot be read: {e}"))?;
    let keys = KeySet::parse(&bytes).map_err(|e| format!("in the file `{shown}`, {e}"))?;
    Ok(Some(CardKeys::Given(Arc::new(keys))))
}
