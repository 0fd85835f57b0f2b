//! The plugin's settings in OpenClaw's own configuration, with the secrets that this command can read, and which settings may hold
//! a secret.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use base::files::{open_regular, read_bytes};
use base::{text::utf8, validation::escape};
use openclaw_server::config::local_gateway;
use openclaw_server::openclaw_file::{self, Environment, Location, ReadError, substitute};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{credentials::env_reference, exit::Failure};

/// The entry of the plugin, and that of its predecessor.
const ENTRY: &str = "remote-agent";
const LEGACY_ENTRY: &str = "openclaw-a2a-outbound";

/// The maximum size of a file with secrets.
const MAX_SECRETS_BYTES: u64 = 1024 * 1024;

/// A configuration that was read.
#[derive(Clone)]
pub struct Loaded {
    /// The configuration, with references to secrets as they are written.
    pub written: String,
    /// The configuration for the library: where it is OpenClaw's, with the values of secrets.
    pub resolved: String,
    /// The files of OpenClaw, where the configuration is OpenClaw's.
    pub openclaw: Option<OpenClawFiles>,
}

impl Loaded {
    /// Creates the configuration of a file that is not OpenClaw's.
    pub fn own(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            written: text.clone(),
            resolved: text,
            openclaw: None,
        }
    }
}

impl fmt::Debug for Loaded {
    /// Omits the configuration, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let openclaw = &self.openclaw;
        f.debug_struct("Loaded")
            .field("openclaw", openclaw)
            .finish_non_exhaustive()
    }
}

