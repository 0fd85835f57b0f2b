//! Credentials and certificates with servers that check them, and results that must not contain them.

#[cfg(feature = "real")]
pub(crate) mod authorization_server;
mod certificates;
mod echo;
pub(crate) use crate::support::in_process;
mod credential_locations;
#[cfg(feature = "real")]
mod oauth2;
mod redaction;
#[cfg(feature = "real")]
mod sign_in;
pub(crate) use crate::support::tool_fixture;
mod recorded_tool;
mod tls;
