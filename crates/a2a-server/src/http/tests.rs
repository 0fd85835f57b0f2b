//! The router over a loopback socket. The requirements of the protocol on a server, each with its test:
//!
//! Versions and bindings (A2A 1.0 §3.6, §9, §11; A2A 0.3 §3.2): [`negotiation`]
//! - a request without `A2A-Version` is a 0.3 request; a method or path of the other version is -32009
//! - the query parameter is equivalent to the header; only `Major.Minor` is compared; an unknown version is -32009
//! - ids are echoed verbatim; an unreadable body has the id null; batches are rejected; missing `params` are `{}`
//! - media types: `application/json` and `application/a2a+json` in; that of the binding out
//!
//! Operations (A2A 1.0 §3.1, A2A 0.3 §7), each in each version over each binding: [`unary`], [`webhooks`], [`streams`]
//! - 1.0 waits for the answer unless `returnImmediately`; 0.3 follows `blocking`, or else the configuration
//! - `historyLength` 0 omits the history; in 0.3's protobuf it is unset
//! - cancel of a terminal task is -32002, of an unknown task -32001; pages have 1 to 100 tasks
//! - streams begin with the task and end at a terminal or interrupted state; 0.3 marks the end with `final`
//! - subscribing works by GET and POST; a terminal task is -32004 in 1.0, its last event in 0.3
//! - a silent stream sends comments; a client that disconnects does not stop its task
//!
//! Errors (A2A 1.0 §5.4, §9.5, §11.6; A2A 0.3 §8): [`errors`]
//! - JSON-RPC answers with HTTP 200, `ErrorInfo` of `a2a-protocol.org`, and field violations that name the field
//! - HTTP+JSON 1.0 answers with `google.rpc.Status`, 0.3 with code and message
//! - 401 with `WWW-Authenticate`, 403, 413, 415, 429 with `Retry-After`, 503 are HTTP statuses over both
//!
//! Cards (A2A 1.0 §8, A2A 0.3 §5): [`cards`]
//! - at the well-known paths, with the fields of both versions, a strong `ETag`, 304, `Cache-Control` and `Vary`
//! - the extended card needs authentication; an undeclared one is -32004 (0.3: -32007)
//!
//! Paths: [`routing`]: with and without a slash at the end, `HEAD`, 405 with `Allow`, agents, tenants
//!
//! Parsing (A2A 1.0 §5.5 to §5.7): [`reading`]: snake_case, null, base64 of any kind, unknown fields; no part is lost
//!
//! The categories mandatory and capabilities of the A2A technology compatibility kit for 0.3: [`tck`]
//!
//! Size: [`bombs`]: nesting, number of values, length of an id that the server repeats

#![allow(clippy::unwrap_used, clippy::panic)]

mod bombs;
mod cards;
mod errors;
pub(crate) mod harness;
mod lists;
mod negotiation;
mod reading;
mod requests;
mod routing;
mod streams;
mod tck;
mod unary;
mod webhooks;
