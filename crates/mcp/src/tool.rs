//! The configured tool.

use std::sync::Arc;

use openclaw_remote_agent_interface::{Call, CallOptions, ToolBox, start_call};
use serde_json::Value;

/// Opens the tool for the configuration. It is called again after a failure, so that a user can correct the configuration
/// while the server runs.
type Open = dyn Fn() -> Result<Arc<ToolBox>, String> + Send + Sync;

/// The tool that a server offers.
#[derive(Clone)]
pub struct Tool {
    /// The tool without a configuration.
    unconfigured: Arc<ToolBox>,
    open: Arc<Open>,
}

impl Tool {
    /// Creates a tool that `open` opens for each call; `open` keeps what it opened. `unconfigured` defines the tool while
    /// `open` fails. The error of `open` is a sentence for the caller.
    pub fn new(
        unconfigured: Arc<ToolBox>,
        open: impl Fn() -> Result<Arc<ToolBox>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            unconfigured,
            open: Arc::new(open),
        }
    }

    /// Returns the definition: `name`, `label`, `description` and `parameters`.
    pub(crate) fn definition(&self) -> Value {
        let tool = (self.open)().unwrap_or_else(|_| Arc::clone(&self.unconfigured));
        serde_json::from_str(&tool.definition()).unwrap_or_default()
    }

    /// Returns the text that a model reads of an envelope or update.
    pub(crate) fn render(&self, envelope: &str) -> String {
        self.unconfigured.render(envelope.into()).into()
    }

    /// Starts a call.
    ///
    /// # Errors
    /// The configuration is missing or invalid; a sentence for the caller.
    pub(crate) fn start(&self, request: &Value, options: CallOptions) -> Result<Call, String> {
        let tool = (self.open)()?;
        Ok(start_call(&tool, &request.to_string(), options))
    }
}
