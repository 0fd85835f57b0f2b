//! Where a key of a configuration is: in a file, in the configuration, in the environment, or in a credential of systemd.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::config::Secret;
use crate::files;
use crate::variable_name::variable_fault;

/// The variable in which systemd names the directory with the credentials of a unit.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Where a key is. In JSON, an object with one of these members.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySource {
    /// In a file that only its owner can read.
    KeyFile(PathBuf),
    /// In the environment, or in the configuration itself.
    Key(Secret),
    /// In a credential of systemd with this name.
    Credential(String),
}

impl KeySource {
    const MEMBERS: [&str; 3] = ["keyFile", "key", "credential"];

    /// Checks that an object of a configuration names one source, or none if it `is_optional`. Otherwise, a second one would have no effect.
    ///
    /// # Errors
    /// It names another number; a clause about the object.
    pub fn check(object: &Value, is_optional: bool) -> Result<(), &'static str> {
        let named = Self::MEMBERS
            .iter()
            .filter(|name| object.get(name).is_some());
        match named.count() {
            1 => Ok(()),
            0 if is_optional => Ok(()),
            _ => Err("name exactly one of `keyFile`, `key` and `credential`"),
        }
    }

    /// Returns the name of its member in JSON.
    pub fn member(&self) -> &'static str {
        let [key_file, key, credential] = Self::MEMBERS;
        match self {
            Self::KeyFile(_) => key_file,
            Self::Key(_) => key,
            Self::Credential(_) => credential,
        }
    }

    /// Returns the path of the file, if the key is in one.
    pub fn file_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::KeyFile(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the key, if it is in the environment or in the configuration itself.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Key(secret) => Some(secret),
            _ => None,
        }
    }

    /// Reads the key, which has at most `max_bytes` if it is in a file. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// The key is missing or too long, or other users can read its file; a sentence without a full stop.
    pub fn read(
        &self,
        max_bytes: u64,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<SecretString, String> {
        match self {
            Self::KeyFile(path) => read_file(path, max_bytes, files::check_private_file),
            Self::Key(secret) => secret.resolve(variable),
            Self::Credential(name) => {
                let folder = variable(CREDENTIALS_DIRECTORY).ok_or_else(|| {
                    format!(
                        "there are no credentials of systemd (`{CREDENTIALS_DIRECTORY}` is not set); add `LoadCredential={name}:FILE` to the unit"
                    )
                })?;
                // systemd sets the permissions itself.
                read_file(&Path::new(&folder).join(name), max_bytes, |_, _| Ok(()))
            }
        }
    }
}

/// Deserializes an object that names a source, or none. Flattened into a struct, an `Option` would ignore a source of a wrong type.
///
/// # Errors
/// A member has the wrong type.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<KeySource>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Members {
        key_file: Option<PathBuf>,
        key: Option<Secret>,
        credential: Option<String>,
    }
    let members = Members::deserialize(deserializer)?;
    let key_file = members.key_file.map(KeySource::KeyFile);
    let key = members.key.map(KeySource::Key);
    let credential = members.credential.map(KeySource::Credential);
    Ok(key_file.or(key).or(credential))
}

/// Writes the subject of a sentence about the key, without the key itself.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyFile(path) => write!(f, "the file `{}`", path.display()),
            Self::Key(secret) => match secret.variable() {
                Some(name) if variable_fault(name).is_none() => {
                    write!(f, "the variable `{name}`")
                }
                _ => f.write_str("the secret"),
            },
            Self::Credential(name) => write!(f, "the credential `{name}`"),
        }
    }
}

fn read_file(
    path: &Path,
    max_bytes: u64,
    check: impl FnOnce(&Path, &fs::Metadata) -> io::Result<()>,
) -> Result<SecretString, String> {
    let text = files::read_checked(path, max_bytes, check);
    text.map(SecretString::from)
        .map_err(|error| format!("cannot read the key `{}`: {error}", path.display()))
}
