//! Variables in the texts of OpenClaw's configuration, with those that OpenClaw adds to those of its process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde_json::Value;

use crate::executor::expand_home;

/// The maximum size of `.env`, which is OpenClaw's.
const MAX_BYTES: u64 = 1024 * 1024;

/// The variables of `.env` and of `env` in the configuration. A variable of the process takes precedence over both.
#[derive(Clone, Default)]
pub struct Environment {
    file: PathBuf,
    added: HashMap<String, String>,
}

impl Environment {
    /// Reads the variables for the configuration in `file`, with the content `config`: those of `.env` in
    /// `OPENCLAW_STATE_DIR`, or else beside the file, and of `env` in the configuration.
    ///
    /// OpenClaw also reads `.env` in its working directory, which is another one than that of this process.
    pub fn read(file: &Path, config: &Value, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let state_dir = variable("OPENCLAW_STATE_DIR").filter(|path| !path.is_empty());
        let directory = state_dir
            .and_then(|path| expand_home(path.into(), &variable))
            .or_else(|| Some(file.parent()?.to_owned()));
        let file = directory.unwrap_or_default().join(".env");
        let is_small = fs::metadata(&file).is_ok_and(|found| found.len() <= MAX_BYTES);
        let text = is_small.then(|| fs::read_to_string(&file).ok()).flatten();
        let mut added: HashMap<_, _> = text.as_deref().map(parse).unwrap_or_default();
        let own = &config["env"];
        let groups = [own.as_object(), own["vars"].as_object()];
        for (name, value) in groups.into_iter().flatten().flatten() {
            let text = value.as_str().filter(|text| !text.trim().is_empty());
            if let Some(text) = text.filter(|text| !text.contains("${")) {
                added.entry(name.clone()).or_insert_with(|| text.to_owned());
            }
        }
        Self { file, added }
    }

    /// Returns the `.env` file, which may not exist.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the added value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.added.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Environment {
    /// Omits the values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Parses the lines `NAME=VALUE`, as the package dotenv does. The last value of a name counts. Ignores other lines.
fn parse(text: &str) -> HashMap<String, String> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .filter_map(entry)
        .collect()
}

fn entry(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    Some((name.to_owned(), unquoted(value.trim())))
}

/// Removes the quotes of a value, or else its comment. Only double quotes have line ends as `\n` and `\r`.
fn unquoted(value: &str) -> String {
    for quote in ['\'', '"', '`'] {
        let Some(inner) = value.strip_prefix(quote) else {
            continue;
        };
        let Some((text, rest)) = inner.rsplit_once(quote) else {
            continue;
        };
        let rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('#') {
            return match quote {
                '"' => text.replace("\\n", "\n").replace("\\r", "\r"),
                _ => text.to_owned(),
            };
        }
    }
    let text = value.split('#').next().unwrap_or_default();
    text.trim().to_owned()
}

/// Replaces each `${NAME}` by the value of the variable, and `$${NAME}` by `${NAME}`, as OpenClaw does in its configuration.
///
/// # Errors
/// The name of the first variable that is not set.
pub fn substitute(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut substituted = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let reference = after.split_once('}');
        let Some((name, tail)) = reference.filter(|(name, _)| is_variable(name)) else {
            substituted.extend([before, "${"]);
            rest = after;
            continue;
        };
        match before.strip_suffix('$') {
            Some(before) => substituted.extend([before, "${", name, "}"]),
            None => {
                let value = variable(name).ok_or_else(|| name.to_owned())?;
                substituted.extend([before, &value]);
            }
        }
        rest = tail;
    }
    Ok(substituted + rest)
}

/// Returns whether OpenClaw replaces a variable of this name.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_are_read_like_dotenv() {
        let text = "\u{feff}# comment\nA=1\n export B = two words # note\nC='#3'\nD=\"x\\ny\"\nE=\nF=a=b\n1 x\nG=`a'b`\nA=last\r\n";
        let read = parse(text);
        for (name, value) in [
            ("A", "last"),
            ("B", "two words"),
            ("C", "#3"),
            ("D", "x\ny"),
            ("E", ""),
            ("F", "a=b"),
            ("G", "a'b"),
        ] {
            assert_eq!(read.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(read.len(), 7);
    }

    #[test]
    fn dotenv_takes_precedence_over_the_configuration() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join(".env"), "A=file\n").unwrap();
        let config = serde_json::json!({"env": {"A": "config", "B": "own", "vars": {"C": "vars", "D": "${E}"}, "shellEnv": {}}});
        let file = scratch.path().join("openclaw.json");
        let read = Environment::read(&file, &config, |_| None);
        let found = ["A", "B", "C", "D"].map(|name| read.get(name));
        assert_eq!(found, [Some("file"), Some("own"), Some("vars"), None]);
        assert!(!format!("{read:?}").contains("vars"), "{read:?}");
        let elsewhere = Environment::read(&file, &config, |name| {
            (name == "OPENCLAW_STATE_DIR").then(|| "/nowhere".into())
        });
        assert_eq!(elsewhere.get("A"), Some("config"));
    }
}
