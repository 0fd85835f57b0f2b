//! Scripted peers and gateways for tests, and the runner of recorded cases.

#![forbid(unsafe_code)]

#[cfg(feature = "authority")]
pub mod authority;
pub mod conformance;
pub mod folder;
#[cfg(feature = "support")]
pub mod support;
