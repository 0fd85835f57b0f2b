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
#[cfg(feature = "real")]
mod collector;
mod crash;
#[cfg(unix)]
mod drain;
mod earlier_state;
mod openclaw_config;
#[cfg(target_os = "linux")]
mod resource_limits;
pub(crate) use crate::contract::generated;
pub(crate) mod http_client;
#[cfg(feature = "real")]
mod page;
#[cfg(feature = "real")]
mod redis;
mod removal;
mod safety;
#[cfg(unix)]
mod secrets;
mod tasks;
mod traces;
mod trusted;

use testkit::support::{root, text};
