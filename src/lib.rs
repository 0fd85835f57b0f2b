//! Hands work from OpenClaw agents to agents elsewhere.

pub mod audit;
pub mod config;
pub mod handles;
pub mod host;
pub mod plugin;
pub mod remote_agent;
pub mod targets;
pub mod trace;

/// The plugin's id, under which a host lists it.
pub const PLUGIN_ID: &str = "remote-agent";

/// Names the sources that this code was built from: the version and a hash. Two builds of one version differ here.
pub const BUILD_ID: &str = env!("REMOTE_AGENT_BUILD_ID");
