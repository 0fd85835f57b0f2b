//! Where files are, for what is configured by a file of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where `part` of the command keeps its state unless it is told: `openclaw-remote-agent/PART` in `$XDG_STATE_HOME`, else in
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

/// A path of a file in `folder`: `~/` is the home of whoever runs the command, and a relative path begins at the folder.
pub fn resolved(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    }
}
