//! The Rust interface of openclaw-remote-agent: the types that a host and the library share.
//!
//! A Rust host depends only on this crate. It loads the library with [`load`], creates one [`Tool`] per configuration,
//! and calls it with JSON:
//!
//! ```no_run
//! use openclaw_remote_agent_interface::{RNone, RSome, load, log_to, updates_to};
//!
//! # async fn host() -> Result<(), Box<dyn std::error::Error>> {
//! let module = load("/opt/remote-agent/lib/libopenclaw_remote_agent.so")?;
//! let config = r#"{"targets": [{"alias": "desk", "baseUrl": "https://desk.example"}]}"#;
//! let log = log_to(|level, line| eprintln!("{level}: {line}"));
//! let tool = module.new_tool()(config.into(), RSome(log)).into_result().map_err(String::from)?;
//!
//! let updates = updates_to(|update| eprintln!("update: {update}"));
//! let request = r#"{"action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "Good morning"}]}"#;
//! let call = tool.execute(request.into(), RNone, RSome(updates));
//! println!("{}", call.future.await);
//! tool.close();
//! # Ok(())
//! # }
//! ```
//!
//! Programs read the envelope. A model reads `tool.render(envelope)`: a short text in which the text of agents is fenced
//! and sanitized.
//!
//! Only text and opaque objects cross the boundary, so that both sides share few layouts. Any executor may poll the
//! futures: the library has its own runtime and never uses one of the host.

// abi_stable's macros predate this lint, which fires for each `#[sabi_trait]`.
#![allow(non_local_definitions)]
// The same macros expand to `unsafe` code. This crate writes none itself.
#![allow(unsafe_code)]

mod load;
mod module;
mod sinks;

pub use abi_stable::std_types::{RErr, RNone, ROk, ROption, RResult, RSome, RStr, RString};
pub use async_ffi::FfiFuture;

pub use load::{LoadError, load};
pub use module::{
    Call, CallOptions, Cancel, Cancel_TO, CancelBox, PluginModule, PluginModule_Prefix,
    PluginModuleRef, Tool, Tool_TO, ToolBox, start_call,
};
pub use sinks::{
    Asker, Asker_TO, AskerBox, Log, Log_TO, LogBox, Updates, Updates_TO, UpdatesBox, ask_with,
    log_to, updates_to,
};
