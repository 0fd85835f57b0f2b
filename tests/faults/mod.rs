//! Properties that recorded cases cannot express: bounds on time, order and connections, and one envelope for every input.

mod any_json;
mod cancellation;
mod cards;
mod connections;
mod credentials;
mod invalid_requests;
pub(crate) use crate::support::jsonl_process;
pub(crate) use crate::support::tool_fixture;
mod concurrency_limits;
mod concurrent_calls;
mod dialect;
mod event_kinds;
mod extensions;
mod groups;
mod memory;
mod next_version;
mod optional_fields;
mod pins;
mod signed_cards;
mod updates;
mod usage;
mod v1_results;
