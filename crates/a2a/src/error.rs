//! The errors of A2A and their codes in each binding (A2A 1.0 §5.4, §9.5, §11.6; 0.3 §8).

use std::borrow::Cow;

use http::StatusCode;

use self::ErrorReason as R;

/// The error of a refused request. The version and the binding determine its serialization.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct A2aError {
    /// The reason.
    pub reason: ErrorReason,
    /// The cause and what to do. Contains no secret.
    pub text: Cow<'static, str>,
    /// The path of the invalid field in the request, in camelCase names.
    pub field: Option<String>,
    /// The seconds after which a retry may succeed.
    pub retry_after_s: Option<u64>,
}

/// The kinds of errors (A2A 1.0 §5.4, §9.5; 0.3 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorReason {
    /// The body is not JSON.
    ParseError,
    /// The body is JSON but not a request.
    InvalidRequest,
    /// The method or path does not exist.
    MethodNotFound,
    /// A field of the request is missing or invalid.
    InvalidParams,
    /// An internal error.
    InternalError,
    /// The task does not exist, or belongs to another client.
    TaskNotFound,
    /// The task is terminal.
    TaskNotCancelable,
    /// The server has no push notifications.
    PushNotificationNotSupported,
    /// The task or the server does not support the operation.
    UnsupportedOperation,
    /// The kind of a part or the type of the body is not supported.
    ContentTypeNotSupported,
    /// The response of the agent is invalid.
    InvalidAgentResponse,
    /// The server has no extended card.
    ExtendedAgentCardNotConfigured,
    /// The server requires an extension.
    ExtensionSupportRequired,
    /// The version is not supported.
    VersionNotSupported,
    /// The credential is missing or unknown.
    Unauthenticated,
    /// The credential lacks the permission, or the page has a foreign origin.
    PermissionDenied,
    /// The client has sent too many requests, or has too many tasks.
    ResourceExhausted,
    /// The body is too large.
    PayloadTooLarge,
    /// The server is stopping, or its store does not respond.
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
#[rustfmt::skip] // One row a line.
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

    /// Parses `ErrorInfo.reason`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = match name {
            // The official Rust server writes this name.
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

    /// Returns the value of `ErrorInfo.reason`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the HTTP status over HTTP+JSON of 1.0, and its name in `google.rpc.Status`.
    pub fn status(self) -> (StatusCode, &'static str) {
        let row = self.row();
        (row.status, row.status_name)
    }

    /// Returns whether A2A, and not JSON-RPC, defines the error. Such errors have codes from -32001 on.
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
        // The client chose the id.
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
    fn every_error_has_its_row() {
        for row in &ERRORS {
            assert_eq!(row.reason.name(), row.name);
            assert_eq!(ErrorReason::from_name(row.name), Some(row.reason));
        }
    }
}
