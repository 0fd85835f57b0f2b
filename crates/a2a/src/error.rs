//! The errors of A2A, and how each binding writes them (A2A 1.0 §5.4, §9.5, §11.6; 0.3 §8).

use std::borrow::Cow;

use http::StatusCode;

use self::ErrorReason as R;

/// Why a request is refused. How it is written is up to the version and the binding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct A2aError {
    /// The reason.
    pub reason: ErrorReason,
    /// The cause and what to do. Contains no secret.
    pub text: Cow<'static, str>,
    /// The place in the request it is about, as a path of camelCase names, where it is about one.
    pub field: Option<String>,
    /// After how many seconds to ask again, where that helps.
    pub retry_after_s: Option<u64>,
}

/// The kinds of errors (A2A 1.0 §5.4, §9.5; 0.3 §8).
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
    /// An internal error.
    InternalError,
    /// There is no such task, or it is another client's.
    TaskNotFound,
    /// The task is terminal.
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

/// The codes of an error in the bindings.
struct Row {
    reason: ErrorReason,
    /// `ErrorInfo.reason` (1.0 §9.5).
    name: &'static str,
    /// The code in JSON-RPC.
    code: i32,
    /// The HTTP status over HTTP+JSON of 1.0 (§11.6).
    status: StatusCode,
    /// The name of that status in `google.rpc.Status`.
    status_name: &'static str,
}

const fn row(
    reason: ErrorReason,
    name: &'static str,
    code: i32,
    status: StatusCode,
    status_name: &'static str,
) -> Row {
    Row {
        reason,
        name,
        code,
        status,
        status_name,
    }
}

/// Every error, in the order of [`ErrorReason`].
#[rustfmt::skip]
const ERRORS: [Row; 19] = [
    row(R::ParseError, "PARSE_ERROR", -32700, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    row(R::InvalidRequest, "INVALID_REQUEST", -32600, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    row(R::MethodNotFound, "METHOD_NOT_FOUND", -32601, StatusCode::NOT_FOUND, "NOT_FOUND"),
    row(R::InvalidParams, "INVALID_PARAMS", -32602, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    row(R::InternalError, "INTERNAL_ERROR", -32603, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
    row(R::TaskNotFound, "TASK_NOT_FOUND", -32001, StatusCode::NOT_FOUND, "NOT_FOUND"),
    row(R::TaskNotCancelable, "TASK_NOT_CANCELABLE", -32002, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
    row(R::PushNotificationNotSupported, "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
    row(R::UnsupportedOperation, "UNSUPPORTED_OPERATION", -32004, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
    row(R::ContentTypeNotSupported, "CONTENT_TYPE_NOT_SUPPORTED", -32005, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    row(R::InvalidAgentResponse, "INVALID_AGENT_RESPONSE", -32006, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
    row(R::ExtendedAgentCardNotConfigured, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
    row(R::ExtensionSupportRequired, "EXTENSION_SUPPORT_REQUIRED", -32008, StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
    row(R::VersionNotSupported, "VERSION_NOT_SUPPORTED", -32009, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
    row(R::Unauthenticated, "UNAUTHENTICATED", -32603, StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
    row(R::PermissionDenied, "PERMISSION_DENIED", -32603, StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
    row(R::ResourceExhausted, "RESOURCE_EXHAUSTED", -32603, StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
    row(R::PayloadTooLarge, "PAYLOAD_TOO_LARGE", -32600, StatusCode::PAYLOAD_TOO_LARGE, "INVALID_ARGUMENT"),
    row(R::Unavailable, "UNAVAILABLE", -32603, StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
];

impl ErrorReason {
    fn row(self) -> &'static Row {
        &ERRORS[self as usize]
    }

    /// Returns the error that a word of `ErrorInfo.reason` names.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            // As the official Rust server writes it.
            "UNSUPPORTED_CONTENT_TYPE" => "CONTENT_TYPE_NOT_SUPPORTED",
            name => name,
        };
        ERRORS
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.reason)
    }

    /// Returns the code in JSON-RPC.
    pub fn code(self) -> i32 {
        self.row().code
    }

    /// Returns the word of `ErrorInfo.reason`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the HTTP status over HTTP+JSON of 1.0, and its name in `google.rpc.Status`.
    pub fn status(self) -> (StatusCode, &'static str) {
        let row = self.row();
        (row.status, row.status_name)
    }

    /// Returns whether the error is one of A2A's own, which have codes from -32001 on.
    pub fn is_of_a2a(self) -> bool {
        (-32099..=-32001).contains(&self.code())
    }
}

impl A2aError {
    /// Creates an error with the message `text`.
    pub fn new(reason: ErrorReason, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            text: text.into(),
            field: None,
            retry_after_s: None,
        }
    }

    /// Adds the place in the request, such as `message.parts`.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Returns the error for an unknown task. It is equal for a missing task and a task of another client.
    pub fn task_not_found(id: &str) -> Self {
        // The client chose this text.
        let id: String = id.chars().take(64).collect();
        Self::new(
            ErrorReason::TaskNotFound,
            format!("unknown task `{id}`; it may have been deleted or have expired"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_stands_in_its_own_row() {
        for row in &ERRORS {
            assert_eq!(row.reason.name(), row.name);
            assert_eq!(ErrorReason::from_name(row.name), Some(row.reason));
        }
    }
}
