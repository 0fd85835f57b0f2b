//! Scripted A2A peers, scripted gateways, and the runner of recorded cases.
//!
//! Layout: [`peers`] are scripted servers on loopback, [`gateways`] the same behind a WebSocket; [`http`] and [`websocket`]
//! are the raw server of each protocol below them, which leaves every byte to a handler. A [`Case`] is one fixture: a
//! config, peers, requests, and the expected results. [`run_case`] drives one implementation, behind a [`Driver`], through
//! a case; [`run_suite`] runs a directory of them and returns a [`Report`]. `compare` checks what the contract fixes of an
//! answer, `case` the stricter rules of fixtures.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_conformance::Peers;
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let script = json!({"peers": {"desk": {"card": {"name": "Help Desk"}}}});
//! let peers = Peers::start(&script).await?;
//! assert!(peers.origin("desk").starts_with("http://127.0.0.1:"));
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod case;
mod compare;
pub mod driver;
pub mod gateways;
pub mod http;
pub mod peers;
mod refs;
mod report;
mod runner;
#[cfg(test)]
mod tests;
pub mod websocket;

pub use case::{Case, Places, Step};
pub use driver::{Driver, Failure};
pub use gateways::Gateways;
pub use peers::Peers;
pub use report::{CaseReport, Outcome, Report};
pub use report::{EXPECTED_FAILURES, find, run_suite, run_suite_with_progress};
pub use runner::{Options, run_case};
