//! The command `remote-agent serve` as a process, with real clients.

mod agent_protocol;
#[cfg(feature = "real")]
pub(crate) mod chromium;
mod cli;
#[cfg(feature = "real")]
mod clients;
mod collective;
#[cfg(feature = "real")]
mod collective_sdk;
mod crash;
#[cfg(target_os = "linux")]
mod exhausted;
mod openclaw_config;
pub(crate) use crate::contract::generated;
#[cfg(feature = "real")]
mod page;
pub(crate) mod plain;
#[cfg(feature = "real")]
mod redis;
mod removal;
mod safety;
#[cfg(unix)]
mod secrets;
mod tasks;

use testkit::support::{root, text};
