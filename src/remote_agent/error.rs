//! The table of all errors of a call.

mod tool_error;

use collective::ErrorCode;
use peer::PeerErrorKind;

pub use tool_error::ToolError;

/// The contract's error codes (`error.code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is invalid.
    Validation,
    /// The request names no usable target.
    TargetResolution,
    /// The store never issued the handle, or evicted it.
    UnknownTaskHandle,
    /// The handle has expired.
    ExpiredTaskHandle,
    /// A task was required, and the peer answered with a message.
    TaskRequired,
    /// The call to the peer failed, or its answer is unusable.
    Peer,
    /// The plugin has a bug.
    Internal,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validation => "VALIDATION_ERROR",
            Self::TargetResolution => "TARGET_RESOLUTION_ERROR",
            Self::UnknownTaskHandle => "UNKNOWN_TASK_HANDLE",
            Self::ExpiredTaskHandle => "EXPIRED_TASK_HANDLE",
            Self::TaskRequired => "TASK_REQUIRED_BUT_MESSAGE_RETURNED",
            Self::Peer => "A2A_SDK_ERROR",
            Self::Internal => "INTERNAL_ERROR",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $reason:ident = $name:literal, $code:ident, $retryable:literal, $hint:literal;)+) => {
        /// The reason of a failure (`error.reason`): finer than [`Code`], and as closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $meaning])+ $reason,)+
        }

        impl Reason {
            /// All reasons, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$reason),+];

            fn row(self) -> (&'static str, Code, bool, &'static str, &'static str) {
                match self {
                    $(Self::$reason => ($name, Code::$code, $retryable, $hint, concat!($($meaning),+)),)+
                }
            }
        }
    };
}

