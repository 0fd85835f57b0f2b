//! Reads OpenClaw's own configuration, `openclaw.json`, as OpenClaw does: JSON or JSON5, with `$include`. [`Environment`]
//! has the variables that OpenClaw adds to those of its process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use base::files::{open_regular, read_bytes};
use base::text::utf8;
use serde_json::{Map, Value};

pub use crate::executor::expand_home;
use crate::executor::state_dir;

const INCLUDE: &str = "$include";
const MAX_INCLUDE_BYTES: u64 = 2 * 1024 * 1024;
const MAX_DEPTH: usize = 10;

/// The place of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// Whether `OPENCLAW_CONFIG_PATH` names it, so that it must exist.
    pub is_named: bool,
}

/// Why the configuration cannot be read. It repeats no line of a file, because a line may contain a secret.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// The content of the file, or of a file that it includes, is not valid.
    #[error("{0}")]
    Invalid(String),
}

/// Returns the place of the configuration: `OPENCLAW_CONFIG_PATH`, or else `openclaw.json` in the state directory. `variable`
/// returns the value of an environment variable. Returns `None` if the environment names no home.
pub fn locate(variable: impl Fn(&str) -> Option<OsString>) -> Option<Location> {
    let named = variable("OPENCLAW_CONFIG_PATH").filter(|path| !path.is_empty());
    let named = named.and_then(|path| expand_home(path.into(), &variable));
    match named {
        Some(file) => Some(Location {
            file,
            is_named: true,
        }),
        None => Some(Location {
            file: state_dir(&variable)?.join("openclaw.json"),
            is_named: false,
        }),
    }
}

/// Reads a configuration, with the files that it includes.
///
/// # Errors
/// A file cannot be read, is not valid, or must not be included.
pub fn read(file: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Result<Value, ReadError> {
    let bytes = fs::read(file).map_err(ReadError::Io)?;
    let file = std::path::absolute(file).map_err(ReadError::Io)?;
    let value = parse(&bytes).map_err(ReadError::Invalid)?;
    let roots = roots(&file, variable);
    let include = Include {
        roots: &roots,
        chain: vec![normalized(&file)],
    };
    include.resolve(value).map_err(ReadError::Invalid)
}

/// Parses JSON, or else JSON5. The error contains only the position.
fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = utf8(bytes)?;
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    json5::from_str(text).map_err(|error| match error.position() {
        Some(at) => format!("line {} is not valid", at.line + 1),
        None => "it is not valid".to_owned(),
    })
}

/// Returns the directories that may contain included files: that of the configuration, and those of
/// `OPENCLAW_INCLUDE_ROOTS`.
fn roots(file: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let more = variable("OPENCLAW_INCLUDE_ROOTS").unwrap_or_default();
    let more = std::env::split_paths(&more).filter_map(|path| expand_home(path, &variable));
    let own = file.parent().map(Path::to_owned);
    own.into_iter()
        .chain(more.filter(|path| path.is_absolute()))
        .map(|path| normalized(&path))
        .collect()
}

/// The files that include each other.
struct Include<'a> {
    roots: &'a [PathBuf],
    /// The configuration, and the included files up to the current one.
    chain: Vec<PathBuf>,
}

impl Include<'_> {
    /// Replaces each `$include` in `value`.
    fn resolve(&self, value: Value) -> Result<Value, String> {
        match value {
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.resolve(item))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Value::Object(mut fields) => {
                let included = fields.remove(INCLUDE);
                let own: Map<String, Value> = fields
                    .into_iter()
                    .map(|(name, field)| Ok((name, self.resolve(field)?)))
                    .collect::<Result<_, String>>()?;
                let Some(included) = included else {
                    return Ok(Value::Object(own));
                };
                let mut merged = self.load_all(&included)?;
                if !own.is_empty() {
                    if !merged.is_object() {
                        return Err(format!(
                            "`{INCLUDE}` beside other settings includes no object"
                        ));
                    }
                    merge(&mut merged, Value::Object(own));
                }
                Ok(merged)
            }
            other => Ok(other),
        }
    }

    fn load_all(&self, included: &Value) -> Result<Value, String> {
        match included {
            Value::String(path) => self.load(path),
            Value::Array(paths) => {
                let mut merged = Value::Object(Map::new());
                for path in paths {
                    let path = path.as_str().ok_or_else(no_path)?;
                    merge(&mut merged, self.load(path)?);
                }
                Ok(merged)
            }
            _ => Err(no_path()),
        }
    }

    fn load(&self, path: &str) -> Result<Value, String> {
        let failed = |cause: &str| format!("cannot include `{path}`: {cause}");
        let beside = self.chain.last().and_then(|file| file.parent());
        let file = normalized(&beside.unwrap_or(Path::new("")).join(path));
        if self.chain.contains(&file) {
            return Err(failed("it includes itself"));
        }
        if self.chain.len() > MAX_DEPTH {
            return Err(failed("too many files include each other"));
        }
        // A symbolic link must not lead elsewhere either.
        let real = fs::canonicalize(&file).map_err(|error| failed(&error.to_string()))?;
        let is_inside = |root: &PathBuf| {
            let real_root = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
            file.starts_with(root) && real.starts_with(real_root)
        };
        if !self.roots.iter().any(is_inside) {
            return Err(failed(
                "it is outside the directory of the configuration; OPENCLAW_INCLUDE_ROOTS allows others",
            ));
        }
        let file_bytes = open_regular(&real).and_then(|file| read_bytes(file, MAX_INCLUDE_BYTES));
        let file_bytes = file_bytes.map_err(|error| failed(&error.to_string()))?;
        let value = parse(&file_bytes).map_err(|cause| failed(&cause))?;
        let mut chain = self.chain.clone();
        chain.push(file);
        let nested = Include {
            roots: self.roots,
            chain,
        };
        nested.resolve(value)
    }
}

fn no_path() -> String {
    format!("`{INCLUDE}` is neither a path nor a list of paths")
}

/// Merges `from` into `into`: joins lists, merges objects, and replaces everything else.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(&name) {
                    Some(known) => merge(known, value),
                    None => {
                        into.insert(name, value);
                    }
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

/// Removes `.` and `..` from a path by its text.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
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
        let bytes = open_regular(&file).and_then(|file| read_bytes(file, MAX_BYTES));
        let mut added = parse_dotenv(&bytes.unwrap_or_default());
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

// `Debug` omits the values, which may be secrets.
base::debug_fields!(self: Environment { file });

/// Parses the lines `NAME=VALUE`, as the package dotenv does. The last value of a name counts. Ignores other lines.
fn parse_dotenv(bytes: &[u8]) -> HashMap<String, String> {
    let text = utf8(bytes).unwrap_or_default();
    text.lines().filter_map(entry).collect()
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

#[cfg(test)]
mod tests;
