//! The A2A server in front of a local OpenClaw. It adds the parts for OpenClaw to the crate `a2a_server`.
//!
//! - [`config`] reads `serve.json`, [`clients`] reads and changes the client file, [`issuers`] verifies the tokens of OpenID
//!   providers, and [`sessions`] maps contexts to sessions.
//! - [`openclaw_file`] reads OpenClaw's own configuration.
//! - [`executor`] runs tasks with OpenClaw's gateway, with the command `openclaw agent`, or with a collective.
//! - [`push_sender`] posts notifications to webhooks under the address policy.
//! - [`assembly`] builds the server from these parts.
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
//! # Ok::<(), base::config::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

pub mod assembly;
pub mod clients;
pub mod config;
pub mod executor;
pub mod issuers;
pub mod openclaw_file;
pub mod push_sender;
pub mod sessions;
pub mod tracing_log;
