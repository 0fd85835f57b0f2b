//! Those who do the work: agents of the OpenClaw on this machine.
//!
//! [`GatewayExecutor`] hands messages to its gateway: answers stream, and runs are found again after a restart of the
//! server. [`CommandExecutor`] runs `openclaw agent` for each message, with or without a gateway; a turn takes half a
//! minute then. Both write down how deep a message is in a row of delegations before they begin (`delegated.rs`), and see
//! to it that nothing a client writes is a command or a path that OpenClaw follows (`sanitize.rs`). [`Redacted`] keeps the
//! server's secrets (`environment.rs`) out of what clients read.

mod command;
mod delegated;
mod environment;
mod gateway;
mod parts;
mod redacted;
mod sanitize;
mod settings;

pub use command::{CommandExecutor, CommandSettings};
pub(crate) use environment::{password, secrets_of, secrets_of_given};
pub use gateway::{GatewayExecutor, GatewayRuns};
pub use redacted::Redacted;
pub use settings::{Local, Thinking, UnknownThinking, state_dir};