// Reason = `error.reason`, code, whether a later call may succeed, hint.
reasons! {
    /// The request is invalid.
    InvalidRequest = "invalid_request", Validation, false,
        "Correct the places listed in details.errors and call again.";
    /// The request's handle contradicts the rest of the request.
    Contradiction = "contradiction", Validation, false,
        "Leave out either the handle or what contradicts it, and call again.";
    /// The task has no artifact of that id.
    UnknownArtifact = "unknown_artifact", Validation, false,
        "Use one of details.known_artifact_ids as artifact_id.";
    /// The continuation's target is not configured, and policy allows no others.
    TargetNotAllowed = "target_not_allowed", TargetResolution, false,
        "Call list_targets and use one of its target_alias values.";
    /// The target is restricted to some of the host's agents, and the caller is not one of them.
    AgentNotAllowed = "agent_not_allowed", TargetResolution, false,
        "Call list_targets and use one of the targets it shows; an operator can add this agent to targets[].allowedAgents.";
    /// The chain of delegations has reached the limit of the policy.
    DelegationTooDeep = "delegation_too_deep", TargetResolution, false,
        "Do this work yourself, or answer with what you have; do not delegate it further.";
    /// Several configured targets are at that address.
    AmbiguousTarget = "ambiguous_target", TargetResolution, false,
        "Name the target with target_alias.";
    /// The target's credential is a reference that the host has not resolved.
    CredentialUnresolved = "credential_unresolved", TargetResolution, false,
        "Ask the operator to set the secret, and use the tool through a running gateway.";
    /// The store never issued the handle, or evicted it.
    UnknownHandle = "unknown_handle", UnknownTaskHandle, false,
        "Pass target_alias and task_id instead, or the persisted continuation of the same result.";
    /// The handle was not used for longer than its time to live.
    ExpiredHandle = "expired_handle", ExpiredTaskHandle, false,
        "Retry with the same nested continuation, or use flat target_alias + task_id only as manual compatibility.";
    /// A task was required, and the peer answered with a message.
    MessageReturned = "message_returned", TaskRequired, false,
        "The answer is in details.message_text. Send without task_requirement if an answer is enough.";
    /// The host's name does not resolve.
    Dns = "dns", Peer, true,
        "Check the host name in the target's configuration.";
    /// No connection could be made.
    Unreachable = "unreachable", Peer, true,
        "Check that the agent is running and its address is right, then call again.";
    /// The TLS handshake failed.
    Tls = "tls", Peer, false,
        "Check the agent's certificate and that its address begins with the right scheme.";
    /// Policy does not allow a connection to that address.
    AddressRefused = "address_refused", Peer, false,
        "An operator can allow it for a target with allowPrivateNetwork, or for target_url with policy.allowPrivateTargetUrls.";
    /// The peer sent a redirect, which calls do not follow.
    RedirectRefused = "redirect_refused", Peer, false,
        "Ask the operator to configure the agent's current address.";
    /// The peer answered with an HTTP status other than success.
    HttpStatus = "http_status", Peer, false,
        "Read the status in details.http_status; 429 and 5xx may pass, others need a change.";
    /// The peer requires a credential, or another one.
    AuthRequired = "auth_required", Peer, false,
        "Ask the operator to check the credential in targets[].auth for this target: the agent requires one, or another one.";
    /// The authorization server of the target's credential issued no access token.
    TokenUnavailable = "token_unavailable", Peer, false,
        "If the server named in the message was unreachable, call again later; else ask the operator to correct targets[].auth.";
    /// The peer answered with an error of its own.
    RpcError = "rpc_error", Peer, false,
        "Read the agent's own words in the message and change the request accordingly.";
    /// The peer's answer has the wrong shape.
    InvalidResponse = "invalid_response", Peer, false,
        "The agent violates the protocol at the place named; report it to the agent's operator.";
    /// The peer's answer exceeds the size limit.
    TooLarge = "too_large", Peer, false,
        "Ask for less (history_length), or ask the operator to raise limits.";
    /// One event of a stream exceeds the size limit.
    EventTooLarge = "event_too_large", Peer, false,
        "Call status for the current state of the task, or ask the operator to raise limits.eventBytes.";
    /// The task exceeds the limit of artifacts.
    TooManyArtifacts = "too_many_artifacts", Peer, false,
        "Ask the agent for fewer artifacts, or the operator to raise limits.artifacts.";
    /// The artifacts of one stream together exceed the size limit.
    ArtifactsTooLarge = "artifacts_too_large", Peer, false,
        "Ask the agent for less, or the operator to raise limits.responseBytes.";
    /// Too many calls were running, and none ended in time.
    Busy = "busy", Peer, true,
        "Nothing was sent. Call again, later or with a larger timeout_ms.";
    /// The connection broke before the answer was complete.
    ConnectionCut = "connection_cut", Peer, true,
        "Call again.";
    /// A stream broke before the task ended, and the peer does not continue it.
    StreamCut = "stream_cut", Peer, true,
        "Call status later with details.latest_event_summary.continuation.";
    /// The call reached its deadline.
    Timeout = "timeout", Peer, true,
        "Call again with a larger timeout_ms.";
    /// The caller cancelled the call.
    Aborted = "aborted", Peer, true,
        "The caller cancelled the call; the task continues.";
    /// The peer offers no supported transport, or the requested one is not supported.
    UnsupportedTransport = "unsupported_transport", Peer, false,
        "Use JSONRPC or HTTP+JSON.";
    /// The peer offers no supported version of the protocol.
    UnsupportedVersion = "unsupported_version", Peer, false,
        "Ask the agent's operator for an interface of A2A 1.0 or 0.3.";
    /// The peer requires an extension that the plugin does not have.
    ExtensionRequired = "extension_required", Peer, false,
        "Use another agent: this one requires the extension that the message names.";
    /// The target has no usable agent card.
    CardUnavailable = "card_unavailable", Peer, true,
        "Check the target's address and card path; the message names each place that was tried.";
    /// The agent card must be signed, and has no valid signature.
    CardSignature = "card_signature", Peer, false,
        "Do not call this agent: it may be an impostor. The message names the error of each signature.";
    /// The transport cannot carry a value of the request.
    Unaddressable = "unaddressable", Peer, false,
        "Use another transport for this target, or change what the message names.";
    /// The local gateway has no agent of that name.
    AgentNotFound = "agent_not_found", TargetResolution, false,
        "Call list_targets and use one of the gateway's agents it shows.";
    /// The local gateway knows the agent, but it is not connected.
    AgentOffline = "agent_offline", Peer, false,
        "Start the agent, or use another one that list_targets shows as online.";
    /// The agent or the local gateway is overloaded.
    AgentBusy = "agent_busy", Peer, true,
        "The gateway did not process the message. Call again later.";
    /// The agent failed.
    AgentError = "agent_error", Peer, false,
        "Read the agent's own words in the message and change the request accordingly.";
    /// The local gateway refused the connection.
    ConnectionRefused = "connection_refused", Peer, true,
        "Check that the gateway runs at the address that the message names, then call again.";
    /// The local gateway did not answer in time.
    ConnectionTimeout = "connection_timeout", Peer, true,
        "Check that a gateway answers at the address that the message names, then call again.";
    /// The connection to the local gateway broke.
    ConnectionReset = "connection_reset", Peer, true,
        "Call again; the plugin reconnects.";
    /// The local gateway violates its protocol, or speaks another one.
    ProtocolError = "protocol_error", Peer, false,
        "Ask the operator to check gateway.url and gateway.dialect; the message names what the gateway sent.";
    /// The local gateway could not parse a message as JSON.
    InvalidJson = "invalid_json", Peer, false,
        "Tell the gateway's operator: the message was JSON.";
    /// The local gateway requires a field that a message lacks.
    MissingField = "missing_field", Peer, false,
        "Read in the message which field the gateway wants, and put it into metadata if it belongs there.";
    /// The local gateway refused the type of a field.
    InvalidType = "invalid_type", Peer, false,
        "Read in the message which field the gateway means, and correct it.";
    /// The local gateway does not know a message type.
    UnknownType = "unknown_type", Peer, false,
        "This gateway does not support the operation; use another target.";
    /// The local gateway refused the content of a message.
    InvalidContent = "invalid_content", Peer, false,
        "Read in the message what the gateway refuses, and correct the request.";
    /// The local gateway has no session of that id.
    SessionNotFound = "session_not_found", Peer, false,
        "Send without context_id to begin a new session.";
    /// The session at the local gateway has ended.
    SessionExpired = "session_expired", Peer, false,
        "Send without context_id to begin a new session.";
    /// Another process holds the session at the local gateway.
    SessionLocked = "session_locked", Peer, true,
        "The gateway did not process the message. Call again when the other process has released the session.";
    /// The local gateway cannot read its stored session.
    SessionCorrupt = "session_corrupt", Peer, false,
        "Ask the operator to look at the session's file; send without context_id to begin a new session.";
    /// The local gateway rejected the credential.
    AuthFailed = "auth_failed", Peer, false,
        "Ask the operator to check gateway.token.";
    /// The credential for the local gateway has expired.
    TokenExpired = "token_expired", Peer, false,
        "Ask the operator to renew gateway.token.";
    /// The credential for the local gateway lacks a permission.
    PermissionDenied = "permission_denied", Peer, false,
        "Use another agent, or ask the operator for the permission that the message names.";
    /// The local gateway does not know the task any more.
    TaskForgotten = "task_forgotten", Peer, false,
        "The gateway keeps no tasks across restarts. Send again if the work is still wanted.";
    /// The call would reach the session that it comes from.
    OwnSession = "own_session", Peer, false,
        "Leave out context_id, or use another agent: a session cannot delegate to itself.";
    /// The plugin has a bug.
    InternalFault = "internal", Internal, false,
        "This is a bug of the plugin; the host's log has the place.";
    /// The instance is shutting down.
    ShuttingDown = "shutting_down", Internal, true,
        "Call again when the plugin has been reloaded.";
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    pub fn code(self) -> Code {
        self.row().1
    }

    pub fn retryable(self) -> bool {
        self.row().2
    }

    pub fn hint(self) -> &'static str {
        self.row().3
    }

    /// The description of the reason, as a sentence.
    pub fn meaning(self) -> &'static str {
        self.row().4.trim()
    }
}

