//! Locates the shared library of this command, and calls the tool through its Rust interface, like other hosts.
//!
//! The library ignores an invalid `caller` of a call and logs a warning, because a bug in a host must not fail every call. The
//! command refuses an invalid caller. Otherwise the limits that depend on the caller would silently not apply.

use std::{
    env::{
        self,
        consts::{DLL_PREFIX, DLL_SUFFIX},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use base::json::{self, Limits};
use gateway_agent::DELEGATION_VARIABLE;
use gateway_bridge::delegation::Delegation;
use openclaw_remote_agent_interface::{
    Call, CallOptions, LogBox, PluginModuleRef, RSome, ToolBox, load, log_to, start_call,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    config::{self, UnsetVariables},
    exit::Failure,
    output::note,
    text::with_source,
};

/// The opened library.
#[derive(Clone)]
pub struct Library {
    module: PluginModuleRef,
    verbose: bool,
    /// The delegation of this process.
    delegation: Option<Delegation>,
    /// The options that the commands in log lines get.
    source: String,
}

/// A configured tool. Dropping it closes the instance and blocks until the connection to the local gateway is closed. The
/// process may exit right after the drop, so no message must still be queued.
pub struct Instance {
    tool: Arc<ToolBox>,
    unset_variables: UnsetVariables,
    delegation: Option<Delegation>,
}

/// A running call.
pub struct RunningCall(Call);

/// Renders envelopes as text for a model. It may outlive the instance.
pub struct ModelTextRenderer(Arc<ToolBox>);

impl ModelTextRenderer {
    /// Renders an envelope as text for a model.
    #[must_use]
    pub fn render(&self, envelope: &str) -> String {
        self.0.render(envelope.into()).into()
    }
}

impl Library {
    /// Opens the library of this command. With `verbose`, its debug lines go to standard error as well as its warnings.
    ///
    /// # Errors
    /// The library is missing, cannot be loaded, or was built from other sources than the command; the message lists the
    /// searched paths. Or the delegation in the environment is malformed.
    pub fn open(verbose: bool) -> Result<Self, Failure> {
        Ok(Self {
            module: locate()?.1,
            verbose,
            delegation: delegation()?,
            source: String::new(),
        })
    }

    /// Adds these options to the commands in log lines.
    #[must_use]
    pub(super) fn with_source(mut self, source: String) -> Self {
        self.source = source;
        self
    }

    /// Checks a configuration and returns it as JSON with its defaults.
    ///
    /// # Errors
    /// A configuration error as JSON, `{"code", "message", "path"}`.
    pub fn parse_config(&self, config: &str) -> Result<String, String> {
        let parsed = self.module.parse_config()(config.into());
        parsed.into_result().map(String::from).map_err(String::from)
    }

    /// Creates an instance. Resolves the references to environment variables in the configuration first. An unset variable
    /// fails only the calls that need it.
    ///
    /// # Errors
    /// A configuration error as JSON, `{"code", "message", "path"}`.
    pub fn instance(&self, config: &str) -> Result<Instance, String> {
        let (config, unset_variables) = config::resolve(config, |name| std::env::var(name).ok())?;
        if self.verbose {
            unset_variables.iter().for_each(config::warn);
        }
        let mut instance = self.instance_with(&config, self.log())?;
        instance.unset_variables = unset_variables;
        Ok(instance)
    }

    /// Creates an instance from a configuration. Its log lines go to `log`.
    ///
    /// # Errors
    /// A configuration error as JSON, `{"code", "message", "path"}`.
    pub fn instance_with(&self, config: &str, log: LogBox) -> Result<Instance, String> {
        let tool = self.module.new_tool()(config.into(), RSome(log));
        let tool = tool.into_result().map_err(String::from)?;
        let unset_variables = UnsetVariables::default();
        Ok(Instance {
            tool: Arc::new(tool),
            unset_variables,
            delegation: self.delegation.clone(),
        })
    }

    /// Creates the instance of an interactive command. The configuration is that of `file`, or of options.
    ///
    /// # Errors
    /// The configuration is invalid. The message is a sentence with the file and the JSON Pointer.
    pub fn interactive_instance(
        &self,
        config: &str,
        file: Option<&Path>,
    ) -> Result<Instance, Failure> {
        let instance = self.instance(config);
        instance.map_err(|error| config::failure(error, file))
    }

    fn log(&self) -> LogBox {
        let (verbose, source) = (self.verbose, self.source.clone());
        log_to(move |level, line| {
            if verbose || matches!(level, "warn" | "error") {
                note(format_args!("{level}: {}", with_source(line, &source)));
            }
        })
    }
}

impl Instance {
    /// Returns the tool's definition as JSON.
    #[must_use]
    pub fn definition(&self) -> String {
        self.tool.definition().into()
    }

    /// Returns the tool. Dropping the instance closes it.
    #[must_use]
    pub fn tool(&self) -> Arc<ToolBox> {
        Arc::clone(&self.tool)
    }

    /// Returns a renderer of envelopes for a model.
    #[must_use]
    pub fn renderer(&self) -> ModelTextRenderer {
        ModelTextRenderer(Arc::clone(&self.tool))
    }

    /// Returns the unset environment variables that the configuration refers to.
    #[must_use]
    pub fn unset_variables(&self) -> &UnsetVariables {
        &self.unset_variables
    }

    /// Starts a call. `request` is JSON. A caller without a delegation chain gets the chain of this process.
    pub fn start(&self, request: &str, mut options: CallOptions) -> RunningCall {
        options.caller = with_chain(options.caller, self.delegation.as_ref());
        RunningCall(start_call(&self.tool, request, options))
    }

    /// Runs a call and returns its envelope as JSON. Ctrl-C cancels the call.
    pub async fn call(&self, request: &str, options: CallOptions) -> String {
        let running = self.start(request, options);
        // Without a signal handler, Ctrl-C ends the process.
        running
            .run_until(async { tokio::signal::ctrl_c().await.is_ok() })
            .await
    }

    /// Lists the targets: the envelope as text, and parsed.
    pub(super) async fn list_targets(&self, caller: Option<String>) -> (String, Value) {
        let request = json!({"action": "list_targets"}).to_string();
        let options = CallOptions {
            caller,
            ..CallOptions::default()
        };
        let text = self.call(&request, options).await;
        let envelope = serde_json::from_str(&text).unwrap_or_default();
        (text, envelope)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.tool.close_and_wait();
    }
}

impl RunningCall {
    /// Waits for the envelope. Cancels the call if `stop` resolves to `true` first.
    pub async fn run_until(self, stop: impl Future<Output = bool>) -> String {
        let Call { mut future, cancel } = self.0;
        let envelope = tokio::select! {
            envelope = &mut future => envelope,
            stopped = stop => {
                if stopped {
                    cancel.cancel();
                }
                future.await
            }
        };
        envelope.into()
    }

    /// Waits for the envelope.
    pub async fn envelope(self) -> String {
        self.0.future.await.into()
    }
}

/// The environment variable with the path of the library. It replaces the default search paths.
const LIBRARY_VARIABLE: &str = "REMOTE_AGENT_LIBRARY";

/// Returns the path of the library of this command.
///
/// # Errors
/// The same as [`Library::open`], without the delegation.
pub fn find_library() -> Result<PathBuf, Failure> {
    locate().map(|(path, _)| path)
}

fn locate() -> Result<(PathBuf, PluginModuleRef), Failure> {
    let command = env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::new(format!("cannot find this command's own file: {error}")))?;
    let places = candidates(&command, env::var_os(LIBRARY_VARIABLE).map(PathBuf::from));
    let library = first_file(&places)?;
    let module = load(library).map_err(|error| Failure::new(error.to_string()))?;
    check_build(&command, library, module.build_id()().as_str())?;
    Ok((library.to_owned(), module))
}

/// Checks that the library at `library` was built from the same sources as the command. Returns the reason if the library
/// cannot be loaded on this machine, for example because it is built for another platform.
///
/// # Errors
/// The library was built from other sources.
pub fn check_library(library: &Path) -> Result<Option<String>, Failure> {
    let module = match load(library) {
        Ok(module) => module,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let build_id = module.build_id()();
    if build_id.as_str() == openclaw_remote_agent::BUILD_ID {
        return Ok(None);
    }
    Err(Failure::new(format!(
        "the library `{}` is build {build_id}, and this command packs build {}; build both from the same sources",
        library.display(),
        openclaw_remote_agent::BUILD_ID,
    )))
}

/// Returns the possible paths of the library, the most likely first.
fn candidates(command: &Path, named: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named];
    }
    let file = format!("{DLL_PREFIX}openclaw_remote_agent{DLL_SUFFIX}");
    let directory = command.parent().unwrap_or(Path::new("."));
    vec![
        // Cargo's own copy. Only `cargo build` updates the one next to the command; `cargo run` and `cargo test` do not.
        directory.join("deps").join(&file),
        directory.join(&file),
        directory.join("../lib").join(&file),
    ]
}

