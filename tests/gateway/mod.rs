//! The local gateway: the bridge against real and scripted gateways, and the reference gateway itself.

// Printing is for the tables of results, under `--nocapture`.

mod a2a_v1;
pub(crate) use testkit::authority;
pub(crate) mod crash;
mod dialects;
mod errors;
pub(crate) use crate::support::jsonl_process;
pub(crate) use testkit::folder;
mod hostile;
pub(crate) use crate::support::in_process;
#[cfg(feature = "real")]
mod javascript;
pub(crate) use crate::support::node as npm;
mod resolutions;
pub(crate) use crate::support::tool_fixture;
pub(crate) mod server;
mod serving;
pub(crate) mod support;
mod tallies;
