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

/// Checks that the state directory `dir` of `part` does not depend on the working directory because the environment names
/// no home. `dir` is a configured directory or the default.
///
/// # Errors
/// It does; a sentence for the user.
pub fn check_state_dir(
    dir: &Path,
    part: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), String> {
    let default = default_state_dir(part, variable);
    if default.is_relative() && dir.ends_with(&default) {
        return Err("cannot choose a state directory: neither `HOME` nor `XDG_STATE_HOME` is an absolute path; name one with \
                    --state-dir"
            .to_owned());
    }
    Ok(())
}

/// Resolves the path of a file: `~/` is the home directory of the user, and a relative path begins at `folder`.
pub fn resolved(path: &Path, folder: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_state_dir_needs_a_home() {
        let check = |home: &str, dir: Option<&str>| {
            let variable = |name: &str| (name == "HOME").then(|| home.into());
            let dir = dir.map_or_else(|| default_state_dir("serve", variable), PathBuf::from);
            check_state_dir(&dir, "serve", variable)
        };
        for home in ["", "relative"] {
            let error = check(home, None).err().unwrap_or_default();
            assert!(error.contains("--state-dir"), "{error}");
            let below = "/etc/openclaw-remote-agent/serve";
            assert!(check(home, Some(below)).is_err(), "beside a configuration");
            assert_eq!(check(home, Some("/var/lib/serve")), Ok(()));
        }
        assert_eq!(check("/home/a", None), Ok(()));
    }
}
