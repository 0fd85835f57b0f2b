//! The options with the credentials of the agent of `--url`, and with the certificates that it may have.

use std::path::Path;

use base::variable_name::variable_fault;
use serde_json::{Map, Value, json};

use super::{exit::Failure, text::shell};

/// How the command authenticates to the agent of `--url`. A secret is named by its environment variable, never written.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct CredentialArgs {
    /// Send the bearer token in this environment variable to the agent of --url
    #[arg(long, value_name = "VAR", requires = "url", group = "auth")]
    bearer_env: Option<String>,

    /// Send the API key in the environment variable VAR as the header NAME; --api-key-in names another place
    #[arg(long, value_name = "NAME=VAR", requires = "url", group = "auth", value_parser = assignment)]
    api_key_env: Option<Assignment>,

    /// Place of the API key [default: header]
    #[arg(long, value_name = "PLACE", requires = "api_key_env", value_parser = ["header", "query", "cookie"])]
    api_key_in: Option<String>,

    /// Send the user name USER and the password in the environment variable VAR
    #[arg(long, value_name = "USER=VAR", requires = "url", group = "auth", value_parser = assignment)]
    basic_env: Option<Assignment>,

    /// Get access tokens for the OAuth 2 client ID, with its secret in the environment variable VAR
    #[arg(long, value_name = "ID=VAR", requires_all = ["url", "oauth2_token_url"], group = "auth", value_parser = assignment)]
    oauth2_env: Option<Assignment>,

    /// The token endpoint of --oauth2-env
    #[arg(long, value_name = "URL", requires = "oauth2_env")]
    oauth2_token_url: Option<String>,

    /// Request this scope for --oauth2-env; may be given several times
    #[arg(long, value_name = "SCOPE", requires = "oauth2_env")]
    oauth2_scope: Vec<String>,

    /// Send the client certificate in this PEM file, with its key in --key-file
    #[arg(long, value_name = "FILE", requires_all = ["url", "key_file"], group = "auth")]
    cert_file: Option<String>,

    /// The private key of --cert-file, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<String>,

    /// Send the header NAME with the value of the environment variable VAR; may be given several times
    #[arg(long, value_name = "NAME=VAR", requires = "url", value_parser = assignment)]
    header_env: Vec<Assignment>,

    /// Trust the certificates in this PEM file for the agent of --url, instead of those that the system trusts
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<String>,
}

/// A name with the environment variable of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment {
    name: String,
    variable: String,
}

/// Parses `NAME=VAR`. A name may contain `=`, an environment variable may not.
fn assignment(text: &str) -> Result<Assignment, String> {
    match text.rsplit_once('=') {
        Some((name, variable)) if !name.is_empty() && !variable.is_empty() => Ok(Assignment {
            name: name.to_owned(),
            variable: variable.to_owned(),
        }),
        _ => Err("write a name, `=`, and the name of an environment variable".to_owned()),
    }
}

impl CredentialArgs {
    /// Returns the options of a bearer token.
    #[cfg(test)]
    pub(super) fn bearer(variable: &str) -> Self {
        Self {
            bearer_env: Some(variable.to_owned()),
            ..Self::default()
        }
    }

    /// Adds the settings of these options to a target.
    pub(super) fn apply(&self, target: &mut Value) {
        if let Some(auth) = self.auth() {
            target["auth"] = auth;
        }
        if !self.header_env.is_empty() {
            let header = |Assignment { name, variable }: &Assignment| {
                (name.clone(), env_reference(variable))
            };
            target["headers"] =
                Value::Object(self.header_env.iter().map(header).collect::<Map<_, _>>());
        }
        if let Some(file) = &self.ca_file {
            target["tls"] = json!({"caFile": file});
        }
    }

    fn auth(&self) -> Option<Value> {
        if let Some(variable) = &self.bearer_env {
            return Some(json!({"type": "bearer", "token": env_reference(variable)}));
        }
        if let Some(Assignment { name, variable }) = &self.api_key_env {
            let place = self.api_key_in.as_deref().unwrap_or("header");
            return Some(
                json!({"type": "apiKey", "in": place, "name": name, "value": env_reference(variable)}),
            );
        }
        if let Some(Assignment { name, variable }) = &self.basic_env {
            return Some(
                json!({"type": "basic", "username": name, "password": env_reference(variable)}),
            );
        }
        if let Some(Assignment { name, variable }) = &self.oauth2_env {
            let mut auth = json!({"type": "oauth2", "tokenUrl": self.oauth2_token_url, "clientId": name, "clientSecret": env_reference(variable)});
            if !self.oauth2_scope.is_empty() {
                auth["scopes"] = json!(self.oauth2_scope);
            }
            return Some(auth);
        }
        let file = self.cert_file.as_ref()?;
        Some(json!({"type": "mtls", "certFile": file, "keyFile": self.key_file}))
    }

