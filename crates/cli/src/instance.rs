//! Calls the tool through the Rust door, like any host.

use std::sync::Arc;

use openclaw_remote_agent_interface::{
    Call, LogBox, PluginModuleRef, ROption, RSome, ToolBox, log_to, updates_to,
};

use gateway_bridge::delegation::Delegation;

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
    /// The delegation that this process works on.
    delegation: Option<Delegation>,
}

/// One configured tool. Closes when it is dropped, and then waits until it has left the local gateway: the process ends next, and what it has not
/// said by then is never said.
pub struct Instance {
    tool: Arc<ToolBox>,
    missing: UnsetVariables,
    delegation: Option<Delegation>,
}

/// A running call.
pub struct RunningCall(Call);

/// Tells what a model reads of envelopes. It may outlive the instance.
pub struct ModelTextRenderer(Arc<ToolBox>);

impl ModelTextRenderer {
    /// Returns the text that a model reads of an envelope.
    #[must_use]
    pub fn render(&self, envelope: &str) -> String {
        self.0.render(envelope.into()).into()
    }
}

impl Library {
    /// Opens the command's library. With `verbose`, its debug lines go to standard error beside its warnings.
    ///
    /// # Errors
    /// See [`library::open`]. The delegation of this process has another form.
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

    /// Makes an instance. The configuration's references to environment variables are looked up first; one that is not set fails only the calls
    /// that need it.
    ///
    /// # Errors
    /// A configuration error as JSON, `{"code", "message", "path"}`.
    pub fn instance(&self, config: &str) -> Result<Instance, String> {
        let (config, missing) = config::resolve(config, |name| std::env::var(name).ok());
        if self.verbose {
            missing.iter().for_each(config::warn);
        }
        match self.instance_with(&config, self.log()) {
            Ok(mut instance) => {
                instance.missing = missing;
                Ok(instance)
            }
            Err(error) => Err(missing.or_unset(error)),
        }
    }

    /// Creates an instance from a configuration. Its log lines go to `log`.
    ///
    /// # Errors
    /// A configuration error as JSON, `{"code", "message", "path"}`.
    pub fn instance_with(&self, config: &str, log: LogBox) -> Result<Instance, String> {
        let tool = self.module.new_tool()(config.into(), RSome(log));
        let tool = tool.into_result().map_err(String::from)?;
        let missing = UnsetVariables::default();
        Ok(Instance {
            tool: Arc::new(tool),
            missing,
            delegation: self.delegation.clone(),
        })
    }

    /// Makes the instance of a command that people use, from its configuration.
    ///
    /// # Errors
    /// The configuration is wrong; a sentence with the place.
    pub fn instance_for_people(&self, config: &str) -> Result<Instance, Failure> {
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

    /// Returns the tool itself. Dropping the instance closes it.
    #[must_use]
    pub fn tool(&self) -> Arc<ToolBox> {
        Arc::clone(&self.tool)
    }

    /// Returns a function that renders the envelopes of this instance for a model.
    #[must_use]
    pub fn reader(&self) -> ModelTextRenderer {
        ModelTextRenderer(Arc::clone(&self.tool))
    }

    /// Returns the environment variables that the configuration refers to in vain.
    #[must_use]
    pub fn missing(&self) -> &UnsetVariables {
        &self.missing
    }

    /// Starts a call. `request` and `caller` are JSON, as is each update. A caller without a chain has that of this process.
    pub fn execute<F>(&self, request: &str, caller: Option<&str>, updates: Option<F>) -> RunningCall
    where
        F: Fn(&str) + Send + Sync + 'static,
    {
        let caller = caller::with_chain(caller, self.delegation.as_ref());
        let caller: ROption<_> = caller.map(Into::into).into();
        let updates: ROption<_> = updates.map(updates_to).into();
        RunningCall(self.tool.execute(request.into(), caller, updates))
    }

    /// Runs a call to its end, or to an early one at Ctrl-C, and returns its envelope as JSON.
    pub async fn call<F>(&self, request: &str, caller: Option<&str>, updates: Option<F>) -> String
    where
        F: Fn(&str) + Send + Sync + 'static,
    {
        let running = self.execute(request, caller, updates);
        // Without a signal handler, Ctrl-C ends the process.
        running
            .cancelled_by(async { tokio::signal::ctrl_c().await.is_ok() })
            .await
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.tool.close_and_wait();
    }
}

impl RunningCall {
    /// Waits for the envelope, and cancels the call if `stop` comes first and says so.
    pub async fn cancelled_by(self, stop: impl Future<Output = bool>) -> String {
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
    pub async fn finished(self) -> String {
        self.0.future.await.into()
    }
}
