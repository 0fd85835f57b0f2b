//! Credentials and certificates against servers that check them, and that none of them shows in anything that is told.

#[cfg(feature = "real")]
mod authorization_server;
mod certificates;
mod echo;
pub(crate) use crate::support::in_process;
#[cfg(feature = "real")]
mod oauth2;
mod pieces;
mod places;
pub(crate) use crate::faults::rig;
mod tls;
mod told;
