//! The tool instance behind the MCP server. A missing or invalid configuration fails each call but not the process: a host
//! shows the result of a call to its user and hides the output of a process that exits.

use std::sync::Arc;

use mcp_server::Tool;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    ask::with_answers,
    exit::Failure,
    instance::{Instance, Library},
    target::{NAME_AN_AGENT, PeerArgs},
};

/// Opens the instance on first use.
pub(super) struct ToolSource {
    unconfigured: Instance,
    opened: Arc<Opened>,
}

struct Opened {
    library: Library,
    peers: PeerArgs,
    /// Whether the user of the host answers where a target leaves questions to the model.
    ask_user: bool,
    instance: Mutex<Option<Instance>>,
}

impl ToolSource {
    /// # Errors
    /// The library refuses even the empty configuration.
    pub(super) fn new(library: Library, peers: PeerArgs, ask_user: bool) -> Result<Self, Failure> {
        Ok(Self {
            unconfigured: library.interactive_instance("{}", None)?,
            opened: Arc::new(Opened {
                library,
                peers,
                ask_user,
                instance: Mutex::new(None),
            }),
        })
    }

    /// Returns the tool. Each call reads the configuration again until it is valid.
    pub(super) fn tool(&self) -> Tool {
        let opened = Arc::clone(&self.opened);
        Tool::new(self.unconfigured.tool(), move || {
            let mut instance = opened.instance.lock();
            if let Some(instance) = &*instance {
                return Ok(instance.tool());
            }
            let created = opened.open().map_err(|failure| {
                format!(
                    "remote_agent has no usable configuration: {}",
                    failure.message
                )
            })?;
            Ok(instance.insert(created).tool())
        })
    }

    /// Closes the instance and the connection to the local gateway.
    pub(super) fn close(self) {
        drop(self.opened.instance.lock().take());
    }
}

impl Opened {
    fn open(&self) -> Result<Instance, Failure> {
        // A host gets the agents of OpenClaw only if its user names them.
        if self.peers.names_nothing() {
            return Err(Failure::usage(format!(
                "no agent is known; {NAME_AN_AGENT}; `--openclaw` takes the agents of OpenClaw's settings"
            )));
        }
        let mut config = self.peers.config()?;
        if !self.peers.reads_config() {
            config = with_default(&config);
        }
        if self.ask_user {
            config = with_answers(config, "person-then-model");
        }
        let file = self.peers.config_file();
        self.library.interactive_instance(&config, file.as_deref())
    }
}

/// Makes the agent of `--url` the default target, so that a model need not name it.
fn with_default(config: &str) -> String {
    let mut config: Value = serde_json::from_str(config).unwrap_or_default();
    if let Some(target) = config.pointer_mut("/targets/0") {
        target["default"] = true.into();
    }
    config.to_string()
}
