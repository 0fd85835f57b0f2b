//! The table of all errors of a call.

mod tool_error;

use base::named;
use collective::ErrorCode;
use egress::NetFault;
use peer::{Delivered, PeerError, PeerErrorKind as Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use tool_error::ToolError;

named! {
    /// The contract's error codes (`error.code`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Code {
        /// The request is invalid.
        Validation = "VALIDATION_ERROR",
        /// The request names no usable target.
        TargetResolution = "TARGET_RESOLUTION_ERROR",
        /// The store never issued the handle, or evicted it.
        UnknownTaskHandle = "UNKNOWN_TASK_HANDLE",
        /// The handle has expired.
        ExpiredTaskHandle = "EXPIRED_TASK_HANDLE",
        /// A task was required, and the peer answered with a message.
        TaskRequired = "TASK_REQUIRED_BUT_MESSAGE_RETURNED",
        /// The call to the peer failed, or its answer is unusable.
        Peer = "A2A_SDK_ERROR",
        /// The plugin has a bug.
        Internal = "INTERNAL_ERROR",
    }
}

named! {
    /// The error codes of the HTTP API (Centraid API, "Error codes").
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ApiCode {
        /// No such target.
        UnknownApp = "UNKNOWN_APP",
        /// No such action among those that change something.
        UnknownAction = "UNKNOWN_ACTION",
        /// No such action among those that only read.
        UnknownQuery = "UNKNOWN_QUERY",
        /// The action belongs to the other route.
        WrongKind = "WRONG_KIND",
        /// The request is invalid, and no peer was called.
        InvalidInput = "INVALID_INPUT",
        /// The target has no interface that can be called now.
        NoActiveVersion = "NO_ACTIVE_VERSION",
        /// The target's agent card cannot be read or trusted.
        InvalidManifest = "INVALID_MANIFEST",
        /// The call failed.
        HandlerError = "HANDLER_ERROR",
    }
}

impl ApiCode {
    /// Returns the HTTP status of a response with this code.
    pub fn status(self) -> u16 {
        match self {
            Self::UnknownApp | Self::UnknownAction | Self::UnknownQuery => 404,
            Self::WrongKind | Self::InvalidInput => 400,
            Self::NoActiveVersion => 503,
            Self::InvalidManifest | Self::HandlerError => 500,
        }
    }
}

/// What the table has about a reason.
struct Row {
    name: &'static str,
    code: Code,
    api_code: ApiCode,
    retryable: bool,
    hint: &'static str,
    gateway_hint: Option<&'static str>,
    repeats: bool,
    meaning: &'static str,
}

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $reason:ident $(of $kinds:pat)? = $name:literal, $code:ident, $api_code:ident, $retryable:literal,
        $hint:literal $(gateway $gateway_hint:literal)? $(repeats $repeats:literal)?;)+) => {
        /// The reason of a failure (`error.reason`): finer than [`Code`], and as closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $reason,)+
        }

        impl Reason {
            /// All reasons, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$reason),+];

            fn row(self) -> Row {
                match self {
                    $(Self::$reason => Row {
                        name: $name,
                        code: Code::$code,
                        api_code: ApiCode::$api_code,
                        retryable: $retryable,
                        hint: $hint,
                        gateway_hint: None$(.or(Some($gateway_hint)))?,
                        repeats: $retryable $(|| $repeats)?,
                        meaning: concat!($($meaning),+),
                    },)+
                }
            }
        }

        impl From<Kind> for Reason {
            fn from(kind: Kind) -> Self {
                match kind {
                    $($($kinds => Self::$reason,)?)+
                }
            }
        }
    };
}

