//! Settings that both executors have.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use base::named;
use serde::Deserialize;

named! {
    /// A thinking level of OpenClaw.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Thinking {
        /// No thinking.
        Off = "off",
        /// The minimum of the model.
        Minimal = "minimal",
        /// A low level.
        #[default]
        Low = "low",
        /// A medium level.
        Medium = "medium",
        /// A high level.
        High = "high",
        /// The maximum of the model.
        Xhigh = "xhigh",
    }
}

impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the command `openclaw agent` runs a turn in its own process (`--local`) or through a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunMode {
    /// Through a gateway if one runs on OpenClaw's state, else in its own process.
    #[default]
    Auto,
    /// In its own process. OpenClaw rejects this while a gateway runs on its state.
    #[serde(rename = "always")]
    InProcess,
    /// Through a gateway.
    #[serde(rename = "never")]
    Gateway,
}

/// Returns the state directory of a user's OpenClaw: `OPENCLAW_STATE_DIR`, or else `.openclaw` in `OPENCLAW_HOME` or in
/// the home directory. Returns `None` if none of these variables is set.
pub fn state_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let expanded = |path: PathBuf| expand_home(path, &variable);
    match named("OPENCLAW_STATE_DIR") {
        Some(path) => expanded(path),
        None => named("OPENCLAW_HOME")
            .and_then(expanded)
            .or_else(|| named("HOME"))
            .map(|home| home.join(".openclaw")),
    }
}

/// Replaces a leading `~` by the home directory; `None` if `HOME` is not set.
pub fn expand_home(path: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(below) => {
            let home = variable("HOME").filter(|home| !home.is_empty())?;
            Some(PathBuf::from(home).join(below))
        }
        Err(_) => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        state_dir(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn state_directory_is_that_of_openclaw() {
        let home = ("HOME", "/home/me");
        assert_eq!(of(&[home]), Some("/home/me/.openclaw".into()));
        assert_eq!(
            of(&[home, ("OPENCLAW_HOME", "/oc")]),
            Some("/oc/.openclaw".into())
        );
        assert_eq!(of(&[home, ("OPENCLAW_STATE_DIR", "/s")]), Some("/s".into()));
        assert_eq!(
            of(&[home, ("OPENCLAW_STATE_DIR", "~/s")]),
            Some("/home/me/s".into())
        );
        assert_eq!(
            of(&[home, ("OPENCLAW_STATE_DIR", "")]),
            Some("/home/me/.openclaw".into())
        );
        assert_eq!(of(&[]), None);
    }
}
