//! The configuration of the command: a file, and references to environment variables in it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use base::json::{self, Limits};
use base::variable_name::{shown_reference, variable_fault};
use serde_json::{Map, Value, json};

use super::exit::Failure;
use super::openclaw::{self, Loaded, is_secret_place, visit};
use super::output::note;

/// The environment variable with the path of the configuration, used without `--config`.
pub const VARIABLE: &str = "REMOTE_AGENT_CONFIG";

/// The source of the configuration.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConfigArgs {
    /// Read the plugin's configuration from this JSON file, which may also be OpenClaw's openclaw.json [default: the file
    /// that REMOTE_AGENT_CONFIG names]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Use the plugin's settings in OpenClaw's configuration [default file: OPENCLAW_CONFIG_PATH, or
    /// ~/.openclaw/openclaw.json]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "config")]
    pub openclaw: Option<Option<PathBuf>>,
}

impl ConfigArgs {
    /// Reads the configuration. Without a file, returns an empty configuration.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain a JSON object.
    pub fn read(&self) -> Result<String, Failure> {
        self.load().map(|loaded| loaded.resolved)
    }

    /// Reads the configuration like [`read`](Self::read), and its unresolved text.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn load(&self) -> Result<Loaded, Failure> {
        if let Some(named) = &self.openclaw {
            let file = named
                .clone()
                .map_or_else(|| Ok(openclaw::location()?.file), Ok)?;
            return openclaw::load(&file);
        }
        let Some(file) = self.file() else {
            return Ok(Loaded::own("{}"));
        };
        let name = file.display();
        let bytes = fs::read(&file).map_err(|error| {
            Failure::usage(format!(
                "cannot read the configuration `{name}`: {error}; name a file that this user can read with `--config FILE`"
            ))
        })?;
        let invalid = |error| {
            Failure::usage(format!(
                "the configuration in `{name}` is not JSON: {error}; correct the file"
            ))
        };
        let text = json::text(&bytes).map_err(invalid)?;
        match json::from_str::<Value>(&text, Limits::NONE) {
            Ok(value) if openclaw::is_host_config(&value) => openclaw::load(&file),
            Ok(value) if value.is_object() => Ok(Loaded::own(&*text)),
            Ok(_) => Err(Failure::usage(format!(
                "the configuration in `{name}` is not a JSON object; `remote-agent add URL --config FILE` writes one"
            ))),
            // OpenClaw's configuration may be JSON5.
            Err(_) if file.file_name().is_some_and(|name| name == "openclaw.json") => {
                openclaw::load(&file)
            }
            Err(error) => Err(invalid(error)),
        }
    }

    /// Returns whether a configuration exists.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.openclaw.is_some() || self.file().is_some()
    }

    /// Returns the path of the configuration, unless it is OpenClaw's own by `--openclaw`.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        if self.openclaw.is_some() {
            return None;
        }
        let named = self.config.clone();
        named.or_else(|| env::var_os(VARIABLE).map(PathBuf::from))
    }
}

/// An unset environment variable, and the place in the configuration that refers to it.
#[derive(Debug, PartialEq, Eq)]
pub struct UnsetVariable {
    variable: String,
    paths: Vec<String>,
}

impl UnsetVariable {
    /// Returns the name of the variable.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.variable
    }

    /// Returns an error message with a hint, as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        self.sentence_with(None)
    }

    /// Returns an error message with a hint, as a sentence. `env_file` is OpenClaw's `.env`, where the settings are OpenClaw's.
    #[must_use]
    pub fn sentence_with(&self, env_file: Option<&Path>) -> String {
        let repair = match (variable_fault(&self.variable), env_file) {
            (Some(_), _) => "",
            (None, Some(file)) => &format!("; set it, or add it to `{}`", file.display()),
            (None, None) => "; set it and start again",
        };
        self.fault() + repair
    }

    /// Returns the error message without a hint.
    pub(crate) fn fault(&self) -> String {
        let Self { variable, paths } = self;
        let paths = paths.join("` and `");
        match variable_fault(variable) {
            Some(fault) => format!("the `id` of the secret at `{paths}` {fault}"),
            None => format!(
                "the secret at `{paths}` is read from the environment variable `{variable}`, which {}",
                unset_reason(variable)
            ),
        }
    }

    /// Returns the hint alone, as a sentence.
    pub(crate) fn repair(&self, env_file: Option<&Path>) -> String {
        let variable = &self.variable;
        match (variable_fault(variable), env_file) {
            (Some(_), _) => "Put the secret into an environment variable, and write the name of the variable there.".to_owned(),
            (None, Some(file)) => format!("Set the variable `{variable}`, or add it to `{}`.", file.display()),
            (None, None) => format!("Set the variable `{variable}` and start again."),
        }
    }
}

/// Returns why an environment variable has no value that can be used, as the end of a clause about it.
pub(crate) fn unset_reason(variable: &str) -> &'static str {
    match std::env::var_os(variable) {
        Some(value) if value.is_empty() => "is empty",
        Some(value) if value.to_str().is_none() => "is not UTF-8",
        _ => "is not set",
    }
}

