//! Executors that run agents of OpenClaw, or of the collective behind a gateway.
//!
//! [`GatewayExecutor`] sends messages to the gateway of OpenClaw. Answers are streamed, and the server finds runs again
//! after a restart. [`CommandExecutor`] runs `openclaw agent` for each message, with or without a gateway; without
//! one, a turn takes half a minute. Both record the delegation depth of a message before its run starts (`delegated.rs`), and
//! neutralize commands and paths in the text of clients (`gateway_bridge::openclaw`). [`Redacted`] removes the server's
//! secrets (`environment.rs`) from the output.

mod command;
mod delegated;
mod environment;
mod gateway;
mod parts;
mod redacted;
mod settings;

pub use command::{CommandExecutor, CommandSettings};
pub(crate) use environment::{configured_secrets, environment_secrets, password};
pub use gateway::{GatewayExecutor, GatewayRuns};
pub use redacted::Redacted;
pub use settings::{RunMode, Thinking, expand_home, state_dir};
