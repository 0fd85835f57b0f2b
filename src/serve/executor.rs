//! Those who do the work: agents of the OpenClaw on this machine.
//!
//! [`GatewayExecutor`] hands messages to its gateway: answers stream, and runs are found again after a restart of the
//! server. [`CommandExecutor`] runs `openclaw agent` for each message, with or without a gateway; a turn takes half a
//! minute then. Both write down how deep a message is in a row of delegations before they begin (`delegated.rs`), and see
//! to it that nothing a peer writes is a command (`harmless.rs`).

mod command;
mod delegated;
mod gateway;
mod harmless;
mod parts;
mod settings;

pub use command::{CommandExecutor, CommandSettings};
pub use gateway::{GatewayExecutor, GatewayRuns};
pub use settings::{Thinking, UnknownThinking, state_dir};
