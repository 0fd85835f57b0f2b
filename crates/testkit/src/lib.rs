//! What only tests need, beside the scripted peers and gateways of [`conformance`].
//!
//! [`raw_server`] writes scripted bytes; `authority` issues certificates; [`folder`] is a temporary directory; [`schema`]
//! compares settings; `support` starts real hosts and servers below `target/`.

#![forbid(unsafe_code)]

#[cfg(feature = "authority")]
pub mod authority;
pub mod folder;
pub mod raw_server;
pub mod schema;
#[cfg(feature = "support")]
pub mod support;

pub use conformance::{self, http, websocket};
