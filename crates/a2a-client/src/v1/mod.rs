//! A2A 1.0 as it is written: one JSON (ProtoJSON of package `lf.a2a.v1`) over JSON-RPC and over HTTP+JSON.

pub(super) mod read;
pub(super) mod write;
