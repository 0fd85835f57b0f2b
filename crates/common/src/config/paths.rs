//! Paths of configuration files and state directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the default state directory of `part` of the command: `openclaw-remote-agent/PART` in `$XDG_STATE_HOME`, else in
/// `~/.local/state`. `variable` looks up the environment.
pub fn default_state_dir(part: &str, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path: &PathBuf| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_default();
    base.join("openclaw-remote-agent").join(part)
}

/// Resolves the path of a file: `~/` is the home directory of the user, and a relative path begins at `folder`.
pub fn resolved(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    }
}
