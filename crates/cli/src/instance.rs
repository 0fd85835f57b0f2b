//! Calls the tool through the library's Rust interface, like other hosts.

use std::sync::Arc;

use openclaw_remote_agent_interface::{
    Call, LogBox, PluginModuleRef, ROption, RSome, ToolBox, log_to, updates_to,
};

use gateway_bridge::delegation::Delegation;
use serde_json::{Value, json};

use super::{
    caller,
    config::{self, UnsetVariables},
    exit::Failure,
    library,
    output::note,
};

/// The opened library.
#[derive(Clone)]
pub struct Library {
    module: PluginModuleRef,
    verbose: bool,
    /// The delegation of this process.
    delegation: Option<Delegation>,
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
    /// See [`library::open`]. Also fails if the delegation in the environment is malformed.
    pub fn open(verbose: bool) -> Result<Self, Failure> {
        Ok(Self {
            module: library::open()?,
            verbose,
            delegation: caller::delegation()?,
        })
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

    /// Creates the instance of an interactive command.
    ///
    /// # Errors
    /// The configuration is invalid. The message is a sentence with the JSON Pointer.
    pub fn interactive_instance(&self, config: &str) -> Result<Instance, Failure> {
        self.instance(config)
            .map_err(|error| Failure::usage(config::sentence(&error)))
    }

    fn log(&self) -> LogBox {
        let verbose = self.verbose;
        log_to(move |level, line| {
            if verbose || matches!(level, "warn" | "error") {
                note(format_args!("{level}: {line}"));
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

    /// Starts a call. `request`, `caller` and each update are JSON. A caller without a delegation chain gets the chain of
    /// this process.
    pub fn execute<F>(&self, request: &str, caller: Option<&str>, updates: Option<F>) -> RunningCall
    where
        F: Fn(&str) + Send + Sync + 'static,
    {
        let caller = caller::with_chain(caller, self.delegation.as_ref());
        let caller: ROption<_> = caller.map(Into::into).into();
        let updates: ROption<_> = updates.map(updates_to).into();
        RunningCall(self.tool.execute(request.into(), caller, updates))
    }

    /// Runs a call and returns its envelope as JSON. Ctrl-C cancels the call.
    pub async fn call<F>(&self, request: &str, caller: Option<&str>, updates: Option<F>) -> String
    where
        F: Fn(&str) + Send + Sync + 'static,
    {
        let running = self.execute(request, caller, updates);
        // Without a signal handler, Ctrl-C ends the process.
        running
            .run_until(async { tokio::signal::ctrl_c().await.is_ok() })
            .await
    }

    /// Lists the targets: the envelope as text, and parsed.
    pub(super) async fn list_targets(&self, caller: Option<&str>) -> (String, Value) {
        let request = json!({"action": "list_targets"}).to_string();
        let text = self.call(&request, caller, None::<fn(&str)>).await;
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
