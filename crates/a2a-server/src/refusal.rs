//! The one table of errors: what a client is told when it gets no answer.

use std::borrow::Cow;

use http::StatusCode;

/// Why a request is refused. How it is written is up to the version and the binding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct A2aError {
    /// What kind of refusal.
    pub reason: ErrorReason,
    /// What failed, why, and what to do next. Holds no secret.
    pub text: Cow<'static, str>,
    /// The place in the request it is about, as a path of camelCase names, where it is about one.
    pub field: Option<String>,
    /// After how many seconds to ask again, where that helps.
    pub retry_after_s: Option<u64>,
}

/// The kinds of refusals (A2A 1.0 §5.4, §9.5; 0.3 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReason {
    /// The body is no JSON.
    ParseError,
    /// The body is JSON and no request.
    InvalidRequest,
    /// There is no such method, or no such path.
    MethodNotFound,
    /// The request lacks something, or something in it is wrong.
    InvalidParams,
    /// Something here failed.
    InternalError,
    /// There is no such task, or it is another client's.
    TaskNotFound,
    /// The task is settled.
    TaskNotCancelable,
    /// There are no push notifications.
    PushNotificationNotSupported,
    /// Not for this task, or not here.
    UnsupportedOperation,
    /// A part of a kind, or a body of a type, that is not taken.
    ContentTypeNotSupported,
    /// The agent answered what cannot be understood.
    InvalidAgentResponse,
    /// There is no extended card.
    ExtendedAgentCardNotConfigured,
    /// An extension has to be supported.
    ExtensionSupportRequired,
    /// Not in this version.
    VersionNotSupported,
    /// A credential is needed, or this one is not known.
    Unauthenticated,
    /// The credential does not reach so far, or the page's origin is not this server's.
    PermissionDenied,
    /// Too many requests, or too many tasks.
    ResourceExhausted,
    /// The body is too large.
    PayloadTooLarge,
    /// The server is being stopped, or its store does not answer.
    Unavailable,
}

impl ErrorReason {
    /// The code in JSON-RPC.
    pub fn code(self) -> i32 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest | Self::PayloadTooLarge => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::InternalError
            | Self::Unauthenticated
            | Self::PermissionDenied
            | Self::ResourceExhausted
            | Self::Unavailable => -32603,
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::PushNotificationNotSupported => -32003,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported => -32005,
            Self::InvalidAgentResponse => -32006,
            Self::ExtendedAgentCardNotConfigured => -32007,
            Self::ExtensionSupportRequired => -32008,
            Self::VersionNotSupported => -32009,
        }
    }

    /// The word of `ErrorInfo.reason` (1.0 §9.5).
    pub fn word(self) -> &'static str {
        match self {
            Self::ParseError => "PARSE_ERROR",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::InternalError => "INTERNAL_ERROR",
            Self::TaskNotFound => "TASK_NOT_FOUND",
            Self::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Self::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Self::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::InvalidAgentResponse => "INVALID_AGENT_RESPONSE",
            Self::ExtendedAgentCardNotConfigured => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            Self::ExtensionSupportRequired => "EXTENSION_SUPPORT_REQUIRED",
            Self::VersionNotSupported => "VERSION_NOT_SUPPORTED",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::Unavailable => "UNAVAILABLE",
        }
    }

    /// The HTTP status over HTTP+JSON, 1.0 (§11.6), and the name of that status in `google.rpc.Status`.
    pub fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::ParseError
            | Self::InvalidRequest
            | Self::InvalidParams
            | Self::ContentTypeNotSupported
            | Self::VersionNotSupported => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            Self::TaskNotCancelable
            | Self::PushNotificationNotSupported
            | Self::UnsupportedOperation
            | Self::ExtendedAgentCardNotConfigured
            | Self::ExtensionSupportRequired => (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
            Self::TaskNotFound | Self::MethodNotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::InternalError | Self::InvalidAgentResponse => {
                (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
            }
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
            Self::PermissionDenied => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            Self::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
            Self::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "INVALID_ARGUMENT"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        }
    }
}

impl A2aError {
    /// A refusal that says `text`.
    pub fn new(reason: ErrorReason, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            text: text.into(),
            field: None,
            retry_after_s: None,
        }
    }

    /// The same about a place in the request, such as `message.parts`.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// There is no such task for this caller. Says the same of a task that never was and of another client's.
    pub fn task_not_found(id: &str) -> Self {
        // Whoever asks may have written anything there.
        let id: String = id.chars().take(64).collect();
        Self::new(
            ErrorReason::TaskNotFound,
            format!(
                "there is no task `{id}` of yours; it may have been deleted, or kept too long ago"
            ),
        )
    }
}
