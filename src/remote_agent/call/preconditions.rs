//! Checks before the first connection.

use crate::remote_agent::error::{Reason, ToolError};
use crate::targets::Target;
use a2a::Transport;
use peer::{PeerError, PeerErrorKind, Transports};

/// Refuses a target whose secret the host has not resolved.
pub(in crate::remote_agent) fn check_secret(target: &Target) -> Result<(), ToolError> {
    let Some(reference) = &target.unresolved else {
        return Ok(());
    };
    let whose = if target.peer_config.is_local() {
        "local gateway's token"
    } else {
        "target's credential"
    };
    let message = format!("the {whose} `{reference}` has not been resolved by the host");
    Err(ToolError::local(Reason::CredentialUnresolved, message))
}

/// Refuses a target that prefers only unsupported transports.
pub(super) fn check_transport(target: &Target) -> Result<(), PeerError> {
    let names = |all: &[Transport]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    if target.peer_config.is_local() {
        return Ok(());
    }
    let unsupported: Vec<_> = target
        .peer_config
        .preferred
        .iter()
        .copied()
        .filter(|t| !Transport::SUPPORTED.contains(t))
        .collect();
    if unsupported.is_empty() {
        return Ok(());
    }
    let message = format!("{} is not supported", names(&unsupported).join(", "));
    let mut error = PeerError::new(PeerErrorKind::UnsupportedTransport, message).undelivered();
    error.transports = Some(Box::new(Transports {
        unsupported: names(&unsupported),
        supported: names(&Transport::SUPPORTED),
    }));
    Err(error)
}