// Reason, `of` the errors of a peer that it stands for = `error.reason`, code, code of the HTTP API, whether a later call may
// succeed, hint; `gateway` precedes the hint for the local gateway, whose settings differ from a target's, and `repeats true` marks
// a hint that would lead to sending the message again.
reasons! {
    /// The request is invalid.
    InvalidRequest = "invalid_request", Validation, InvalidInput, false,
        "Correct the places listed in details.errors and call again.";
    /// The request's handle contradicts the rest of the request.
    Contradiction = "contradiction", Validation, InvalidInput, false,
        "Leave out either the handle or what contradicts it, and call again.";
    /// The task has no artifact of that id.
    UnknownArtifact = "unknown_artifact", Validation, HandlerError, false,
        "Use one of details.known_artifact_ids as artifact_id.";
    /// The continuation's target is not configured, and policy allows no others.
    TargetNotAllowed = "target_not_allowed", TargetResolution, UnknownApp, false,
        "Call list_targets and use one of its target_alias values.";
    /// The target is restricted to some of the host's agents, and the caller is not one of them.
    AgentNotAllowed = "agent_not_allowed", TargetResolution, UnknownApp, false,
        "Call list_targets and use one of the targets it shows; an operator can add this agent to targets[].allowedAgents."
        gateway "Call list_targets and use one of the targets it shows; an operator can add this agent to gateway.allowedAgents.";
    /// The chain of delegations has reached the limit of the policy.
    DelegationTooDeep = "delegation_too_deep", TargetResolution, HandlerError, false,
        "Do this work yourself, or answer with what you have; do not delegate it further.";
    /// A budget of the operator does not suffice for another message.
    BudgetExceeded = "budget_exceeded", TargetResolution, HandlerError, false,
        "Nothing was sent. Do this work yourself, or answer with what you have. An operator can raise the budget with `remote-agent budget`.";
    /// The record of what was used cannot be read or written, so no budget can be kept.
    BudgetUnusable = "budget_unusable", TargetResolution, HandlerError, false,
        "Nothing was sent. Tell the operator what the message says about the record of budgets.";
    /// The task waits for a person, who has to answer it, is being asked now, or has declined.
    PersonRequired = "person_required", TargetResolution, HandlerError, false,
        "Nothing was sent. Do not answer for the person. Watch with this task_handle or continuation asks them where one can be reached; cancel gives the task up.";
    /// Several configured targets are at that address.
    AmbiguousTarget = "ambiguous_target", TargetResolution, InvalidInput, false,
        "Name the target with target_alias.";
    /// The target's credential is a reference that the host has not resolved.
    CredentialUnresolved = "credential_unresolved", TargetResolution, NoActiveVersion, false,
        "Ask the operator to set the secret, and use the tool through a running gateway."
        gateway "Ask the operator to set the secret of gateway.token, and use the tool through a running gateway.";
    /// The store never issued the handle, or evicted it.
    UnknownHandle = "unknown_handle", UnknownTaskHandle, InvalidInput, false,
        "Pass target_alias and task_id instead, or the persisted continuation of the same result.";
    /// The handle was not used for longer than its time to live.
    ExpiredHandle = "expired_handle", ExpiredTaskHandle, InvalidInput, false,
        "Retry with the same nested continuation, or use flat target_alias + task_id only as manual compatibility.";
    /// A task was required, and the peer answered with a message.
    MessageReturned = "message_returned", TaskRequired, HandlerError, false,
        "The answer is in details.message_text, and sending again would repeat the work. For a message that needs no task, leave out task_requirement.";
    /// The host's name does not resolve.
    Dns of Kind::Net(NetFault::Dns) = "dns", Peer, HandlerError, true,
        "Check the host name in the target's configuration. If the message says that the agent card names it, `endpoint` of the target replaces the card's address."
        gateway "Check that the gateway runs and gateway.url is its address, then call again.";
    /// No connection could be made.
    Unreachable of Kind::Net(NetFault::Unreachable) = "unreachable", Peer, HandlerError, true,
        "Check that the agent, or the proxy that the message names, is running and its address is right, then call again."
        gateway "Check that the gateway runs and gateway.url is its address, then call again.";
    /// The TLS handshake failed.
    Tls of Kind::Net(NetFault::Tls) = "tls", Peer, HandlerError, false,
        "Check the agent's certificate and that its address begins with the right scheme."
        gateway "Ask the operator to check the gateway's certificate and gateway.url.";
    /// Policy does not allow a connection to that address.
    AddressRefused of Kind::Net(NetFault::AddressRefused) = "address_refused", Peer, HandlerError, false,
        "An operator can allow it for a target with allowPrivateNetwork, or for target_url with policy.allowPrivateTargetUrls."
        gateway "The gateway must be on this machine; an operator can let it be elsewhere with gateway.allowRemote and an address with wss.";
    /// The peer sent a redirect to another origin, or one that does not keep method and body.
    RedirectRefused of Kind::RedirectRefused = "redirect_refused", Peer, HandlerError, false,
        "Ask the operator to configure the address that the message names, as the target's baseUrl or endpoint."
        gateway "Ask the operator to check gateway.url: another program than a gateway may answer there.";
    /// The peer answered with an HTTP status other than success.
    HttpStatus of Kind::HttpStatus = "http_status", Peer, HandlerError, false,
        "The message has the status: 429 and 5xx may pass, others need a change."
        gateway "Ask the operator to check gateway.url: another program than a gateway may answer there."
        repeats true;
    /// The peer requires a credential, or another one.
    AuthRequired of Kind::AuthRequired | Kind::Gateway(ErrorCode::AuthRequired) = "auth_required", Peer, HandlerError, false,
        "Ask the operator to check the credential in targets[].auth for this target: the agent requires one, or another one."
        gateway "Ask the operator to set gateway.token to the gateway's shared token.";
    /// The target's credential gave no token: no person is signed in (sign in with `remote-agent sign-in`), or the authorization server or the command failed.
    TokenUnavailable of Kind::Net(NetFault::TokenUnavailable) = "token_unavailable", Peer, HandlerError, false,
        "If the server named in the message was unreachable, call again later; else ask the operator to correct targets[].auth, or to mend what the message says."
        repeats true;
    /// The proxy requires credentials, or others.
    ProxyAuthRequired of Kind::Net(NetFault::ProxyAuth) = "proxy_auth_required", Peer, HandlerError, false,
        "Ask the operator to put the user name and password of the proxy into its URL, or the agent's host into NO_PROXY.";
    /// The peer answered with an error of its own.
    RpcError of Kind::Rpc = "rpc_error", Peer, HandlerError, false,
        "Read the agent's error in the message and change the request accordingly.";
    /// The peer's answer has the wrong shape.
    InvalidResponse of Kind::InvalidResponse | Kind::Net(NetFault::Protocol) = "invalid_response", Peer, HandlerError, false,
        "Check the target's address and those in its agent card: another server than the agent may answer there. If they are right, the agent violates the protocol: report it to the agent's operator."
        gateway "Ask the operator to check gateway.url: another program than a gateway may answer there.";
    /// The peer's answer exceeds the size limit.
    TooLarge of Kind::Net(NetFault::TooLarge) = "too_large", Peer, HandlerError, false,
        "Ask for less (history_length), or ask the operator to raise limits."
        repeats true;
    /// One event of a stream exceeds the size limit.
    EventTooLarge of Kind::Net(NetFault::EventTooLarge) = "event_too_large", Peer, HandlerError, false,
        "Call status for the current state of the task, or ask the operator to raise limits.eventBytes.";
    /// The task exceeds the limit of artifacts.
    TooManyArtifacts = "too_many_artifacts", Peer, HandlerError, false,
        "Ask the agent for fewer artifacts, or the operator to raise limits.artifacts."
        repeats true;
    /// The artifacts of one stream together exceed the size limit.
    ArtifactsTooLarge = "artifacts_too_large", Peer, HandlerError, false,
        "Ask the agent for less, or the operator to raise limits.responseBytes."
        repeats true;
    /// Too many calls were running, and none ended in time.
    Busy = "busy", Peer, HandlerError, true,
        "Nothing was sent. Call again, later or with a larger timeout_ms.";
    /// The latest calls to the target failed, and the plugin does not try it again yet.
    TargetUnavailable = "target_unavailable", Peer, NoActiveVersion, true,
        "Nothing was sent. Call again after details.retry_after_ms, or use another agent.";
    /// The connection broke before the answer was complete.
    ConnectionCut of Kind::Net(NetFault::Cut) = "connection_cut", Peer, HandlerError, true,
        "Call again.";
    /// A stream broke before the task ended, and the peer does not continue it.
    StreamCut = "stream_cut", Peer, HandlerError, true,
        "Call status later with details.latest_event_summary.continuation.";
    /// The call reached its deadline.
    Timeout = "timeout", Peer, HandlerError, true,
        "Call again with a larger timeout_ms.";
    /// The caller cancelled the call.
    Aborted = "aborted", Peer, HandlerError, true,
        "The caller cancelled the call; the task continues.";
    /// The peer offers no supported transport, or the requested one is not supported.
    UnsupportedTransport of Kind::UnsupportedTransport = "unsupported_transport", Peer, NoActiveVersion, false,
        "Use JSONRPC or HTTP+JSON, where the agent offers one of them; else ask its operator for one.";
    /// The peer offers no supported version of the protocol.
    UnsupportedVersion of Kind::UnsupportedVersion = "unsupported_version", Peer, NoActiveVersion, false,
        "Ask the agent's operator for an interface of A2A 1.0 or 0.3.";
    /// The peer requires an extension that the target does not activate.
    ExtensionRequired of Kind::ExtensionRequired = "extension_required", Peer, NoActiveVersion, false,
        "Use another agent, or ask the operator to list the extension that the message names in `extensions` of the target.";
    /// The target has no usable agent card.
    CardUnavailable of Kind::CardUnavailable = "card_unavailable", Peer, NoActiveVersion, true,
        "Check the target's address and card path; the message names each place that was tried."
        gateway "Call list_targets to see which agents the gateway has, and what is wrong with it.";
    /// The target's agent card cannot be read.
    CardMalformed of Kind::CardMalformed = "card_malformed", Peer, InvalidManifest, false,
        "Report it to the agent's operator; the message names the place and the fault.";
    /// The agent card must be signed, and has no valid signature.
    CardSignature of Kind::CardSignature = "card_signature", Peer, InvalidManifest, false,
        "Do not call this agent: it may be an impostor. The message names the error of each signature.";
    /// The target's agent card is not the one that the operator accepted.
    CardChanged = "card_changed", Peer, InvalidManifest, false,
        "Nothing was sent. Tell the operator, who can see the changes with `remote-agent pin` and accept them; another agent may answer at that address.";
    /// The record of what was accepted of the target's agent card cannot be used.
    PinUnusable = "pin_unusable", Peer, InvalidManifest, false,
        "Nothing was sent. Tell the operator what the message says about the pins.";
    /// The transport cannot carry a value of the request.
    Unaddressable of Kind::Unaddressable = "unaddressable", Peer, InvalidInput, false,
        "Use another transport for this target, or change what the message names."
        gateway "Leave out the field that the message names: a local gateway cannot carry it.";
    /// The local gateway has no agent of that name.
    AgentNotFound of Kind::Gateway(ErrorCode::AgentNotFound) = "agent_not_found", TargetResolution, UnknownApp, false,
        "Call list_targets and use one of the gateway's agents it shows.";
    /// The local gateway knows the agent, but it is not connected.
    AgentOffline of Kind::Gateway(ErrorCode::AgentOffline) = "agent_offline", Peer, NoActiveVersion, false,
        "Start the agent, or use another one that list_targets shows as online.";
    /// The agent or the local gateway is overloaded.
    AgentBusy of Kind::Gateway(ErrorCode::AgentBusy) = "agent_busy", Peer, HandlerError, true,
        "The gateway did not process the message. Call again later."
        repeats true;
    /// The agent failed.
    AgentError of Kind::Gateway(ErrorCode::AgentError) = "agent_error", Peer, HandlerError, false,
        "Read the agent's error in the message and change the request accordingly.";
    /// The local gateway refused the connection.
    ConnectionRefused of Kind::Gateway(ErrorCode::ConnectionRefused) = "connection_refused", Peer, HandlerError, true,
        "Check that the gateway runs at the address that the message names, then call again.";
    /// The local gateway did not answer in time.
    ConnectionTimeout of Kind::Gateway(ErrorCode::ConnectionTimeout) = "connection_timeout", Peer, HandlerError, true,
        "Check that a gateway answers at the address that the message names, then call again.";
    /// The connection to the local gateway broke.
    ConnectionReset of Kind::Gateway(ErrorCode::ConnectionReset) = "connection_reset", Peer, HandlerError, true,
        "Call again; the plugin reconnects.";
    /// The local gateway violates its protocol, or speaks another one.
    ProtocolError of Kind::Gateway(ErrorCode::ProtocolError) = "protocol_error", Peer, HandlerError, false,
        "Ask the operator to check gateway.url and gateway.dialect; the message names what the gateway sent.";
    /// The local gateway could not parse a message as JSON.
    InvalidJson of Kind::Gateway(ErrorCode::InvalidJson) = "invalid_json", Peer, HandlerError, false,
        "Tell the gateway's operator: the message was JSON.";
    /// The local gateway requires a field that a message lacks.
    MissingField of Kind::Gateway(ErrorCode::MissingField) = "missing_field", Peer, HandlerError, false,
        "Read in the message which field the gateway requires, and put it into metadata if it belongs there.";
    /// The local gateway refused the type of a field.
    InvalidType of Kind::Gateway(ErrorCode::InvalidType) = "invalid_type", Peer, HandlerError, false,
        "Read in the message which field the gateway means, and correct it.";
    /// The local gateway does not know a message type.
    UnknownType of Kind::Gateway(ErrorCode::UnknownType) = "unknown_type", Peer, HandlerError, false,
        "This gateway does not support the operation; use another target.";
    /// The local gateway refused the content of a message.
    InvalidContent of Kind::Gateway(ErrorCode::InvalidContent) = "invalid_content", Peer, HandlerError, false,
        "Read in the message what the gateway refuses, and correct the request.";
    /// The local gateway has no session of that id.
    SessionNotFound of Kind::Gateway(ErrorCode::SessionNotFound) = "session_not_found", Peer, HandlerError, false,
        "Send without context_id to begin a new session."
        repeats true;
    /// The session at the local gateway has ended.
    SessionExpired of Kind::Gateway(ErrorCode::SessionExpired) = "session_expired", Peer, HandlerError, false,
        "Send without context_id to begin a new session."
        repeats true;
    /// Another process holds the session at the local gateway.
    SessionLocked of Kind::Gateway(ErrorCode::SessionLocked) = "session_locked", Peer, HandlerError, true,
        "The gateway did not process the message. Call again when the other process has released the session.";
    /// The local gateway cannot read its stored session.
    SessionCorrupt of Kind::Gateway(ErrorCode::SessionCorrupt) = "session_corrupt", Peer, HandlerError, false,
        "Ask the operator to look at the session's file; send without context_id to begin a new session."
        repeats true;
    /// The local gateway rejected the credential.
    AuthFailed of Kind::Gateway(ErrorCode::AuthFailed) = "auth_failed", Peer, HandlerError, false,
        "Ask the operator to check gateway.token.";
    /// The credential for the local gateway has expired.
    TokenExpired of Kind::Gateway(ErrorCode::TokenExpired) = "token_expired", Peer, HandlerError, false,
        "Ask the operator to renew gateway.token.";
    /// The credential for the local gateway lacks a permission.
    PermissionDenied of Kind::Gateway(ErrorCode::PermissionDenied) = "permission_denied", Peer, HandlerError, false,
        "Use another agent, or ask the operator for the permission that the message names.";
    /// The local gateway does not know the task any more.
    TaskForgotten of Kind::TaskForgotten = "task_forgotten", Peer, HandlerError, false,
        "The gateway keeps no tasks across restarts. Send again if the work is still wanted.";
    /// The call would reach the session that it comes from.
    OwnSession of Kind::OwnSession = "own_session", Peer, InvalidInput, false,
        "Leave out context_id, or use another agent: a session cannot delegate to itself.";
    /// The plugin has a bug.
    InternalFault = "internal", Internal, HandlerError, false,
        "This is a bug of the plugin; the host's log has the place.";
    /// The instance is shutting down.
    ShuttingDown = "shutting_down", Internal, HandlerError, true,
        "Call again when the plugin has been reloaded.";
}

