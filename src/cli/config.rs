//! The configuration of the command: a file, and references to environment variables in it.

use std::{borrow::Cow, env, fs, path::PathBuf};

use serde_json::{Map, Value, json};

use super::exit::Failure;

/// Names the file when `--config` is not given.
pub const VARIABLE: &str = "REMOTE_AGENT_CONFIG";

/// Where a command takes its configuration from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigArgs {
    /// Read the plugin's configuration from this JSON file [default: the file that REMOTE_AGENT_CONFIG names]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Reads the configuration. None given is the empty one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<String, Failure> {
        let Some(file) = self.file() else {
            return Ok("{}".to_owned());
        };
        fs::read_to_string(&file).map_err(|error| {
            Failure::usage(format!(
                "cannot read the configuration `{}`: {error}",
                file.display()
            ))
        })
    }

    /// There is a configuration to read.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.file().is_some()
    }

    fn file(&self) -> Option<PathBuf> {
        let named = self.config.clone();
        named.or_else(|| env::var_os(VARIABLE).map(PathBuf::from))
    }
}

/// A reference to an environment variable that is not set.
#[derive(Debug, PartialEq, Eq)]
pub struct Unset {
    variable: String,
    path: String,
}

impl Unset {
    /// The error in the shape of the library's configuration errors.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Self { variable, path } = self;
        json!({
            "code": "INVALID_CONFIG",
            "message": format!("the secret at `{path}` is read from the environment variable `{variable}`, which is not set; set it and start again"),
            "path": path,
        })
        .to_string()
    }
}

/// Replaces each `{"source": "env", "id": NAME}` in a configuration by the variable's value.
///
/// Inside OpenClaw the gateway does this before the plugin sees its configuration. Other sources are left alone: only OpenClaw knows its
/// providers. So is text that is not JSON, which the library refuses better.
///
/// # Errors
/// A variable is not set, or empty.
pub fn resolve(
    config: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Cow<'_, str>, Unset> {
    let Ok(mut value) = serde_json::from_str::<Value>(config) else {
        return Ok(config.into());
    };
    let mut changed = false;
    walk(&mut value, &mut String::new(), &mut |id, path| {
        changed = true;
        let secret = variable(id).filter(|secret| !secret.is_empty());
        secret.ok_or_else(|| Unset {
            variable: id.to_owned(),
            path: path.to_owned(),
        })
    })?;
    Ok(if changed {
        value.to_string().into()
    } else {
        config.into()
    })
}

fn walk(
    value: &mut Value,
    path: &mut String,
    look_up: &mut impl FnMut(&str, &str) -> Result<String, Unset>,
) -> Result<(), Unset> {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            if let Some(id) = env_reference(fields) {
                let secret = look_up(id, path)?;
                *value = Value::String(secret);
                return Ok(());
            }
            for (name, field) in fields {
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                walk(field, path, look_up)?;
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push('/');
                path.push_str(&index.to_string());
                walk(item, path, look_up)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The variable's name, if the object is a reference to one and nothing else.
fn env_reference(fields: &Map<String, Value>) -> Option<&str> {
    let known = |name: &String| matches!(name.as_str(), "source" | "provider" | "id");
    if fields.get("source")? != "env" || !fields.keys().all(known) {
        return None;
    }
    fields.get("id")?.as_str()
}

/// A configuration error of the library as a sentence for people.
#[must_use]
pub fn sentence(error: &str) -> String {
    let error: Value = serde_json::from_str(error).unwrap_or_default();
    let message = error["message"].as_str().unwrap_or("it is refused");
    match error["path"].as_str() {
        Some(path) if !path.is_empty() && !message.contains(path) => {
            format!("the configuration is wrong at `{path}`: {message}")
        }
        _ => format!("the configuration is wrong: {message}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn only_desk(name: &str) -> Option<String> {
        (name == "DESK_TOKEN").then(|| "s3cret".to_owned())
    }

    #[test]
    fn a_reference_becomes_the_variables_value_wherever_it_stands() {
        let config = r#"{"targets":[{"auth":{"token":{"source":"env","provider":"default","id":"DESK_TOKEN"}}}],"gateway":{"token":{"source":"env","id":"DESK_TOKEN"}}}"#;
        let resolved: Value = serde_json::from_str(&resolve(config, only_desk).unwrap()).unwrap();
        assert_eq!(resolved["targets"][0]["auth"]["token"], "s3cret");
        assert_eq!(resolved["gateway"]["token"], "s3cret");
    }

    #[test]
    fn an_unset_variable_is_named_with_its_place() {
        let config = r#"{"a/b":[0,{"~":{"source":"env","id":"NO_SUCH"}}]}"#;
        let unset = resolve(config, only_desk).unwrap_err();
        assert_eq!(
            unset,
            Unset {
                variable: "NO_SUCH".to_owned(),
                path: "/a~1b/1/~0".to_owned()
            }
        );
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let config = r#"{"token":{"source":"env","id":"EMPTY"}}"#;
        assert!(resolve(config, |_| Some(String::new())).is_err());
    }

    #[test]
    fn other_sources_and_other_objects_are_left_as_they_are() {
        let config = r#"{ "token": {"source":"file","id":"/x"}, "data": {"source":"env","id":"A","more":1} }"#;
        assert_eq!(resolve(config, only_desk).unwrap(), config);
    }

    #[test]
    fn text_that_is_not_json_is_left_to_the_library() {
        assert_eq!(resolve("{", only_desk).unwrap(), "{");
    }
}
