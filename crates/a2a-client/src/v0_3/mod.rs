//! A2A 0.3 as it is written: one JSON over JSON-RPC, another (ProtoJSON) over HTTP+JSON.

pub(super) mod json;
pub(super) mod proto;