fn first_file(places: &[PathBuf]) -> Result<&Path, Failure> {
    let found = places.iter().find(|place| place.is_file());
    found.map(PathBuf::as_path).ok_or_else(|| {
        let searched: Vec<String> = places
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect();
        Failure::new(format!(
            "cannot find the plugin's library, looked for {}; set `{LIBRARY_VARIABLE}` to its path",
            searched.join(", ")
        ))
    })
}

fn check_build(command: &Path, library: &Path, build_id: &str) -> Result<(), Failure> {
    if build_id == openclaw_remote_agent::BUILD_ID {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the library `{}` is build {build_id}, the command `{}` is build {}; run `cargo build`, or set `{LIBRARY_VARIABLE}` to the library that came with the command",
        library.display(),
        command.display(),
        openclaw_remote_agent::BUILD_ID,
    )))
}

/// The fields of a caller. This type only validates the shape; the library parses the JSON again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to be checked")]
struct Caller {
    agent_id: Option<String>,
    user: Option<String>,
    session_key: Option<String>,
    chain: Option<Chain>,
    state_dir: Option<String>,
    traceparent: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read to be checked")]
struct Chain {
    hop: u64,
    chain: Option<String>,
}

/// Checks a caller.
///
/// # Errors
/// The caller is invalid. The error is a sentence without a full stop.
pub(super) fn check_caller(json: &str) -> Result<(), String> {
    match json::from_str::<Caller>(json, Limits::NONE) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!(
            "the caller is not {{\"agent_id\", \"user\", \"session_key\", \"chain\": {{\"hop\", \"chain\"}}, \"state_dir\", \"traceparent\"}}: {e}"
        )),
    }
}

