//! The A2A server in front of a local OpenClaw. It adds the parts that know this machine to the crate `a2a_server`.
//!
//! - [`config`] reads `serve.json`, [`clients`] the file of clients, [`sessions`] maps contexts to sessions.
//! - [`executor`] runs tasks in OpenClaw's gateway, by the command `openclaw agent`, or by a script.
//! - [`push_sender`] sends notifications to webhooks under the egress policy.
//! - [`assembly`] builds the server from all of them.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_openclaw_server::config::ServeConfig;
//!
//! let config = ServeConfig::parse(r#"{"executor": "scripted", "listen": "127.0.0.1:0"}"#)?;
//! assert_eq!(config.listen.port(), 0);
//! let error = ServeConfig::parse(r#"{"executr": "scripted"}"#).unwrap_err();
//! assert_eq!(error.path, "/executr");
//! # Ok::<(), common::config::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

pub mod assembly;
pub mod clients;
pub mod config;
pub mod executor;
pub mod push_sender;
pub mod sessions;
mod tracing_log;
