//! How a command ends: its exit code, its error, and the signals that stop a long-running one.

use std::process::ExitCode;

use openclaw_remote_agent::remote_agent::Reason;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// A failure without a more specific code.
    Failed = 1,
    /// Invalid command line, request or configuration.
    Usage = 2,
    /// The peer is unreachable, or its address is not allowed.
    Unreachable = 3,
    /// The peer refused the credentials.
    Auth = 4,
    /// A timeout expired.
    Timeout = 5,
    /// The task waits for an answer or a sign-in.
    InputRequired = 6,
    /// The task was canceled.
    Canceled = 7,
    /// Two members of the triad rejected the proposal.
    Rejected = 10,
    /// The triad rejected the proposal without consensus.
    NoConsensus = 11,
    /// Ctrl-C, with the exit code that shells use. The task continues.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Returns the code for a call that ended with `envelope`.
    #[must_use]
    pub fn from_envelope(envelope: &Value) -> Self {
        match envelope["ok"] == true {
            true => Self::Ok,
            false => Self::from_error(&envelope["error"]),
        }
    }

    /// Returns the exit code for interactive commands. A call whose task failed, was rejected or canceled, or waits for its
    /// caller, is not done, and neither is a wait that expired before the task ended, or an incomplete result. To cancel a
    /// task is a success.
    #[must_use]
    pub fn from_outcome(envelope: &Value) -> Self {
        let exit = Self::from_envelope(envelope);
        if exit != Self::Ok {
            return exit;
        }
        let summary = &envelope["summary"];
        if summary["group"].is_object() {
            return Self::from_group(envelope);
        }
        let state = summary["continuation"]["task"]["status"].as_str();
        match state.map(Self::from_state) {
            Some(Self::Canceled) if envelope["action"] == "cancel" => Self::Ok,
            Some(exit) if exit != Self::Ok => exit,
            _ if summary["wait_expired"] == true => Self::Timeout,
            _ if summary["incomplete"] == true => Self::Failed,
            _ => Self::Ok,
        }
    }

    /// Returns the exit code of a group. Without a decision it is that of what is missing.
    fn from_group(envelope: &Value) -> Self {
        let summary = &envelope["summary"];
        let group = &summary["group"];
        let results = group["results"].as_array().into_iter().flatten();
        let codes: Vec<Self> = results
            .map(|result| match result["state"].as_str() {
                Some("completed" | "answered") => Self::Ok,
                Some("canceled") if envelope["action"] == "cancel" => Self::Ok,
                Some("submitted" | "working") => Self::Timeout,
                Some("not_sent" | "unknown" | "forgotten") if result["error"].is_object() => {
                    Self::from_error(&result["error"])
                }
                Some(state) if Self::from_state(state) != Self::Ok => Self::from_state(state),
                _ => Self::Failed,
            })
            .collect();
        let worst = codes.into_iter().find(|code| *code != Self::Ok);
        match group["decided_by"].as_str() {
            Some("first" | "quorum") => Self::Ok,
            _ if summary["wait_expired"] == true => Self::Timeout,
            Some("none") if group["mode"] == "vote" && worst.is_none() => Self::NoConsensus,
            _ => worst.unwrap_or(Self::Ok),
        }
    }

    /// Returns the code of a command without a more specific one.
    pub(super) fn from_success(is_success: bool) -> Self {
        match is_success {
            true => Self::Ok,
            false => Self::Failed,
        }
    }

    /// Returns the code for the state of a task.
    #[must_use]
    pub fn from_state(state: &str) -> Self {
        match state {
            "failed" | "rejected" => Self::Failed,
            "input-required" | "auth-required" => Self::InputRequired,
            "canceled" => Self::Canceled,
            _ => Self::Ok,
        }
    }

    /// Returns the exit code of `targets` when an agent card is missing: the code of the most severe reason. An unreachable
    /// agent is more severe than one that responds with an error.
    #[must_use]
    pub fn from_targets(targets: &[Value]) -> Self {
        Self::from_errors(targets.iter().map(|target| {
            let error = &target["last_refresh_error"];
            (!error.is_null() && !target["target_name"].is_string()).then_some(error)
        }))
    }

    /// Returns the code of the most severe of the errors of several agents; success if one of them has no error.
    pub(super) fn from_errors<'a>(errors: impl Iterator<Item = Option<&'a Value>>) -> Self {
        let from_mild_to_severe = [Self::Timeout, Self::Auth, Self::Usage, Self::Unreachable];
        let severity_rank = |exit: &Self| {
            let rank = from_mild_to_severe.iter().position(|rank| rank == exit);
            rank.unwrap_or(from_mild_to_severe.len())
        };
        let codes: Vec<Self> = errors
            .map(|error| error.map_or(Self::Ok, Self::from_error))
            .collect();
        if codes.contains(&Self::Ok) {
            return Self::Ok;
        }
        codes
            .into_iter()
            .max_by_key(severity_rank)
            .unwrap_or(Self::Ok)
    }

    /// Returns the code for an error in an envelope.
    #[must_use]
    pub fn from_error(error: &Value) -> Self {
        Reason::in_error(error).map_or(Self::Failed, Self::from_reason)
    }

    pub(super) fn from_reason(reason: Reason) -> Self {
        match reason {
            Reason::Unreachable
            | Reason::TargetUnavailable
            | Reason::ProxyAuthRequired
            | Reason::Dns
            | Reason::Tls
            | Reason::AddressRefused
            | Reason::CardUnavailable
            | Reason::CardMalformed
            | Reason::AgentOffline
            | Reason::ConnectionRefused
            | Reason::ConnectionReset => Self::Unreachable,
            Reason::InvalidRequest | Reason::Contradiction | Reason::CredentialUnresolved => {
                Self::Usage
            }
            Reason::AuthRequired
            | Reason::TokenUnavailable
            | Reason::AuthFailed
            | Reason::TokenExpired
            | Reason::PermissionDenied => Self::Auth,
            Reason::Timeout | Reason::Busy | Reason::ConnectionTimeout | Reason::AgentBusy => {
                Self::Timeout
            }
            Reason::Aborted => Self::Interrupted,
            _ => Self::Failed,
        }
    }
}

