//! Credentials and certificates with servers that check them, and results that must not contain them.

#[cfg(feature = "real")]
mod authorization_server;
mod certificates;
mod echo;
pub(crate) use crate::support::in_process;
#[cfg(feature = "real")]
mod oauth2;
mod pieces;
mod places;
pub(crate) use crate::support::tool_fixture;
mod reported;
mod tls;