impl From<PeerErrorKind> for Reason {
    fn from(fault: PeerErrorKind) -> Self {
        match fault {
            PeerErrorKind::Dns => Self::Dns,
            PeerErrorKind::Unreachable => Self::Unreachable,
            PeerErrorKind::Tls => Self::Tls,
            PeerErrorKind::AddressRefused => Self::AddressRefused,
            PeerErrorKind::RedirectRefused => Self::RedirectRefused,
            PeerErrorKind::HttpStatus => Self::HttpStatus,
            PeerErrorKind::AuthRequired => Self::AuthRequired,
            PeerErrorKind::TokenUnavailable => Self::TokenUnavailable,
            PeerErrorKind::Rpc => Self::RpcError,
            PeerErrorKind::InvalidResponse => Self::InvalidResponse,
            PeerErrorKind::TooLarge => Self::TooLarge,
            PeerErrorKind::EventTooLarge => Self::EventTooLarge,
            PeerErrorKind::Cut => Self::ConnectionCut,
            PeerErrorKind::UnsupportedTransport => Self::UnsupportedTransport,
            PeerErrorKind::UnsupportedVersion => Self::UnsupportedVersion,
            PeerErrorKind::ExtensionRequired => Self::ExtensionRequired,
            PeerErrorKind::Unaddressable => Self::Unaddressable,
            PeerErrorKind::CardUnavailable => Self::CardUnavailable,
            PeerErrorKind::CardSignature => Self::CardSignature,
            PeerErrorKind::Gateway(code) => gateway(code),
            PeerErrorKind::TaskForgotten => Self::TaskForgotten,
            PeerErrorKind::OwnSession => Self::OwnSession,
        }
    }
}

