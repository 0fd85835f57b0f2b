//! The keys that verify a target's agent card.

use std::sync::Arc;

use crate::config::TargetConfig;
use base::jws::KeySet;
use peer::CardKeys;

use super::files;

/// Returns the keys of a target; `None` where its card need not be signed.
///
/// # Errors
/// The key file cannot be read or is invalid.
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
    Ok(Some(CardKeys::Configured(Arc::new(keys))))
}