/// The files of an OpenClaw.
#[derive(Clone, Debug)]
pub struct OpenClawFiles {
    /// The configuration.
    pub config: PathBuf,
    /// The variables that OpenClaw adds to its environment, from `.env` and the configuration.
    pub environment: Environment,
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Returns whether `config` is a configuration of OpenClaw, and not only of the plugin.
pub(super) fn is_host_config(config: &Value) -> bool {
    config["plugins"]["entries"].is_object()
}

/// Returns the place of OpenClaw's configuration.
///
/// # Errors
/// The environment names no home.
pub(super) fn location() -> Result<Location, Failure> {
    openclaw_file::locate(variable).ok_or_else(|| {
        Failure::usage(
            "cannot find OpenClaw's configuration: HOME is not set; name it with `--openclaw=FILE`",
        )
    })
}

/// Returns the settings in OpenClaw's configuration, for a command that names no agents. Returns `None` if there is no
/// such file, or if it has no agents.
///
/// # Errors
/// The file cannot be read.
pub(super) fn discover() -> Result<Option<Loaded>, Failure> {
    let Some(Location { file, is_named }) = openclaw_file::locate(variable) else {
        return Ok(None);
    };
    if !is_named && !file.exists() {
        return Ok(None);
    }
    let settings = load(&file)?;
    let has_agents = serde_json::from_str::<Value>(&settings.written).is_ok_and(|settings| {
        let targets = settings["targets"].as_array();
        targets.is_some_and(|targets| !targets.is_empty()) || settings["gateway"]["enabled"] == true
    });
    Ok(has_agents.then_some(settings))
}

/// Reads the settings in `file`.
///
/// # Errors
/// The file cannot be read, is no configuration of OpenClaw, or refers to a variable that is not set where no secret is.
pub(super) fn load(file: &Path) -> Result<Loaded, Failure> {
    let failed = |cause: &str| {
        Failure::usage(format!(
            "cannot read OpenClaw's configuration `{}`: {cause}",
            file.display()
        ))
    };
    let host = openclaw_file::read(file, variable)
        .map_err(|error: ReadError| failed(&error.to_string()))?;
    if !host.is_object() {
        return Err(failed("it is not a JSON object"));
    }
    let environment = Environment::read(file, &host, variable);
    // OpenClaw's `.env` does not override a variable of the process.
    let lookup = |name: &str| match env::var(name) {
        Ok(value) => Some(value),
        Err(_) => environment.get(name).map(str::to_owned),
    };
    let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let mut written = plugin_settings(&host);
    let mut resolved = written.clone();
    let mut unset = None;
    visit(&mut resolved, &mut String::new(), &mut |value, path| {
        let Some(text) = value.as_str().filter(|text| text.contains("${")) else {
            return;
        };
        *value = match (substitute(text, lookup), is_secret_place(path)) {
            (Ok(text), true) if *value != text => json!({"source": "resolved", "id": text}),
            (Ok(text), _) => text.into(),
            (Err(name), true) => env_reference(&name),
            (Err(name), false) => {
                unset.get_or_insert((path.to_owned(), name));
                return;
            }
        };
    });
    if let Some((path, name)) = unset {
        return Err(failed(&format!(
            "the setting at `{path}` of the plugin has the environment variable `{name}`, which is not set; set it, or add it to `{}`",
            environment.file().display()
        )));
    }
    visit(&mut written, &mut String::new(), &mut |value, path| {
        // A secret that has a variable is not written in plain text.
        if is_secret_place(path)
            && let Some(text) = value.as_str()
            && let Err(name) = substitute(text, |_| None)
        {
            *value = env_reference(&name);
        }
    });
    visit(&mut resolved, &mut String::new(), &mut |value, path| {
        if is_secret_place(path)
            && let Some(secret) = secret(value, &host, lookup)
        {
            *value = json!({"source": "resolved", "id": secret});
        }
    });
    if resolved["gateway"]["enabled"] == true && resolved["gateway"]["url"].is_null() {
        own_gateway(&mut resolved["gateway"], file, lookup);
    }
    // The gateway's instance has its record there.
    let target_budgets = resolved["targets"].as_array().into_iter().flatten();
    let has_budgets = resolved["budget"].is_object()
        || target_budgets
            .clone()
            .any(|target| target["budget"].is_object());
    if has_budgets && resolved["budget"]["path"].is_null() {
        let path = environment.file().with_file_name("remote-agent");
        resolved["budget"]["path"] = json!(path.join("budget.json"));
    }
    Ok(Loaded {
        written: written.to_string(),
        resolved: resolved.to_string(),
        openclaw: Some(OpenClawFiles {
            config: file.to_owned(),
            environment,
        }),
    })
}

/// Completes the `gateway` settings with the address and the token of the gateway of this OpenClaw. Leaves them if that
/// gateway takes no token; its refusal then names the reason.
fn own_gateway(gateway: &mut Value, file: &Path, lookup: impl Fn(&str) -> Option<String>) {
    let of_openclaw = |name: &str| match name {
        "OPENCLAW_CONFIG_PATH" => Some(file.into()),
        name => variable(name).or_else(|| lookup(name).map(OsString::from)),
    };
    let Ok((url, token)) = local_gateway(None, of_openclaw) else {
        return;
    };
    gateway["url"] = url.into();
    let token = token.and_then(|token| token.resolve(lookup).ok());
    if let Some(token) = token.filter(|_| gateway["token"].is_null()) {
        gateway["token"] = json!({"source": "resolved", "id": token.expose_secret()});
    }
}

/// Returns the settings of the plugin: its own, or while it has none, those of its predecessor. `openclaw/config.js` has
/// the same rule.
fn plugin_settings(host: &Value) -> Value {
    let entries = &host["plugins"]["entries"];
    let (own, legacy) = (&entries[ENTRY]["config"], &entries[LEGACY_ENTRY]);
    let has_own = own.as_object().is_some_and(|own| !own.is_empty());
    match has_own || legacy["enabled"] == false || !legacy["config"].is_object() {
        true if own.is_object() => own.clone(),
        true => json!({}),
        false => legacy["config"].clone(),
    }
}

/// Returns the value of a reference to a secret; `None` if OpenClaw alone can read it.
fn secret(
    reference: &Value,
    host: &Value,
    lookup: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let id = reference["id"].as_str()?;
    match reference["source"].as_str()? {
        "env" => lookup(id),
        "file" => {
            let secrets = &host["secrets"];
            let default = secrets["defaults"]["file"].as_str().unwrap_or("default");
            let provider = reference["provider"].as_str().unwrap_or(default);
            file_secret(id, &secrets["providers"][provider])
        }
        _ => None,
    }
}

fn file_secret(id: &str, provider: &Value) -> Option<String> {
    let path = openclaw_file::expand_home(provider["path"].as_str()?.into(), variable)?;
    let file = open_regular(Path::new(&path)).ok()?;
    let bytes = read_bytes(file, MAX_SECRETS_BYTES).ok()?;
    let text = utf8(&bytes).ok()?;
    if provider["mode"] == "singleValue" {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        return (id == "value" && !line.is_empty()).then(|| line.to_owned());
    }
    let values: Value = serde_json::from_str(text).ok()?;
    let value = values.pointer(id)?.as_str()?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// The settings that may hold a secret, or a reference to one, as JSON Pointers; `*` stands for any name or index.
const SECRET_PLACES: [&str; 11] = [
    "/targets/*/auth/token",
    "/targets/*/auth/password",
    "/targets/*/auth/value",
    "/targets/*/auth/clientSecret",
    "/targets/*/auth/accessKeyId",
    "/targets/*/auth/secretAccessKey",
    "/targets/*/auth/sessionToken",
    "/targets/*/headers/*",
    "/defaults/serviceParameters/*",
    "/gateway/token",
    "/gateway/signing/key",
];

/// Returns whether the setting at a JSON Pointer may hold a secret.
pub(super) fn is_secret_place(path: &str) -> bool {
    SECRET_PLACES.iter().any(|place| {
        place.split('/').count() == path.split('/').count()
            && place
                .split('/')
                .zip(path.split('/'))
                .all(|(expected, name)| expected == "*" || expected == name)
    })
}

/// Calls `action` with each value inside `value` and its JSON Pointer.
pub(super) fn visit(
    value: &mut Value,
    path: &mut String,
    action: &mut impl FnMut(&mut Value, &str),
) {
    action(value, path);
    let length = path.len();
    let fields: Vec<_> = match value {
        Value::Object(fields) => fields
            .iter_mut()
            .map(|(name, field)| (escape(name), field))
            .collect(),
        Value::Array(items) => items
            .iter_mut()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => return,
    };
    for (name, field) in fields {
        path.push('/');
        path.push_str(&name);
        visit(field, path, action);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn loaded(host: &Value, files: &[(&str, &str)]) -> Result<Loaded, Failure> {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(scratch.path().join(name), text).unwrap();
        }
        let root = scratch.path().display().to_string();
        let host = host.to_string().replace("ROOT", &root);
        let file = scratch.path().join("openclaw.json");
        fs::write(&file, host).unwrap();
        load(&file)
    }

    fn host(config: &Value) -> Value {
        json!({"plugins": {"entries": {"remote-agent": {"config": config}}}})
    }

    fn tokens(settings: &str) -> Vec<Value> {
        let settings: Value = serde_json::from_str(settings).unwrap();
        let targets = settings["targets"].as_array().unwrap();
        let tokens = targets.iter().map(|target| target["auth"]["token"].clone());
        tokens.collect()
    }

    fn target(token: &Value) -> Value {
        json!({"alias": "a", "baseUrl": "https://a.example", "auth": {"type": "bearer", "token": token}})
    }

    fn known(secret: &str) -> Value {
        json!({"source": "resolved", "id": secret})
    }

    #[test]
    fn secrets_of_dotenv_and_files_are_read() {
        let store = json!({"source": "store", "provider": "default", "id": "S"});
        let unset = json!({"source": "env", "id": "WORDS_UNSET"});
        let all = [
            json!({"source": "env", "provider": "default", "id": "WORDS_TOKEN"}),
            json!("${WORDS_TOKEN}"),
            json!({"source": "file", "provider": "json", "id": "/a/b"}),
            json!({"source": "file", "provider": "line", "id": "value"}),
            store.clone(),
            unset.clone(),
            json!("${WORDS_UNSET}"),
            json!("plain"),
        ];
        let targets: Vec<Value> = all.iter().map(target).collect();
        let mut config = host(&json!({ "targets": targets }));
        config["secrets"]["providers"] = json!({
            "json": {"source": "file", "path": "ROOT/secrets.json"},
            "line": {"source": "file", "path": "ROOT/line", "mode": "singleValue"},
        });
        let files = [
            (".env", "WORDS_TOKEN=of-dotenv\n"),
            ("secrets.json", r#"{"a": {"b": "of-json"}}"#),
            ("line", "of-line\n"),
        ];
        let settings = loaded(&config, &files).unwrap();
        let expected = [
            known("of-dotenv"),
            known("of-dotenv"),
            known("of-json"),
            known("of-line"),
            store,
            unset.clone(),
            unset,
            json!("plain"),
        ];
        assert_eq!(tokens(&settings.resolved), expected);
        let plain = tokens(&settings.written);
        assert_eq!(plain.iter().filter(|token| token.is_string()).count(), 1);
        assert!(!settings.written.contains("of-"), "{}", settings.written);
    }

    #[cfg(unix)]
    #[test]
    fn secret_in_a_pipe_is_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let pipe = scratch.path().join("pipe");
        base::testing::make_pipe(&pipe);
        let provider = json!({"path": pipe.display().to_string(), "mode": "singleValue"});
        // The writer waits for a reader, and lets one that reads end.
        std::thread::spawn(move || fs::write(pipe, "of-pipe\n"));
        assert_eq!(file_secret("value", &provider), None);
    }

    #[test]
    fn gateway_without_a_url_is_that_of_this_openclaw() {
        let mut config = host(&json!({"gateway": {"enabled": true, "agents": ["main"]}}));
        config["gateway"] = json!({"port": 28789, "auth": {"token": "${WORDS_GATE}"}});
        let settings = loaded(&config, &[(".env", "WORDS_GATE=gate-token\n")]).unwrap();
        let resolved: Value = serde_json::from_str(&settings.resolved).unwrap();
        let gateway = &resolved["gateway"];
        assert_eq!(gateway["url"], "ws://127.0.0.1:28789");
        assert_eq!(gateway["token"], known("gate-token"));
        assert!(!settings.written.contains("gate-token"));
    }

    #[test]
    fn unset_variable_outside_a_secret_is_an_error() {
        let config =
            host(&json!({"targets": [{"alias": "a", "baseUrl": "https://${WORDS_UNSET}/"}]}));
        let message = loaded(&config, &[]).unwrap_err().message;
        for part in ["`/targets/0/baseUrl`", "`WORDS_UNSET`", "/.env`"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn settings_of_the_predecessor_count_until_there_are_own() {
        let (old, new) = (json!({"targets": [1]}), json!({"targets": [2]}));
        let of = |own: Value, legacy: Value| {
            plugin_settings(
                &json!({"plugins": {"entries": {"remote-agent": own, "openclaw-a2a-outbound": legacy}}}),
            )
        };
        let legacy = json!({ "config": old });
        assert_eq!(of(json!({"config": {}}), legacy.clone()), old);
        assert_eq!(of(json!({}), legacy.clone()), old);
        assert_eq!(of(json!({ "config": new }), legacy), new);
        let disabled = json!({"enabled": false, "config": old});
        assert_eq!(of(json!({}), disabled), json!({}));
    }

    #[test]
    fn secret_places_are_those_of_the_manifest() {
        let manifest: Value =
            serde_json::from_str(include_str!("../../../openclaw/openclaw.plugin.json")).unwrap();
        let inputs = &manifest["configContracts"]["secretInputs"]["paths"];
        let declared: Vec<String> = inputs
            .as_array()
            .unwrap()
            .iter()
            .map(|input| format!("/{}", input["path"].as_str().unwrap().replace('.', "/")))
            .collect();
        assert_eq!(declared, SECRET_PLACES);
    }
}
