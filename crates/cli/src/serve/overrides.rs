//! Converts flags to settings that override a configuration file.

use std::path::Path;

use openclaw_server::config::names_directory;
use serde_json::{Map, Value, json};

/// The settings that flags override.
pub(super) struct ConfigOverrides(pub(super) Map<String, Value>);

impl ConfigOverrides {
    pub(super) fn put(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(key.to_owned(), value.into());
        }
    }

    pub(super) fn list(&mut self, key: &str, values: &[String]) {
        self.put(key, (!values.is_empty()).then(|| values.to_vec()));
    }

    pub(super) fn some(self) -> Option<Map<String, Value>> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

pub(super) fn pairs<V: Clone + Into<Value>>(pairs: &[(String, V)]) -> Map<String, Value> {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect()
}

pub(super) fn env_reference_to(name: &str) -> Value {
    json!({"source": "env", "id": name})
}

/// Returns an absolute path, resolved from the current directory.
pub(super) fn path(path: &Path) -> Value {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.to_string_lossy().into()
}

/// Returns a command: an absolute path, or a name to look up in `PATH`.
pub(super) fn command(file: &Path) -> Value {
    match file.components().count() {
        1 => file.to_string_lossy().into(),
        _ => path(file),
    }
}

pub(super) fn store_location(store: &str) -> Value {
    match names_directory(store, Path::new("")) {
        true => path(Path::new(store)),
        false => store.into(),
    }
}
