//! Converts errors of the gateway to outcomes of runs.

use a2a_server::executor::Outcome;

use collective::ErrorCode as E;
use egress::NetFault;
use peer::{PeerError, PeerErrorKind};

/// The commands that show the state of a gateway, for error messages.
pub(super) const GATEWAY_STATUS: &str = "openclaw gateway status`, or `remote-agent gateway status";

/// The reason if the gateway cannot be reached.
pub(super) const UNREACHABLE: &str = "gateway_unreachable";

/// What the operator should do if the server has no token for the gateway.
const TOKEN_HELP: &str = "OPENCLAW_GATEWAY_TOKEN in the environment does the same. \
    Without a token in openclaw.json the gateway generates another at each start; `openclaw config set gateway.auth.token TOKEN` sets one";

/// Returns the text for the server's log: the error, and what the operator should do.
pub(super) fn for_operator(error: &PeerError) -> String {
    match error.kind {
        PeerErrorKind::Gateway(E::AuthRequired) => format!("{error}; {TOKEN_HELP}"),
        _ => error.to_string(),
    }
}

/// Returns whether the error means that an agent, or the majority of the triad, is not connected.
pub(super) fn is_offline(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::Gateway(E::AgentOffline)
}

/// Returns the outcome of a run that failed with `text`. The text starts with an error code if the gateway reported
/// one.
pub(super) fn failed(text: String) -> Outcome {
    let code = text.split_once(' ').and_then(|(number, rest)| {
        let code = E::from_number(number.parse().ok()?)?;
        rest.starts_with(code.name()).then_some(code)
    });
    match code {
        Some(code) => outcome(&PeerError::new(PeerErrorKind::Gateway(code), text)),
        None => Outcome::Failed {
            reason: "agent_failed",
            text,
        },
    }
}

/// Returns the outcome if a run cannot be started or followed.
pub(super) fn outcome(error: &PeerError) -> Outcome {
    let reason = match error.kind {
        PeerErrorKind::Gateway(E::InvalidContent) => {
            return Outcome::Rejected(error.message.clone());
        }
        PeerErrorKind::Gateway(E::AgentNotFound) => "agent_not_found",
        PeerErrorKind::Gateway(E::AgentOffline) => "agent_offline",
        PeerErrorKind::Gateway(E::AgentError) => "agent_failed",
        PeerErrorKind::Gateway(E::AgentBusy) => "gateway_busy",
        PeerErrorKind::Gateway(
            E::AuthRequired | E::AuthFailed | E::TokenExpired | E::PermissionDenied,
        ) => "gateway_denied",
        PeerErrorKind::Net(NetFault::AddressRefused) => "gateway_denied",
        fault if fault.is_unreachable() => UNREACHABLE,
        _ => "gateway_error",
    };
    let text = match reason {
        UNREACHABLE => {
            format!(
                "{}; the operator must check the gateway (`{GATEWAY_STATUS}`)",
                error.message
            )
        }
        _ => error.message.clone(),
    };
    Outcome::Failed { reason, text }
}

/// Returns the outcome if the gateway no longer has the run.
pub(super) fn interrupted() -> Outcome {
    Outcome::Failed {
        reason: "interrupted",
        text: "the gateway does not know the run anymore; it ended with a restart, or never started. Send the message again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(fault: PeerErrorKind) -> &'static str {
        match outcome(&PeerError::new(fault, "why")) {
            Outcome::Failed { reason, .. } => reason,
            _ => "rejected",
        }
    }

    #[test]
    fn failure_with_code_has_its_reason() {
        for (text, expected) in [
            ("1003 CONNECTION_RESET: gone", "gateway_unreachable"),
            ("3002 AGENT_OFFLINE: not there", "agent_offline"),
            ("3002 reasons to fail", "agent_failed"),
            ("no model", "agent_failed"),
        ] {
            let Outcome::Failed { reason, .. } = failed(text.to_owned()) else {
                unreachable!("{text}")
            };
            assert_eq!(reason, expected, "{text}");
        }
    }

    #[test]
    fn every_kind_of_fault_has_its_reason() {
        for (fault, expected) in [
            (
                PeerErrorKind::Gateway(E::ConnectionRefused),
                "gateway_unreachable",
            ),
            (
                PeerErrorKind::Gateway(E::ConnectionTimeout),
                "gateway_unreachable",
            ),
            (
                PeerErrorKind::Gateway(E::ConnectionReset),
                "gateway_unreachable",
            ),
            (PeerErrorKind::Gateway(E::AuthFailed), "gateway_denied"),
            (PeerErrorKind::Gateway(E::AgentNotFound), "agent_not_found"),
            (PeerErrorKind::Gateway(E::AgentOffline), "agent_offline"),
            (PeerErrorKind::Gateway(E::AgentError), "agent_failed"),
            (PeerErrorKind::Gateway(E::AgentBusy), "gateway_busy"),
            (PeerErrorKind::Gateway(E::InvalidContent), "rejected"),
            (PeerErrorKind::Gateway(E::ProtocolError), "gateway_error"),
        ] {
            assert_eq!(reason(fault), expected, "{fault:?}");
        }
    }
}