/// Returns the delegation of this process. An agent with a command backend sets it in the environment of the command.
///
/// # Errors
/// The environment variable is malformed.
pub(super) fn delegation() -> Result<Option<Delegation>, Failure> {
    std::env::var(DELEGATION_VARIABLE)
        .ok()
        .map(|text| parse_delegation(&text))
        .transpose()
}

fn parse_delegation(text: &str) -> Result<Delegation, Failure> {
    let value: Option<Value> = json::from_str(text, Limits::NONE).ok();
    let delegation = value.as_ref().and_then(Delegation::read);
    delegation.ok_or_else(|| {
        Failure::usage(format!(
            "the environment variable `{DELEGATION_VARIABLE}` is not {{\"hop\", \"chain\"}}; pass it on as the agent set it, or unset it"
        ))
    })
}

/// Returns the caller with the delegation chain of this process, unless the caller already has a chain.
fn with_chain(caller: Option<String>, delegation: Option<&Delegation>) -> Option<String> {
    let Some(delegation) = delegation else {
        return caller;
    };
    let mut caller: Value = match caller {
        Some(caller) => match serde_json::from_str(&caller) {
            Ok(parsed @ Value::Object(_)) => parsed,
            // The library reports the invalid caller.
            _ => return Some(caller),
        },
        None => Value::Object(serde_json::Map::new()),
    };
    if caller["chain"].is_null() {
        caller["chain"] = delegation.json();
    }
    Some(caller.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn named_library_precedes_those_beside_the_command() {
        let command = Path::new("/opt/bin/remote-agent");
        let places = candidates(command, None);
        let directories: Vec<_> = places.iter().filter_map(|place| place.parent()).collect();
        let expected = ["/opt/bin/deps", "/opt/bin", "/opt/bin/../lib"];
        assert_eq!(directories, expected.map(Path::new));
        let named = candidates(command, Some("/tmp/x.so".into()));
        assert_eq!(named, [PathBuf::from("/tmp/x.so")]);
    }

    #[test]
    fn missing_library_error_names_every_place() {
        let places = ["/nowhere/a.so", "/nowhere/b.so"].map(PathBuf::from);
        let message = first_file(&places).unwrap_err().message;
        for part in ["`/nowhere/a.so`, `/nowhere/b.so`", LIBRARY_VARIABLE] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn another_build_is_refused_with_both_paths() {
        let (command, library) = (Path::new("/bin/command"), Path::new("/lib/library"));
        let message = check_build(command, library, "0.1.0+0")
            .unwrap_err()
            .message;
        let own = openclaw_remote_agent::BUILD_ID;
        for part in ["`/bin/command`", "`/lib/library`", "0.1.0+0", own] {
            assert!(message.contains(part), "{part} in: {message}");
        }
    }

    #[test]
    fn caller_has_the_chain_of_its_process() {
        let own = parse_delegation(r#"{"hop":2,"chain":"c"}"#).unwrap();
        let named =
            |caller: Option<&str>| with_chain(caller.map(str::to_owned), Some(&own)).unwrap();
        assert_eq!(named(None), r#"{"chain":{"chain":"c","hop":2}}"#);
        let with_agent = named(Some(r#"{"agent_id":"main"}"#));
        assert!(with_agent.contains("\"main\"") && with_agent.contains("\"hop\":2"));
        let explicit = r#"{"chain":{"hop":7}}"#;
        assert_eq!(named(Some(explicit)), explicit);
        assert_eq!(with_chain(None, None), None);
    }

    #[test]
    fn unreadable_chain_is_refused() {
        for text in ["", "2", "{}", r#"{"hop":"2"}"#] {
            assert!(parse_delegation(text).is_err(), "{text}");
        }
    }
}