/// Returns the reason of an error code of the gateway's registry.
fn gateway(code: ErrorCode) -> Reason {
    match code {
        ErrorCode::ConnectionRefused => Reason::ConnectionRefused,
        ErrorCode::ConnectionTimeout => Reason::ConnectionTimeout,
        ErrorCode::ConnectionReset => Reason::ConnectionReset,
        ErrorCode::ProtocolError => Reason::ProtocolError,
        ErrorCode::InvalidJson => Reason::InvalidJson,
        ErrorCode::MissingField => Reason::MissingField,
        ErrorCode::InvalidType => Reason::InvalidType,
        ErrorCode::UnknownType => Reason::UnknownType,
        ErrorCode::InvalidContent => Reason::InvalidContent,
        ErrorCode::AgentNotFound => Reason::AgentNotFound,
        ErrorCode::AgentOffline => Reason::AgentOffline,
        ErrorCode::AgentBusy => Reason::AgentBusy,
        ErrorCode::AgentError => Reason::AgentError,
        ErrorCode::SessionNotFound => Reason::SessionNotFound,
        ErrorCode::SessionExpired => Reason::SessionExpired,
        ErrorCode::SessionLocked => Reason::SessionLocked,
        ErrorCode::SessionCorrupt => Reason::SessionCorrupt,
        ErrorCode::AuthRequired => Reason::AuthRequired,
        ErrorCode::AuthFailed => Reason::AuthFailed,
        ErrorCode::TokenExpired => Reason::TokenExpired,
        ErrorCode::PermissionDenied => Reason::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reasons_have_unique_names_and_hints() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert!(
                reason.hint().ends_with('.') && reason.meaning().ends_with('.'),
                "{reason:?}"
            );
        }
    }
}
