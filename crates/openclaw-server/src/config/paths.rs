//! Resolves the paths of the configuration, the task store, and references to secrets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::{ServeConfig, TaskStoreKind};
use base::config::{self, ConfigError, Secret};

/// Returns the default state directory: `openclaw-remote-agent/serve` in `$XDG_STATE_HOME`, or else in
/// `~/.local/state`. `variable` returns the value of an environment variable.
pub fn default_state_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    config::default_state_dir("serve", variable)
}

/// Resolves relative paths against `folder`, and `~/` against the home directory. A command without `/` is resolved by
/// `PATH` later.
///
/// # Errors
/// The task store has none of its forms.
pub(super) fn resolve_paths(config: &mut ServeConfig, folder: &Path) -> Result<(), ConfigError> {
    let mut paths = vec![&mut config.state_dir];
    if let Some(tls) = &mut config.tls {
        paths.extend([&mut tls.cert_file, &mut tls.key_file]);
    }
    paths.extend(&mut config.gateway.ca_file);
    paths.extend(&mut config.working_directory);
    if config.openclaw_path.components().count() > 1 {
        paths.push(&mut config.openclaw_path);
    }
    for path in paths {
        *path = config::resolved(path, folder);
    }
    if let Some(Secret::Known(value)) = &config.task_store
        && let TaskStoreKind::Directory(path) = parse_task_store(value.expose_secret(), folder)?
    {
        let path = config::resolved(&path, folder)
            .to_string_lossy()
            .into_owned();
        config.task_store = Some(Secret::Known(path.into()));
    }
    Ok(())
}

/// Replaces members of `config` by those of `overrides`, key by key.
pub(super) fn merge(config: &mut Value, overrides: Value) {
    match (config, overrides) {
        (Value::Object(config), Value::Object(overrides)) => {
            for (key, value) in overrides {
                merge(config.entry(key).or_insert(Value::Null), value);
            }
        }
        (config, overrides) => *config = overrides,
    }
}

/// Returns the store that a configuration names.
pub(super) fn resolve_task_store(
    value: &Secret,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<TaskStoreKind, ConfigError> {
    let value = secret(value, "/taskStore", variable)?;
    parse_task_store(value.expose_secret(), Path::new(""))
}

/// Parses the task store. The error does not contain the text, which may be an address with a password.
fn parse_task_store(value: &str, folder: &Path) -> Result<TaskStoreKind, ConfigError> {
    match value {
        "memory" => Ok(TaskStoreKind::Memory),
        _ if value.starts_with("redis://") || value.starts_with("rediss://") => {
            Ok(TaskStoreKind::Redis(value.into()))
        }
        _ if names_directory(value, folder) => Ok(TaskStoreKind::Directory(value.into())),
        _ => {
            let message = "is no task store; write `memory`, a directory such as `./tasks` or `/var/lib/tasks`, `redis://HOST` or \
                           `rediss://HOST`";
            Err(ConfigError::at("/taskStore", message))
        }
    }
}

/// Returns whether a task store is a directory: a path with a separator, or a directory that exists in `folder`. A
/// misspelled `memory` or address is none.
pub fn names_directory(value: &str, folder: &Path) -> bool {
    if matches!(value, "." | ".." | "~")
        || ["/", "./", "../", "~/"]
            .iter()
            .any(|start| value.starts_with(start))
    {
        return true;
    }
    let first = value.split('/').next().unwrap_or_default();
    let is_store = ["memory", "redis", "rediss", "sqlite"]
        .iter()
        .any(|name| first.eq_ignore_ascii_case(name));
    let is_path = value.contains('/') && !value.contains("//") && !first.contains(':') && !is_store;
    is_path || (!value.is_empty() && folder.join(value).is_dir())
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