named! {
    /// The cause that an error of a peer names, and the hint that then replaces that of the reason.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum PeerCause {
        UnknownTask = "The agent knows no such task, or no longer: check task_id and the target. Send starts a new task.",
        NotCancelable = "The task has ended, so nothing is left to cancel: status shows how it ended.",
        Unsupported = "The agent does not do this, or not in the state of the task. A task that works may take no message: watch it until it ends or asks, then send again.",
        Failed = "The agent failed, whatever the request says: the log of the agent's server has the cause.",
        /// The request exceeds a quota (RFC 6585 §4).
        Quota = "The agent, or a server before it, takes only so many requests in a time: wait, as long as the message says if it does, and then make the request once more.",
    }
}

impl PeerCause {
    /// Reads the code of A2A (A2A 1.0 §5.4) or JSON-RPC, else the HTTP status.
    fn in_error(error: &PeerError) -> Option<Self> {
        let code = error.rpc_code.filter(|code| *code < 0);
        let status = error.http_status.unwrap_or_default();
        Some(match (code, error.kind, status) {
            (Some(-32001), ..) => Self::UnknownTask,
            (Some(-32002), ..) => Self::NotCancelable,
            (Some(-32004), ..) | (None, Kind::Rpc, 501) => Self::Unsupported,
            (Some(-32603), ..) | (None, Kind::Rpc, 500..600) => Self::Failed,
            (None, Kind::Rpc | Kind::HttpStatus, 429) => Self::Quota,
            _ => return None,
        })
    }
}

