//! An A2A server in front of a local OpenClaw: what the server crate needs of this machine.
//!
//! The server itself, its wire, its tasks and its stores, is the workspace's crate `server/`. Here are those who do the
//! work, OpenClaw's gateway or its command, and the courier that carries notifications under the egress policy.

#![forbid(unsafe_code)]

pub mod assembly;
pub mod clients;
pub mod config;
pub mod executor;
pub mod push_sender;
pub mod sessions;
mod tracing_log;
