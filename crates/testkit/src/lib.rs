//! Servers for tests, and the runner of recorded cases.
//!
//! - [`http`] and [`websocket`]: a raw server of each protocol, which leaves every byte to a handler.
//! - [`conformance`]: peers and gateways that follow a JSON script, and the runner of the cases in `fixtures/`.
//! - `authority`: certificates; [`folder`]: temporary directories; `support`: real hosts and servers below `target/`.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_testkit::conformance::Peers;
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

#[cfg(feature = "authority")]
pub mod authority;
pub mod conformance;
pub mod folder;
pub mod http;
#[cfg(feature = "support")]
pub mod support;
pub mod websocket;
