//! Properties that recorded cases cannot express: bounds on time, order and connections, and one envelope for every input.

mod any_json;
mod bad_requests;
mod cards;
mod connections;
mod credentials;
mod ends;
pub(crate) use crate::support::filter;
pub(crate) use crate::support::in_process;
mod dialect;
mod memory;
mod newer_version;
mod redundant;
pub(crate) mod rig;
mod side_by_side;
mod signed_cards;
mod turns;
mod updates;
