//! An A2A server, of 1.0 and 0.3 on one port, in front of whatever executes.
//!
//! # Layout
//!
//! From the top of the house to its ground; an arrow only points down this list.
//!
//! - [`http`]: the wire. Paths, JSON-RPC and HTTP+JSON of both versions, event streams, the agent card.
//! - [`service`]: what a client may ask for, and the life of a task from the message to its end.
//! - [`push`]: tells webhooks what becomes of a task.
//! - [`executor`]: who does the work. Here is what one has to do; a scripted one is here too.
//! - [`settings`], [`metrics`]: what the server keeps to, and what it counts.
//! - [`store`]: where tasks are kept: in memory, in SQLite, in a Redis that several servers share.
//! - [`record`], [`caller`]: a task as it is kept, and who asks.
//!
//! Inside, everything has the official types of A2A 1.0 ([`a2a::v1_0`]); 0.3 is read into them and written from them at the edge.

#![forbid(unsafe_code)]

pub mod call_context;
pub mod executor;
pub mod http;
pub mod metrics;
pub mod push;
pub mod service;
pub mod settings;
pub mod store;
pub mod task_record;
