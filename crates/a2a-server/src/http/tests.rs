//! The running router over a loopback socket. What the protocol requires of a server, each with the test named for it.
//!
//! Versions and bindings (1.0 §3.6, §9, §11; 0.3 §3.2): [`negotiation`]
//! - a request without `A2A-Version` is one of 0.3; a method or path of the other version is -32009
//! - the query parameter counts as the header does; only `Major.Minor` counts; an unknown version is -32009
//! - ids are echoed as they were written; a body that cannot be read has the id null; no batches; no `params` are `{}`
//! - media types: `application/json` and `application/a2a+json` in; of the binding out
//!
//! Operations (1.0 §3.1, 0.3 §7): every one of each version over each binding: [`unary`], [`webhooks`], [`streams`]
//! - sending blocks in 1.0 unless `returnImmediately`, in 0.3 as `blocking` says, else as the server is set
//! - `historyLength` 0 leaves history out; in 0.3's proto it is silence
//! - cancel of a settled task is -32002; of an unknown task -32001; pages are 1 to 100 tasks
//! - streams begin with the task and end at a terminal or interrupted state; 0.3 marks the end with `final`
//! - subscribing works by GET and POST; a settled task is -32004 in 1.0, its last word in 0.3
//! - a stream that is silent says that it is alive; a client that goes away does not stop its task
//!
//! Errors (1.0 §5.4, §9.5, §11.6; 0.3 §8): [`errors`]
//! - JSON-RPC answers with HTTP 200, `ErrorInfo` of `a2a-protocol.org`, and field violations that name the place
//! - HTTP+JSON 1.0 answers with `google.rpc.Status`, 0.3 with code and message
//! - 401 with `WWW-Authenticate`, 403, 413, 415, 429 with `Retry-After`, 503 are HTTP statuses over both
//!
//! Cards (1.0 §8, 0.3 §5): [`cards`]
//! - at the well-known paths, of both versions at once, with a strong `ETag`, 304, `Cache-Control` and `Vary`
//! - the extended card: for who has shown a credential; not declared is -32004 (0.3: -32007)
//!
//! Paths: [`routing`]: with and without a slash at the end, `HEAD`, 405 with `Allow`, agents, tenants
//!
//! Reading (1.0 §5.5 to §5.7): [`reading`]: snake_case, null, base64 of any kind, unknown fields; no part is ever lost
//!
//! Size: [`bombs`]: how deep, how many values, how long an id that is repeated

#![allow(clippy::unwrap_used, clippy::panic)]

mod bombs;
mod cards;
mod errors;
mod harness;
mod lists;
mod negotiation;
mod reading;
mod routing;
mod streams;
mod unary;
mod webhooks;
