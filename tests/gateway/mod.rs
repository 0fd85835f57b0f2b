//! The local gateway: the bridge against real and scripted gateways, and the reference gateway itself.

// Printing is for the tables of results, under `--nocapture`.

pub(crate) use testkit::authority;
pub(crate) mod crash;
mod dialects;
mod errors;
pub(crate) use crate::support::jsonl_process;
pub(crate) use testkit::folder;
mod hostile;
mod received;
pub(crate) use crate::support::in_process;
#[cfg(feature = "real")]
mod javascript;
pub(crate) use crate::support::node as npm;
mod resolutions;
pub(crate) use crate::support::tool_fixture;
mod literal_frames;
mod sent;
pub(crate) mod server;
pub(crate) mod support;
mod tallies;
