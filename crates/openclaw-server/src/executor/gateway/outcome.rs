//! Why the gateway could not be asked, as the ends of tasks.

use a2a_server::executor::Outcome;

use collective::ErrorCode as E;
use peer::{PeerError, PeerErrorKind};

/// Returns the outcome of a task whose run could not be started or followed.
pub(super) fn outcome(error: &PeerError) -> Outcome {
    let reason = match error.kind {
        PeerErrorKind::Gateway(E::InvalidContent) => {
            return Outcome::Rejected(error.message.clone());
        }
        PeerErrorKind::Gateway(E::AgentNotFound) => "agent_not_found",
        PeerErrorKind::Gateway(E::AgentBusy) => "gateway_busy",
        PeerErrorKind::Gateway(
            E::AuthRequired | E::AuthFailed | E::TokenExpired | E::PermissionDenied,
        ) => "gateway_denied",
        PeerErrorKind::AddressRefused => "gateway_denied",
        fault if fault.is_away() => "gateway_unreachable",
        _ => "gateway_error",
    };
    let text = match reason {
        "gateway_unreachable" => {
            format!(
                "{}; the operator must see to the gateway (`openclaw gateway status`)",
                error.message
            )
        }
        _ => error.message.clone(),
    };
    Outcome::Failed { reason, text }
}

/// Returns the outcome of a task whose run the gateway has forgotten.
pub(super) fn interrupted() -> Outcome {
    Outcome::Failed {
        reason: "interrupted",
        text: "the gateway knows nothing of the run any more; it ended with a restart, or was never begun. Send the message again".into(),
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
            (PeerErrorKind::Gateway(E::AgentBusy), "gateway_busy"),
            (PeerErrorKind::Gateway(E::InvalidContent), "rejected"),
            (PeerErrorKind::Gateway(E::ProtocolError), "gateway_error"),
        ] {
            assert_eq!(reason(fault), expected, "{fault:?}");
        }
    }
}