/// The hint for a message that the peer may have received.
const MAYBE_SENT: &str = "The agent may have the message and be working on it: find out before you send it again. \
With follow_updates or task_requirement: required there is a task to ask about.";

/// The hint for a message that the peer has, where the call knows no task.
const SENT: &str = "The agent has the message and may have done the work: sending the message again would repeat it. \
Ask the user first, or the operator about the cause.";

/// The hint for a message whose answer cannot be read.
const UNREADABLE: &str = "The agent may have the message and be working on it, and sending the message again would repeat the work. \
Check the target's address and those in its agent card: another server than the agent may answer there. If they are right, the agent violates the protocol: report it to the agent's operator.";

/// The hint for a message that became a task.
const HAS_TASK: &str = "The message became a task: call status or watch with details.latest_event_summary.continuation. \
Sending the message again would repeat the work.";

impl Reason {
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    pub fn code(self) -> Code {
        self.row().code
    }

    /// Returns the code of the HTTP API for this reason. A request that names an unknown target is an exception: see
    /// [`http_api`](crate::http_api).
    pub fn api_code(self) -> ApiCode {
        self.row().api_code
    }

    /// Returns the reason of an error in an envelope, if the envelope is of this version.
    pub fn in_error(error: &Value) -> Option<Self> {
        Self::deserialize(&error["reason"]).ok()
    }

