//! The plugin: the tool `remote_agent`, which calls A2A agents and agents behind a local gateway.
//!
//! A host enters through `host/node.rs` (Node-API) or `host/abi.rs` (abi_stable) with a configuration, which [`config`]
//! reads, or a call. [`plugin`] is one configured instance; `plugin/assembly.rs` gives the tool its peers, from
//! `crates/a2a-client` and `crates/gateway-bridge`. [`remote_agent`] turns the request of a call into one envelope, and its page
//! says which file has which step. [`targets`] has the targets, their credentials and agent cards, [`handles`] the names of
//! tasks, [`audit`] and [`trace`] what an operator reads. [`sign_in`] and [`pin`] serve the command,
//! [`http_api`] the MCP server.
#![allow(
    missing_docs,
    reason = "not a library for others: a comment adds only what a name cannot express"
)]

pub mod audit;
pub mod config;
pub mod handles;
pub mod host;
pub mod http_api;
pub mod pin;
pub mod plugin;
pub mod remote_agent;
pub mod sign_in;
pub mod targets;
pub mod trace;

/// The plugin's id, under which a host lists it.
pub const PLUGIN_ID: &str = "remote-agent";

/// The version and a hash of the sources. Two builds of one version differ here.
pub const BUILD_ID: &str = env!("REMOTE_AGENT_BUILD_ID");