/// An error that ends the command. `main` prints its message on standard error.
#[derive(Debug)]
pub struct Failure {
    /// A sentence with the failed action, the cause and a hint.
    pub message: String,
    /// The exit code.
    pub exit: Exit,
}

impl Failure {
    /// Creates a failure with exit code 1.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit: Exit::Failed,
        }
    }

    /// Creates a failure with exit code 2, for an invalid command line or configuration.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit: Exit::Usage,
        }
    }
}

/// The tokens that signals cancel.
pub(super) struct Shutdown {
    /// Cancelled by the first Ctrl-C or SIGTERM: stop.
    pub(super) stop: CancellationToken,
    /// Cancelled by the second one: end at once.
    pub(super) force: CancellationToken,
}

/// Returns a token that Ctrl-C or SIGTERM cancels.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn on_signal() -> Result<CancellationToken, Failure> {
    Ok(on_signals()?.stop)
}

/// Returns the tokens that Ctrl-C and SIGTERM cancel.
///
/// The handlers are installed when this returns. A command calls this before it listens, so that no signal after its
/// first answer ends the process without a clean stop.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn on_signals() -> Result<Shutdown, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("cannot install a signal handler: {error}"));
    let shutdown = Shutdown {
        stop: CancellationToken::new(),
        force: CancellationToken::new(),
    };
    let tokens = [shutdown.stop.clone(), shutdown.force.clone()];
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::spawn(async move {
            for token in tokens {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
                token.cancel();
            }
        });
    }
    #[cfg(windows)]
    {
        let mut interrupted = tokio::signal::windows::ctrl_c().map_err(failed)?;
        tokio::spawn(async move {
            for token in tokens {
                interrupted.recv().await;
                token.cancel();
            }
        });
    }
    Ok(shutdown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_reason_decides_the_exit_code() {
        for (code, reasons) in [
            (
                1,
                "card_signature agent_not_found protocol_error of_another_version",
            ),
            (2, "invalid_request contradiction"),
            (3, "unreachable dns tls address_refused card_unavailable"),
            (3, "connection_refused connection_reset agent_offline"),
            (
                4,
                "auth_required auth_failed token_expired permission_denied",
            ),
            (5, "timeout busy connection_timeout agent_busy"),
            (130, "aborted"),
        ] {
            for reason in reasons.split(' ') {
                let error = json!({"code": "A2A_SDK_ERROR", "reason": reason});
                let envelope = json!({"ok": false, "error": error});
                assert_eq!(Exit::from_envelope(&envelope) as u8, code, "{reason}");
            }
        }
        assert_eq!(Exit::from_envelope(&Value::Null), Exit::Failed);
    }

    #[test]
    fn outcome_of_the_task_decides_for_people_only() {
        let in_state = |state: &str| json!({"continuation": {"task": {"status": state}}});
        for (action, summary, code) in [
            ("send", in_state("completed"), 0),
            ("send", in_state("working"), 0),
            ("send", in_state("input-required"), 6),
            ("watch", in_state("auth-required"), 6),
            ("watch", in_state("canceled"), 7),
            ("cancel", in_state("canceled"), 0),
            ("send", in_state("failed"), 1),
            ("cancel", in_state("rejected"), 1),
            ("send", json!({}), 0),
            ("send", json!({"wait_expired": true}), 5),
            ("send", json!({"incomplete": true}), 1),
            ("send", json!({"incomplete": true, "wait_expired": true}), 5),
        ] {
            let envelope = json!({"ok": true, "action": action, "summary": summary});
            assert_eq!(Exit::from_outcome(&envelope) as u8, code, "{envelope}");
            assert_eq!(Exit::from_envelope(&envelope), Exit::Ok);
        }
    }

    #[test]
    fn exit_code_is_0_with_one_good_card_else_the_worst() {
        let bad = |reason| json!({"last_refresh_error": {"reason": reason}});
        let good = json!({"target_name": "Desk"});
        assert_eq!(Exit::from_targets(&[bad("dns"), good]), Exit::Ok);
        assert_eq!(Exit::from_targets(&[bad("auth_required")]), Exit::Auth);
        let mixed = [bad("auth_required"), bad("unreachable"), bad("timeout")];
        assert_eq!(Exit::from_targets(&mixed), Exit::Unreachable);
    }

    #[test]
    fn exit_code_is_that_of_the_decision_or_of_what_is_missing() {
        let of_group = |mode: &str, decided_by: &str, results: Vec<Value>| {
            let group = json!({"mode": mode, "decided_by": decided_by, "results": results});
            let summary = json!({ "group": group });
            Exit::from_outcome(&json!({"ok": true, "action": "send", "summary": summary}))
        };
        for (mode, decided_by, states, expected) in [
            ("all", "all", "completed answered", Exit::Ok),
            ("all", "all", "completed failed", Exit::Failed),
            (
                "all",
                "none",
                "completed input-required",
                Exit::InputRequired,
            ),
            ("all", "none", "working completed", Exit::Timeout),
            ("all", "all", "forgotten completed", Exit::Failed),
            ("first", "first", "completed canceled", Exit::Ok),
            ("first", "none", "failed failed", Exit::Failed),
            ("vote", "quorum", "completed failed", Exit::Ok),
            ("vote", "none", "completed completed", Exit::NoConsensus),
            ("vote", "none", "completed failed", Exit::Failed),
        ] {
            let results = states.split(' ').map(|state| json!({"state": state}));
            let found = of_group(mode, decided_by, results.collect());
            assert_eq!(found, expected, "{mode} {decided_by} {states}");
        }
        let unsent = json!({"state": "not_sent", "error": {"reason": "unreachable"}});
        let found = of_group("all", "all", vec![unsent]);
        assert_eq!(found, Exit::Unreachable);
    }
}
