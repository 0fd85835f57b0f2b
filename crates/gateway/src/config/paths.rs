//! Paths in the configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::ServerConfig;
use base::config;

/// Returns the default state directory: `openclaw-remote-agent/gateway` in `$XDG_STATE_HOME`, or else in `~/.local/state`.
/// `variable` returns the value of an environment variable.
pub fn default_state_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    config::default_state_dir("gateway", variable)
}

/// Resolves relative paths from `folder`, and `~/` from the home directory of the process.
pub(super) fn resolve(config: &mut ServerConfig, folder: &Path) {
    let mut all = vec![&mut config.state_dir];
    if let Some(tls) = &mut config.tls {
        all.extend([&mut tls.cert_file, &mut tls.key_file]);
        all.extend(&mut tls.client_ca_file);
    }
    if let Some(jwt) = config.auth.as_mut().and_then(|auth| auth.jwt.as_mut()) {
        all.extend(&mut jwt.key_file);
        all.extend(&mut jwt.jwks_file);
    }
    all.extend(&mut config.audit.path);
    let backends = config
        .agents
        .iter_mut()
        .filter_map(|agent| agent.backend.as_mut());
    all.extend(backends.flat_map(|backend| backend.files()));
    for path in all {
        *path = config::resolved(path, folder);
    }
}
