//! Converts errors of the gateway to outcomes of runs, and aborts a run at the gateway: on request, or when its future is
//! dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a_server::executor::Outcome;
use collective::ErrorCode as E;
use egress::NetFault;
use peer::{Delivered, Peer, PeerError, PeerErrorKind};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{RunHandle, Runs};

/// The commands that show the state of a gateway, for error messages.
pub(super) const GATEWAY_STATUS: &str = "openclaw gateway status`, or `remote-agent gateway status";

/// The reason if the gateway cannot be reached.
pub(super) const UNREACHABLE: &str = "gateway_unreachable";

/// The reason if the gateway refuses the server.
const DENIED: &str = "gateway_denied";

/// What the operator should do if the server has no token for the gateway.
const TOKEN_HELP: &str = "set `gateway.token` (`--gateway-token-env`); OPENCLAW_GATEWAY_TOKEN in the environment does the same. \
    Without a token in openclaw.json the gateway generates another at each start; `openclaw config set gateway.auth.token TOKEN` sets one";

/// Returns the text for the server's log: the error, and what the operator should do.
pub(super) fn for_operator(error: &PeerError) -> String {
    let advice = match error.kind {
        PeerErrorKind::Gateway(E::AuthRequired) => TOKEN_HELP,
        PeerErrorKind::Gateway(E::AuthFailed | E::TokenExpired) => {
            "check `gateway.token` (`--gateway-token-env`)"
        }
        PeerErrorKind::Gateway(E::ProtocolError) | PeerErrorKind::RedirectRefused => {
            "check `gateway.url` (`--gateway`)"
        }
        kind if kind.is_unreachable() => &format!(
            "is the gateway running, and is `gateway.url` (`--gateway`) its address? `{GATEWAY_STATUS}` shows it"
        ),
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// Returns whether the error means that an agent, or the majority of the triad, is not connected.
pub(super) fn is_offline(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::Gateway(E::AgentOffline)
}

/// Returns the outcome of a run that failed with `text`, which the agent or the gateway wrote for the client. The text starts
/// with an error code if the gateway reported one.
pub(super) fn failed(text: String) -> Outcome {
    let code = text.split_once(' ').and_then(|(number, rest)| {
        let code = E::from_number(number.parse().ok()?)?;
        rest.starts_with(code.name()).then_some(code)
    });
    failed_as(PeerErrorKind::Gateway(code.unwrap_or(E::AgentError)), text)
}

/// Returns the outcome if a run cannot be started or followed. `address` is the URL of the gateway, as errors show it.
pub(super) fn outcome(error: &PeerError, address: &str) -> Outcome {
    let is_answer =
        matches!(error.kind, PeerErrorKind::Gateway(_)) && error.delivered == Delivered::Yes;
    // The error of a connection names the local gateway, which is for the operator only.
    let public = match error.kind {
        _ if is_answer && !error.message.contains(address) => None,
        kind if reason(kind) == Some(UNREACHABLE) => Some("does not accept connections"),
        kind if reason(kind) == Some(DENIED) => Some("refuses the server"),
        PeerErrorKind::Gateway(E::ProtocolError) | PeerErrorKind::RedirectRefused => {
            Some("cannot be used")
        }
        PeerErrorKind::Net(_) => Some("cannot be reached securely"),
        _ if error.message.contains(address) => Some("answers the server with an error"),
        _ => None,
    };
    let text = match public {
        Some(fault) => hide(error, fault),
        None => error.message.clone(),
    };
    failed_as(error.kind, text)
}

/// Returns the outcome that the client gets if the gateway's last event of the run has `ended` it: without the text of a failed
/// connection, and without the gateway's address.
pub(super) fn for_client(ended: Outcome, address: &str) -> Outcome {
    let lost = |text| PeerError::new(PeerErrorKind::Gateway(E::ConnectionReset), text);
    match ended {
        Outcome::Failed { reason, text } if reason == UNREACHABLE => Outcome::Failed {
            reason,
            text: hide(&lost(text), "does not accept connections"),
        },
        Outcome::Failed { reason, text } if text.contains(address) => Outcome::Failed {
            reason,
            text: hide(&lost(text), "answers the server with an error"),
        },
        Outcome::Rejected(text) if text.contains(address) => {
            Outcome::Rejected(hide(&lost(text), "answers the server with an error"))
        }
        ended => ended,
    }
}

/// Logs an error for the operator. Returns the text for the client.
fn hide(error: &PeerError, fault: &str) -> String {
    tracing::warn!("a run failed: {}", for_operator(error));
    format!(
        "the gateway of the server's agents {fault}; the server's log has the cause for its operator, who checks the gateway with `{GATEWAY_STATUS}`"
    )
}

fn failed_as(kind: PeerErrorKind, text: String) -> Outcome {
    match reason(kind) {
        Some(reason) => Outcome::Failed { reason, text },
        None => Outcome::Rejected(text),
    }
}

/// Returns the reason of a run that failed with an error of this kind; `None` for a rejected message.
fn reason(kind: PeerErrorKind) -> Option<&'static str> {
    Some(match kind {
        PeerErrorKind::Gateway(E::InvalidContent) => return None,
        PeerErrorKind::Gateway(E::AgentNotFound) => "agent_not_found",
        PeerErrorKind::Gateway(E::AgentOffline) => "agent_offline",
        PeerErrorKind::Gateway(E::AgentError) => "agent_failed",
        PeerErrorKind::Gateway(E::AgentBusy) => "gateway_busy",
        PeerErrorKind::Gateway(
            E::AuthRequired | E::AuthFailed | E::TokenExpired | E::PermissionDenied,
        )
        | PeerErrorKind::Net(NetFault::AddressRefused) => DENIED,
        fault if fault.is_unreachable() => UNREACHABLE,
        _ => "gateway_error",
    })
}

/// Returns the outcome if the gateway no longer has the run.
pub(super) fn interrupted() -> Outcome {
    Outcome::Failed {
        reason: "interrupted",
        text: "the gateway does not know the run anymore; it ended with a restart, or never started. Send the message again".into(),
    }
}

/// How long an abort may take, including the connection.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to abort a run.
struct AbortRequest {
    peer: Box<dyn Peer>,
    run: String,
}

impl AbortRequest {
    async fn abort(self) {
        // If the abort fails, the run ends at its own timeout.
        let _ = timeout(ABORT_TIMEOUT, self.peer.cancel(&self.run)).await;
    }
}

/// Aborts a run when it is dropped, unless the request has been taken out of it or the executor is detached.
struct AbortGuard {
    abort_request: Option<AbortRequest>,
    runs: Arc<Runs>,
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if self.runs.detached.load(Ordering::Relaxed) {
            return;
        }
        if let (Some(abort_request), Ok(runtime)) = (
            self.abort_request.take(),
            tokio::runtime::Handle::try_current(),
        ) {
            runtime.spawn(abort_request.abort());
        }
    }
}