    pub fn retryable(self) -> bool {
        self.row().retryable
    }

    pub fn hint(self) -> &'static str {
        self.row().hint
    }

    /// Returns the hint about the local gateway, where the hint of the reason is about other agents.
    fn gateway_hint(self) -> Option<&'static str> {
        self.row().gateway_hint
    }

    /// Returns the next step after a `send` that the peer has received, or may have, where the hint of the reason would be
    /// to send again.
    fn hint_after_delivery(
        self,
        delivered: Delivered,
        has_task: bool,
        cause: Option<PeerCause>,
    ) -> Option<&'static str> {
        match (delivered, has_task) {
            (Delivered::No, _) => None,
            (_, false) if self == Self::InvalidResponse => Some(UNREADABLE),
            (_, true) if self == Self::InvalidResponse => Some(HAS_TASK),
            // The cause that an error names says more. The request was right for the task that it became.
            (_, true) if matches!(self, Self::RpcError | Self::AgentError) && cause.is_none() => {
                Some(HAS_TASK)
            }
            _ if !self.row().repeats => None,
            // A message refused for a quota is for later, also one that a server before the agent refused.
            (_, false) if cause == Some(PeerCause::Quota) => None,
            // Its own hint leads to the task.
            (_, true) if self == Self::StreamCut => None,
            (_, true) => Some(HAS_TASK),
            (Delivered::Yes, false) => Some(SENT),
            (Delivered::Unknown, false) => Some(MAYBE_SENT),
        }
    }

    /// Returns the description of the reason, as a sentence.
    pub fn meaning(self) -> &'static str {
        self.row().meaning.trim()
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