    /// Returns the options with their values, as arguments of a command.
    pub(super) fn arguments(&self) -> Vec<String> {
        let pair = |pair: &Assignment| format!("{}={}", pair.name, pair.variable);
        let one =
            |name: &'static str, value: &Option<String>| value.clone().map(|value| (name, value));
        let options = [
            one("--bearer-env", &self.bearer_env),
            one("--api-key-env", &self.api_key_env.as_ref().map(pair)),
            one("--api-key-in", &self.api_key_in),
            one("--basic-env", &self.basic_env.as_ref().map(pair)),
            one("--oauth2-env", &self.oauth2_env.as_ref().map(pair)),
            one("--oauth2-token-url", &self.oauth2_token_url),
            one("--cert-file", &self.cert_file),
            one("--key-file", &self.key_file),
            one("--ca-file", &self.ca_file),
        ];
        let scopes = self
            .oauth2_scope
            .iter()
            .map(|scope| ("--oauth2-scope", scope.clone()));
        let headers = self
            .header_env
            .iter()
            .map(|header| ("--header-env", pair(header)));
        let given = options.into_iter().flatten().chain(scopes).chain(headers);
        given
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    /// Returns the options as text for a suggested command: empty, or with a leading space each.
    pub(super) fn options(&self) -> String {
        let arguments = self.arguments();
        arguments
            .iter()
            .map(|word| format!(" {}", shell(word)))
            .collect()
    }

    /// Returns the environment variable with the secret of the authentication.
    pub(super) fn variable(&self) -> Option<&str> {
        let (_, variable) = self.secret_of_auth()?;
        Some(variable)
    }

    /// Returns the option of the authentication with the environment variable of its secret.
    fn secret_of_auth(&self) -> Option<(&'static str, &str)> {
        let pairs = [
            ("--api-key-env", &self.api_key_env),
            ("--basic-env", &self.basic_env),
            ("--oauth2-env", &self.oauth2_env),
        ];
        let bearer = self.bearer_env.as_deref();
        let bearer = bearer.map(|variable| ("--bearer-env", variable));
        let mut pairs = pairs
            .into_iter()
            .filter_map(|(option, pair)| Some((option, pair.as_ref()?.variable.as_str())));
        bearer.or_else(|| pairs.next())
    }

    /// Refuses values that are not names of environment variables.
    ///
    /// # Errors
    /// See [`check_variable`].
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut named = self.variables();
        named.try_for_each(|(option, name)| check_variable(option, name))
    }

    /// Returns the environment variables that the options name, each with its option.
    fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let headers = self.header_env.iter();
        let headers = headers.map(|header| ("--header-env", header.variable.as_str()));
        self.secret_of_auth().into_iter().chain(headers)
    }

    /// Returns the unset environment variables that the options name, each with its option.
    pub(super) fn unset_variables(&self) -> Vec<(&'static str, &str)> {
        self.variables()
            .filter(|(_, name)| std::env::var(name).unwrap_or_default().is_empty())
            .collect()
    }

    /// Makes the paths of files absolute, for a process with another working directory.
    ///
    /// # Errors
    /// The working directory is unknown.
    pub(super) fn with_absolute_paths(mut self) -> Result<Self, Failure> {
        let files = [&mut self.cert_file, &mut self.key_file, &mut self.ca_file];
        for path in files.into_iter().flatten() {
            let absolute = std::path::absolute(Path::new(path.as_str()))
                .map_err(|error| Failure::usage(format!("cannot find `{path}`: {error}")))?;
            *path = absolute.to_string_lossy().into_owned();
        }
        Ok(self)
    }
}

/// Refuses the value of an option if it is neither a variable of the environment nor the plausible name of one.
///
/// # Errors
/// The value may be the secret itself, so the message does not show it.
pub(crate) fn check_variable(option: &str, name: &str) -> Result<(), Failure> {
    let is_set = std::env::var_os(name).is_some();
    match variable_fault(name).filter(|_| !is_set) {
        Some(fault) => Err(Failure::usage(format!("`{option}` {fault}"))),
        None => Ok(()),
    }
}

/// Returns a reference to an environment variable.
pub(super) fn env_reference(variable: &str) -> Value {
    json!({"source": "env", "id": variable})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        credentials: CredentialArgs,
    }

    fn parse(options: &str) -> Result<CredentialArgs, clap::Error> {
        let words = "command --url https://desk.example".split(' ');
        Command::try_parse_from(words.chain(options.split(' '))).map(|command| {
            assert!(command.url.is_some());
            command.credentials
        })
    }

    #[test]
    fn each_kind_of_credential_becomes_settings_and_arguments_again() {
        let key = json!({"source": "env", "id": "KEY"});
        let auth = |settings: Value| json!({ "auth": settings });
        for (options, settings) in [
            (
                "--bearer-env KEY",
                auth(json!({"type": "bearer", "token": key})),
            ),
            (
                "--api-key-env X-Key=KEY",
                auth(json!({"type": "apiKey", "in": "header", "name": "X-Key", "value": key})),
            ),
            (
                "--api-key-env key=KEY --api-key-in query",
                auth(json!({"type": "apiKey", "in": "query", "name": "key", "value": key})),
            ),
            (
                "--basic-env a=b=KEY",
                auth(json!({"type": "basic", "username": "a=b", "password": key})),
            ),
            (
                "--oauth2-env me=KEY --oauth2-token-url https://login.example/token --oauth2-scope a --oauth2-scope b",
                auth(
                    json!({"type": "oauth2", "tokenUrl": "https://login.example/token", "clientId": "me", "clientSecret": key, "scopes": ["a", "b"]}),
                ),
            ),
            (
                "--cert-file /c.pem --key-file /k.pem",
                auth(json!({"type": "mtls", "certFile": "/c.pem", "keyFile": "/k.pem"})),
            ),
            (
                "--ca-file /ca.pem --header-env X-A=KEY --header-env X-B=KEY",
                json!({"headers": {"X-A": key, "X-B": key}, "tls": {"caFile": "/ca.pem"}}),
            ),
        ] {
            let credentials = parse(options).unwrap();
            let mut target = json!({});
            credentials.apply(&mut target);
            assert_eq!(target, settings);
            assert_eq!(credentials.arguments().join(" "), options);
        }
    }

    #[test]
    fn one_target_takes_one_kind_of_authentication() {
        for options in [
            "--bearer-env KEY --basic-env a=KEY",
            "--oauth2-env me=KEY",
            "--cert-file /c.pem",
            "--basic-env KEY",
            "--api-key-env =KEY",
        ] {
            assert!(parse(options).is_err(), "{options}");
        }
    }
}