impl RunHandle {
    /// Polls `work` until it ends. Aborts the run at the gateway if `cancel` resolves, or if this future is dropped and
    /// the executor is not detached.
    pub(super) async fn until_canceled(
        &self,
        work: impl Future<Output = Outcome>,
        cancel: &CancellationToken,
    ) -> Outcome {
        let mut abort_guard = AbortGuard {
            abort_request: Some(AbortRequest {
                peer: self.peer(),
                run: self.run.clone(),
            }),
            runs: Arc::clone(&self.runs),
        };
        let canceled = tokio::select! {
            outcome = work => {
                drop(abort_guard.abort_request.take());
                return outcome;
            }
            () = cancel.cancelled() => abort_guard.abort_request.take(),
        };
        if let Some(abort_request) = canceled {
            abort_request.abort().await;
        }
        Outcome::Failed {
            reason: "canceled",
            text: "the run was aborted on request".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "ws://127.0.0.1:1";

    fn text(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed { text, .. } | Outcome::Rejected(text) => text,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn failure_with_code_has_its_reason_and_its_text() {
        for (failure, expected) in [
            ("1003 CONNECTION_RESET: gone", "gateway_unreachable"),
            ("3002 AGENT_OFFLINE: not there", "agent_offline"),
            (
                "5004 PERMISSION_DENIED: /srv is read-only",
                "gateway_denied",
            ),
            ("3002 reasons to fail", "agent_failed"),
            ("no model", "agent_failed"),
        ] {
            let expected = Outcome::Failed {
                reason: expected,
                text: failure.to_owned(),
            };
            assert_eq!(failed(failure.to_owned()), expected);
        }
    }

    #[test]
    fn client_reads_the_failure_of_its_agent_and_not_of_the_connection() {
        for (failure, is_shown) in [
            ("1003 CONNECTION_RESET: the gateway stops", false),
            (
                "5002 AUTH_FAILED: no, during the handshake with `ws://127.0.0.1:1`",
                false,
            ),
            ("2005 INVALID_CONTENT: no, `ws://127.0.0.1:1`", false),
            ("5004 PERMISSION_DENIED: /srv is read-only", true),
            ("no model", true),
        ] {
            let text = text(for_client(failed(failure.to_owned()), ADDRESS));
            assert_eq!(text == failure, is_shown, "{text}");
            assert_eq!(text.contains(GATEWAY_STATUS), !is_shown, "{text}");
        }
    }

    #[test]
    fn client_reads_no_address_of_the_gateway() {
        for fault in [
            PeerErrorKind::Gateway(E::ConnectionRefused),
            PeerErrorKind::Gateway(E::AuthRequired),
            PeerErrorKind::Gateway(E::ProtocolError),
            PeerErrorKind::Gateway(E::AgentBusy),
            PeerErrorKind::Gateway(E::AgentError),
            PeerErrorKind::Gateway(E::SessionLocked),
            PeerErrorKind::Gateway(E::InvalidContent),
            PeerErrorKind::RedirectRefused,
            PeerErrorKind::Net(NetFault::Dns),
            PeerErrorKind::Net(NetFault::Tls),
            PeerErrorKind::Net(NetFault::AddressRefused),
        ] {
            let error = PeerError::new(fault, format!("cannot connect to `{ADDRESS}`"));
            for error in [error.clone(), error.undelivered()] {
                let text = text(outcome(&error, ADDRESS));
                assert!(
                    !text.contains("127.0.0.1") && text.contains("log"),
                    "{fault:?}: {text}"
                );
                assert!(for_operator(&error).contains("127.0.0.1"), "{fault:?}");
            }
        }
    }

    #[test]
    fn client_reads_the_error_of_its_agent() {
        for (code, delivered) in [
            (E::PermissionDenied, Delivered::Yes),
            (E::AgentError, Delivered::Yes),
            (E::AgentBusy, Delivered::No),
            (E::InvalidContent, Delivered::No),
        ] {
            let message = "the agent answers with an error: /srv is read-only";
            let mut error = PeerError::new(PeerErrorKind::Gateway(code), message);
            error.delivered = delivered;
            assert_eq!(text(outcome(&error, ADDRESS)), message, "{code:?}");
        }
    }

    #[test]
    fn every_kind_of_fault_has_its_reason() {
        for (code, expected) in [
            (E::ConnectionRefused, "gateway_unreachable"),
            (E::ConnectionTimeout, "gateway_unreachable"),
            (E::ConnectionReset, "gateway_unreachable"),
            (E::AuthFailed, "gateway_denied"),
            (E::AgentNotFound, "agent_not_found"),
            (E::AgentOffline, "agent_offline"),
            (E::AgentError, "agent_failed"),
            (E::AgentBusy, "gateway_busy"),
            (E::ProtocolError, "gateway_error"),
        ] {
            let reason = reason(PeerErrorKind::Gateway(code));
            assert_eq!(reason, Some(expected), "{code:?}");
        }
        assert_eq!(reason(PeerErrorKind::Gateway(E::InvalidContent)), None);
    }
}
