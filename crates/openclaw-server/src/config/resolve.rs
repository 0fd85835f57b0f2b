//! Resolves paths and references to secrets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::{ServeConfig, TaskStoreKind};
use common::config::{self, ConfigError, Secret};

/// Returns the default state directory: `openclaw-remote-agent/serve` in `$XDG_STATE_HOME`, or else in
/// `~/.local/state`. `variable` returns the value of an environment variable.
pub fn default_state_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    config::default_state_dir("serve", variable)
}

/// Resolves relative paths against `folder`, and `~/` against the home directory. A command without `/` is resolved by
/// `PATH` later.
pub(super) fn resolve(config: &mut ServeConfig, folder: &Path) {
    let mut all = vec![&mut config.state_dir];
    if let Some(tls) = &mut config.tls {
        all.extend([&mut tls.cert_file, &mut tls.key_file]);
    }
    all.extend(&mut config.gateway.ca_file);
    all.extend(&mut config.working_directory);
    if config.openclaw_path.components().count() > 1 {
        all.push(&mut config.openclaw_path);
    }
    for path in all {
        *path = config::resolved(path, folder);
    }
    if let Some(Secret::Known(word)) = &config.task_store
        && let TaskStoreKind::Directory(path) = named(word.expose_secret())
    {
        let path = config::resolved(&path, folder)
            .to_string_lossy()
            .into_owned();
        config.task_store = Some(Secret::Known(path.into()));
    }
}

/// Replaces members of `config` by those of `over`, key by key.
pub(super) fn put_over(config: &mut Value, over: Value) {
    match (config, over) {
        (Value::Object(config), Value::Object(over)) => {
            for (key, value) in over {
                put_over(config.entry(key).or_insert(Value::Null), value);
            }
        }
        (config, over) => *config = over,
    }
}

/// Returns the store that a configuration names.
pub(super) fn store(
    word: &Secret,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<TaskStoreKind, ConfigError> {
    let word = secret(word, "/taskStore", variable)?;
    Ok(named(word.expose_secret()))
}

fn named(word: &str) -> TaskStoreKind {
    match word {
        "memory" => TaskStoreKind::Memory,
        _ if word.starts_with("redis://") || word.starts_with("rediss://") => {
            TaskStoreKind::Redis(word.into())
        }
        _ => TaskStoreKind::Directory(word.into()),
    }
}

/// Returns the value of a secret.
pub(super) fn secret(
    secret: &Secret,
    place: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<SecretString, ConfigError> {
    match secret {
        Secret::Known(known) | Secret::Resolved(known) => Ok(known.clone()),
        Secret::Unresolved { id, .. } => variable(id)
            .filter(|value| !value.is_empty())
            .map(SecretString::from)
            .ok_or_else(|| {
                let message =
                    format!("the environment variable `{id}` is not set; put the secret there");
                ConfigError::at(place, message)
            }),
    }
}
