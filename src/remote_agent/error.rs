//! What can go wrong with a call: the one table of errors.

mod tool_error;

use collective::ErrorCode;
use peer::PeerErrorKind;

pub use tool_error::ToolError;

/// The contract's error codes (`error.code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request is not as it should be.
    Validation,
    /// No target could be told from the request, or it may not be used.
    TargetResolution,
    /// The handle was never given out, or is forgotten.
    UnknownTaskHandle,
    /// The handle has not been used for too long.
    ExpiredTaskHandle,
    /// A task was required and the peer answered with a message.
    TaskRequired,
    /// The peer could not be asked, or its answer is of no use.
    Peer,
    /// The fault is ours.
    Internal,
}

impl Code {
    /// The code as results show it.
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
        /// Why a call failed (`error.reason`): finer than [`Code`], and as closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $meaning])+ $reason,)+
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$reason),+];

            fn row(self) -> (&'static str, Code, bool, &'static str, &'static str) {
                match self {
                    $(Self::$reason => ($name, Code::$code, $retryable, $hint, concat!($($meaning),+)),)+
                }
            }
        }
    };
}

// Reason = `error.reason`, code, whether the same call may succeed later, what to do next.
reasons! {
    /// The request is not as it should be.
    InvalidRequest = "invalid_request", Validation, false,
        "Correct the places listed in details.errors and call again.";
    /// The request's handle and the rest of the request speak of different things.
    Contradiction = "contradiction", Validation, false,
        "Leave out either the handle or what contradicts it, and call again.";
    /// The task has no artifact of that id.
    UnknownArtifact = "unknown_artifact", Validation, false,
        "Use one of details.known_artifact_ids as artifact_id.";
    /// A continuation leads to where no target is configured, and policy does not allow others.
    TargetNotAllowed = "target_not_allowed", TargetResolution, false,
        "Call list_targets and use one of its target_alias values.";
    /// The target is for some of the host's agents only, and the caller is none of them.
    AgentNotAllowed = "agent_not_allowed", TargetResolution, false,
        "Call list_targets and use one of the targets it shows; an operator can add this agent to targets[].allowedAgents.";
    /// The work has been handed on from agent to agent as often as policy allows.
    DelegationTooDeep = "delegation_too_deep", TargetResolution, false,
        "Do this work yourself, or answer with what you have; do not delegate it further.";
    /// Several configured targets are at that address.
    AmbiguousTarget = "ambiguous_target", TargetResolution, false,
        "Name the target with target_alias.";
    /// The target's credential is a reference that the host has not resolved.
    CredentialUnresolved = "credential_unresolved", TargetResolution, false,
        "Ask the operator to set the secret, and use the tool through a running gateway.";
    /// The handle was never given out, or is forgotten.
    UnknownHandle = "unknown_handle", UnknownTaskHandle, false,
        "Pass the persisted continuation of the same result instead, or target_alias and task_id.";
    /// The handle has not been used for too long.
    ExpiredHandle = "expired_handle", ExpiredTaskHandle, false,
        "Retry with the same nested continuation, or use flat target_alias + task_id only as manual compatibility.";
    /// A task was required and the peer answered with a message.
    MessageReturned = "message_returned", TaskRequired, false,
        "The answer is in details.message_text. Send without task_requirement if an answer is enough.";
    /// The host's name does not resolve.
    Dns = "dns", Peer, true,
        "Check the host name in the target's configuration.";
    /// No connection could be made.
    Unreachable = "unreachable", Peer, true,
        "Check that the agent is running and its address is right, then call again.";
    /// The connection could not be secured.
    Tls = "tls", Peer, false,
        "Check the agent's certificate and that its address begins with the right scheme.";
    /// Policy does not allow a connection to that address.
    AddressRefused = "address_refused", Peer, false,
        "An operator can allow it for a target with allowPrivateNetwork, or for target_url with policy.allowPrivateTargetUrls.";
    /// The peer sent us elsewhere, and that is not followed.
    RedirectRefused = "redirect_refused", Peer, false,
        "Ask the operator to configure the address that the agent really has.";
    /// The peer answered with an HTTP status that is no success.
    HttpStatus = "http_status", Peer, false,
        "Read the status in details.http_status; 429 and 5xx may pass, others need a change.";
    /// The peer wants credentials, or other ones.
    AuthRequired = "auth_required", Peer, false,
        "Ask the operator to check the credential in targets[].auth for this target: the agent wants one, or another one.";
    /// The authorization server of the target's credential gave no access token.
    TokenUnavailable = "token_unavailable", Peer, false,
        "If the server named in the message was out of reach, call again later; else ask the operator to correct targets[].auth.";
    /// The peer answered with an error of its own.
    RpcError = "rpc_error", Peer, false,
        "Read the agent's own words in the message and change the request accordingly.";
    /// The peer's answer has the wrong shape.
    InvalidResponse = "invalid_response", Peer, false,
        "The agent does not keep to the protocol at the place named; tell its operator.";
    /// The peer's answer is larger than the limits allow.
    TooLarge = "too_large", Peer, false,
        "Ask for less (history_length), or ask the operator to raise limits.";
    /// One event of a stream is larger than the limits allow.
    EventTooLarge = "event_too_large", Peer, false,
        "Call status for the task as it stands, or ask the operator to raise limits.eventBytes.";
    /// The task has more artifacts than the limits allow.
    TooManyArtifacts = "too_many_artifacts", Peer, false,
        "Ask the agent for fewer artifacts, or the operator to raise limits.artifacts.";
    /// The artifacts of one stream are larger together than the limits allow.
    ArtifactsTooLarge = "artifacts_too_large", Peer, false,
        "Ask the agent for less, or the operator to raise limits.responseBytes.";
    /// So many calls were under way that this one's turn did not come in time.
    Busy = "busy", Peer, true,
        "Nothing was sent. Call again, later or with a larger timeout_ms.";
    /// The connection broke while an answer was under way.
    ConnectionCut = "connection_cut", Peer, true,
        "Call again.";
    /// A stream broke off while the task was still under way, and the peer tells no more about it.
    StreamCut = "stream_cut", Peer, true,
        "The agent tells no more for now. Call status later with details.latest_event_summary.continuation.";
    /// The call's time is up.
    Timeout = "timeout", Peer, true,
        "Call again with a larger timeout_ms.";
    /// The caller gave up.
    Aborted = "aborted", Peer, true,
        "The call was cancelled by its caller; a task it was about goes on.";
    /// The peer offers no transport that we speak, or one was asked for that we do not speak.
    UnsupportedTransport = "unsupported_transport", Peer, false,
        "Use JSONRPC or HTTP+JSON.";
    /// The peer offers no version of the protocol that we speak.
    UnsupportedVersion = "unsupported_version", Peer, false,
        "Ask the agent's operator for an interface of A2A 1.0 or 0.3.";
    /// The peer takes only requests that use an extension we do not have.
    ExtensionRequired = "extension_required", Peer, false,
        "Use another agent: this one cannot be called without the extension that the message names.";
    /// There is no usable agent card.
    CardUnavailable = "card_unavailable", Peer, true,
        "Check the target's address and card path; each place that was tried is named.";
    /// The agent card must be signed, and no signature of it holds.
    CardSignature = "card_signature", Peer, false,
        "Do not call this agent: someone may speak in its name. The message says what is wrong with each signature.";
    /// What was asked for cannot be written in a request of this transport.
    Unaddressable = "unaddressable", Peer, false,
        "Use another transport for this target, or change what the message names.";
    /// The local gateway has no agent of that name.
    AgentNotFound = "agent_not_found", TargetResolution, false,
        "Call list_targets and use one of the gateway's agents it shows.";
    /// The agent is known to the local gateway and not connected to it.
    AgentOffline = "agent_offline", Peer, false,
        "Start the agent, or use another one that list_targets shows as online.";
    /// The agent, or the local gateway, has too much to do.
    AgentBusy = "agent_busy", Peer, true,
        "Nothing was done. Call again later.";
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
        "Call again; the connection is made anew.";
    /// The local gateway does not keep to its protocol, or speaks another one.
    ProtocolError = "protocol_error", Peer, false,
        "Ask the operator to check gateway.url and gateway.dialect; the message names what was met.";
    /// The local gateway did not take a message for JSON.
    InvalidJson = "invalid_json", Peer, false,
        "Tell the gateway's operator: the message was JSON.";
    /// The local gateway misses a field in a message.
    MissingField = "missing_field", Peer, false,
        "Read in the message which field the gateway wants, and put it into metadata if it belongs there.";
    /// The local gateway found a field of the wrong type in a message.
    InvalidType = "invalid_type", Peer, false,
        "Read in the message which field the gateway means, and correct it.";
    /// The local gateway does not know a type of message.
    UnknownType = "unknown_type", Peer, false,
        "This gateway cannot do that; use another target.";
    /// The local gateway has no use for what a message says.
    InvalidContent = "invalid_content", Peer, false,
        "Read in the message what the gateway refuses, and correct the request.";
    /// The local gateway has no session of that id.
    SessionNotFound = "session_not_found", Peer, false,
        "Send without context_id to begin a new session.";
    /// The session at the local gateway is over.
    SessionExpired = "session_expired", Peer, false,
        "Send without context_id to begin a new session.";
    /// Another process holds the session at the local gateway.
    SessionLocked = "session_locked", Peer, true,
        "Nothing was done. Call again when the other process has let go of the session.";
    /// What the local gateway has stored of the session cannot be read.
    SessionCorrupt = "session_corrupt", Peer, false,
        "Ask the operator to look at the session's file; send without context_id to begin a new session.";
    /// The local gateway does not take the credential.
    AuthFailed = "auth_failed", Peer, false,
        "Ask the operator to check gateway.token.";
    /// The credential for the local gateway has expired.
    TokenExpired = "token_expired", Peer, false,
        "Ask the operator to renew gateway.token.";
    /// The credential for the local gateway does not allow that.
    PermissionDenied = "permission_denied", Peer, false,
        "Use another agent, or ask the operator for the permission that the message names.";
    /// The local gateway has nothing to tell about that task any more.
    TaskForgotten = "task_forgotten", Peer, false,
        "The gateway keeps no tasks across restarts. Send again if the work is still wanted.";
    /// The call would have gone to the very session it comes from.
    OwnSession = "own_session", Peer, false,
        "Leave out context_id, or use another agent: a session cannot hand work to itself.";
    /// The fault is ours.
    InternalFault = "internal", Internal, false,
        "This is a bug of the plugin; the host's log has its place.";
    /// The instance is being shut down.
    ShuttingDown = "shutting_down", Internal, true,
        "Call again when the plugin has been reloaded.";
}

impl Reason {
    /// The reason as results show it.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The contract's code for it.
    pub fn code(self) -> Code {
        self.row().1
    }

    /// The same call may succeed later.
    pub fn retryable(self) -> bool {
        self.row().2
    }

    /// What to do next.
    pub fn hint(self) -> &'static str {
        self.row().3
    }

    /// What it means, as a sentence.
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

/// The reason that an error of the gateway's registry is told as: its name.
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
    fn every_reason_has_a_name_of_its_own_and_says_what_to_do() {
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