/// The unset environment variables that a configuration refers to.
#[derive(Clone, Debug, Default)]
pub struct UnsetVariables(Arc<[UnsetVariable]>);

impl UnsetVariables {
    /// Returns all unset variables.
    pub fn iter(&self) -> impl Iterator<Item = &UnsetVariable> {
        self.0.iter()
    }

    /// Returns the missing variables that the library's error `text` names as `SOURCE:ID`: all whose name may be the secret
    /// itself, if it names such a one.
    pub fn named_in(&self, text: &str) -> impl Iterator<Item = &UnsetVariable> {
        self.iter().filter(move |unset| {
            text.contains(&format!("`{}`", shown_reference("env", &unset.variable)))
        })
    }

    /// Prints on standard error which variables the failed call needs.
    pub fn warn_if_unresolved(&self, envelope: &str) {
        if envelope.contains("credential_unresolved") {
            self.named_in(envelope).for_each(warn);
        }
    }
}

/// Prints a warning about an unset variable on standard error.
pub fn warn(unset: &UnsetVariable) {
    note(format_args!("warn: {}", unset.sentence()));
}

/// Replaces each `{"source": "env", "id": NAME}` in a configuration by `{"source": "resolved", "id": VALUE}`, which lets the
/// library recognize a credential in a header of any name. A reference to an unset or empty variable remains; the library
/// then refuses only the calls that need it.
///
/// Inside OpenClaw, the gateway resolves these references before the plugin reads its configuration. This function ignores
/// other sources, because only OpenClaw has their providers. It also ignores invalid JSON, for which the library has a
/// better error.
///
/// # Errors
/// A reference stands where no secret may stand. The error is JSON, `{"code", "message", "path"}`.
pub fn resolve(
    config: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(Cow<'_, str>, UnsetVariables), String> {
    let Ok(mut value) = serde_json::from_str::<Value>(config) else {
        return Ok((config.into(), UnsetVariables::default()));
    };
    let mut changed = false;
    let mut missing: Vec<UnsetVariable> = Vec::new();
    let mut misplaced = None;
    visit(&mut value, &mut String::new(), &mut |value, path| {
        let Some(id) = value.as_object().and_then(env_reference) else {
            return;
        };
        if !is_secret_place(path) {
            misplaced.get_or_insert_with(|| path.to_owned());
            return;
        }
        if let Some(secret) = variable(id).filter(|secret| !secret.is_empty()) {
            *value = json!({"source": "resolved", "id": secret});
            changed = true;
            return;
        }
        match missing.iter_mut().find(|unset| unset.variable == id) {
            Some(unset) => unset.paths.push(path.to_owned()),
            None => missing.push(UnsetVariable {
                variable: id.to_owned(),
                paths: vec![path.to_owned()],
            }),
        }
    });
    if let Some(path) = misplaced {
        let message = "a reference is allowed only for a secret: a secret of `auth`, the value of one header, or the token of the gateway; write the setting itself";
        return Err(
            json!({"code": "INVALID_CONFIG", "message": message, "path": path}).to_string(),
        );
    }
    let config = if changed {
        value.to_string().into()
    } else {
        config.into()
    };
    Ok((config, UnsetVariables(missing.into())))
}

/// Returns the name of the variable if the object is an environment reference without other fields.
fn env_reference(fields: &Map<String, Value>) -> Option<&str> {
    let known = |name: &String| matches!(name.as_str(), "source" | "provider" | "id");
    if fields.get("source")? != "env" || !fields.keys().all(known) {
        return None;
    }
    fields.get("id")?.as_str()
}

/// Returns the failure for a configuration error of the library. The settings are those of `file`, or of options.
pub(crate) fn failure(error: impl AsRef<str>, file: Option<&Path>) -> Failure {
    let next = file.map(|_| " (docs/reference/settings.md lists all settings)");
    Failure::usage(sentence(error.as_ref(), file) + next.unwrap_or_default())
}

/// Returns a configuration error of the library about the settings in `file` as a sentence for people.
#[must_use]
pub fn sentence(error: &str, file: Option<&Path>) -> String {
    let error: Value = serde_json::from_str(error).unwrap_or_default();
    let file = file.map(|file| format!(" `{}`", file.display()));
    let file = file.unwrap_or_default();
    let message = error["message"].as_str().unwrap_or("it is refused");
    match error["path"].as_str() {
        Some(path) if !path.is_empty() && !message.contains(path) => {
            format!("cannot use the configuration{file} at `{path}`: {message}")
        }
        _ => format!("cannot use the configuration{file}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn only_desk(name: &str) -> Option<String> {
        (name == "DESK_TOKEN").then(|| "s3cret".to_owned())
    }

    /// Returns the settings with a reference to `DESK_TOKEN` in place of each `REF`.
    fn with_references(config: &str) -> String {
        config.replace(
            "REF",
            r#"{"source":"env","provider":"default","id":"DESK_TOKEN"}"#,
        )
    }

    #[test]
    fn reference_becomes_the_value_of_its_variable() {
        let secret = json!({"source": "resolved", "id": "s3cret"}).to_string();
        let auth = |auth: &str| {
            let target = format!(r#"{{"alias":"a","baseUrl":"https://a.example","auth":{auth}}}"#);
            format!(r#"{{"targets":[{target}]}}"#)
        };
        for config in [
            r#"{"gateway":{"token":REF}}"#,
            r#"{"defaults":{"serviceParameters":{"X-Room":REF}}}"#,
            r#"{"targets":[{"alias":"a","baseUrl":"https://a.example","headers":{"X-Team":REF}}]}"#,
            &auth(r#"{"type":"bearer","token":REF}"#),
            &auth(r#"{"type":"basic","username":"a","password":REF}"#),
            &auth(r#"{"type":"apiKey","in":"query","name":"a","value":REF}"#),
            &auth(
                r#"{"type":"oauth2","tokenUrl":"https://a.example","clientId":"a","clientSecret":REF}"#,
            ),
            &auth(
                r#"{"type":"awsSigV4","region":"eu-west-1","accessKeyId":REF,"secretAccessKey":REF,"sessionToken":REF}"#,
            ),
        ] {
            let written = with_references(config);
            let (resolved, _) = resolve(&written, only_desk).unwrap();
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parsed(&resolved), parsed(&config.replace("REF", &secret)));
            for text in [&*written, &*resolved] {
                openclaw_remote_agent::config::Config::parse(text).unwrap();
            }
        }
    }

    #[test]
    fn reference_outside_a_secret_is_refused_by_place() {
        for (config, place) in [
            (r#"{"targets":[{"baseUrl":REF}]}"#, "/targets/0/baseUrl"),
            (r#"{"targets":[{"headers":REF}]}"#, "/targets/0/headers"),
            (
                r#"{"defaults":{"serviceParameters":REF}}"#,
                "/defaults/serviceParameters",
            ),
            (r#"{"targets":[{"auth":REF}]}"#, "/targets/0/auth"),
            (r#"{"gateway":{"token":[REF]}}"#, "/gateway/token/0"),
        ] {
            let config = with_references(config);
            let error = resolve(&config, only_desk).unwrap_err();
            assert!(error.contains("only for a secret"), "{error}");
            let error: Value = serde_json::from_str(&error).unwrap();
            assert_eq!(error["path"], place);
        }
    }

    #[test]
    fn unset_variable_is_reported_with_its_places() {
        let config = r#"{"gateway":{"token":{"source":"env","id":"NO_SUCH"}},"targets":[{"headers":{"~a/b":{"source":"env","id":"NO_SUCH"}}}]}"#;
        let unset = UnsetVariable {
            variable: "NO_SUCH".to_owned(),
            paths: ["/gateway/token", "/targets/0/headers/~0a~1b"]
                .map(str::to_owned)
                .into(),
        };
        for empty in [None, Some(String::new())] {
            let (resolved, missing) = resolve(config, |_| empty.clone()).unwrap();
            assert_eq!(resolved, config);
            assert_eq!(missing.iter().collect::<Vec<_>>(), [&unset]);
        }
    }

    #[test]
    fn value_in_place_of_a_name_is_not_shown() {
        let value = "rat_Hf7ZqP0aXw";
        let gateway = json!({"token": {"source": "env", "id": value}});
        let header = json!({"A": {"source": "env", "id": "a password"}});
        let config = json!({"gateway": gateway, "targets": [{"headers": header}]}).to_string();
        let (_, missing) = resolve(&config, |_| None).unwrap();
        let named = missing.named_in("the token `env:…` is not there");
        let shown: Vec<_> = named
            .map(|unset| unset.sentence() + &unset.repair(None))
            .collect();
        for (shown, path) in shown.iter().zip(["/gateway/token", "/targets/0/headers/A"]) {
            assert!(
                !shown.contains(value) && shown.contains("not its value") && shown.contains(path),
                "{shown}"
            );
        }
        assert_eq!(shown.len(), 2, "{shown:?}");
    }

    #[test]
    fn refusal_names_its_unset_variable() {
        let config = r#"{"targets":[{"headers":{"A":{"source":"env","id":"A"},"B":{"source":"env","id":"B"}}}]}"#;
        let (_, missing) = resolve(config, |_| None).unwrap();
        let named = missing.named_in("the credential `env:B` is not there");
        let named: Vec<_> = named.map(UnsetVariable::name).collect();
        assert_eq!(named, ["B"]);
    }

    #[test]
    fn other_sources_objects_and_texts_are_unchanged() {
        for config in [
            r#"{ "token": {"source":"file","id":"/x"}, "data": {"source":"env","id":"A","more":1} }"#,
            "{",
        ] {
            assert_eq!(resolve(config, only_desk).unwrap().0, config);
        }
    }
}
