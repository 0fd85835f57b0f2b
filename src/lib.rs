//! Hands work from OpenClaw agents to agents elsewhere.

pub mod a2a;
pub mod address;
pub mod audit;
#[cfg(all(test, feature = "gateway-server"))]
#[path = "../tests/support/authority.rs"]
mod authority;
#[cfg(feature = "cli")]
pub mod cli;
pub mod collective;
pub mod config;
#[cfg(feature = "cli")]
pub mod conformance;
pub mod confusables;
pub mod credential;
pub mod delegation;
#[cfg(test)]
#[path = "../tests/support/folder.rs"]
mod folder;
pub mod gateway;
#[cfg(feature = "gateway-server")]
pub mod gateway_client;
#[cfg(feature = "gateway-server")]
pub mod gateway_server;
pub mod handles;
pub mod host;
pub mod jws;
pub mod log;
pub mod net;
pub mod panics;
pub mod peer;
pub mod plugin;
pub mod redact;
pub mod remote_agent;
#[cfg(feature = "serve")]
pub mod serve;
pub mod session_key;
pub mod targets;
pub mod trace;
pub mod validation;
pub mod world;

/// The plugin's id, under which a host lists it.
pub const PLUGIN_ID: &str = "remote-agent";

/// Names the sources that this code was built from: the version and a hash. Two builds of one version differ here.
pub const BUILD_ID: &str = env!("REMOTE_AGENT_BUILD_ID");
