//! Error responses of both bindings and both versions.

use a2a::http::JSON;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::envelope::Id;
use super::route::{Path, Route};
use a2a::Version;
use a2a::{A2aError, ErrorReason};

/// The domain in `ErrorInfo` (A2A 1.0 §9.5).
const DOMAIN: &str = "a2a-protocol.org";

/// An error, with an HTTP status that replaces the default status of the error if it is set.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: A2aError,
    pub(crate) status: Option<StatusCode>,
}

impl From<A2aError> for Failure {
    fn from(error: A2aError) -> Self {
        Self {
            error,
            status: None,
        }
    }
}

impl Failure {
    /// Creates a failure with its own HTTP status for both bindings.
    pub(crate) fn with(error: A2aError, status: StatusCode) -> Self {
        Self {
            error,
            status: Some(status),
        }
    }
}

/// An error outside of both bindings. Its response has the format of HTTP+JSON of 1.0.
#[derive(Debug)]
pub struct PlainError(A2aError);

impl From<A2aError> for PlainError {
    fn from(error: A2aError) -> Self {
        Self(error)
    }
}

impl IntoResponse for PlainError {
    fn into_response(self) -> Response {
        rest(Version::V1_0, &Failure::from(self.0))
    }
}

/// Returns the response for a request whose body the server has not read, in the format of the binding at its path and
/// with the HTTP status of the error.
pub fn respond_at(method: &Method, path: &str, error: &A2aError) -> Response {
    let failure = Failure::with(error.clone(), error.reason.status().0);
    match Path::parse(path).route {
        Route::Rpc if *method == Method::POST => rpc(&Id::null(), &failure),
        Route::Rest { version, .. } | Route::Unknown(version) => rest(version, &failure),
        Route::Rpc | Route::Card | Route::Catalog | Route::Keys => rest(Version::V1_0, &failure),
    }
}

/// Returns the response over HTTP+JSON: `google.rpc.Status` in 1.0 (A2A 1.0 §11.6), code and message in 0.3.
pub(crate) fn rest(version: Version, failure: &Failure) -> Response {
    let status = failure.status.unwrap_or_else(|| match version {
        Version::V1_0 => failure.error.reason.status().0,
        Version::V0_3 => status_0_3(failure.error.reason),
    });
    let body = rest_body(version, &failure.error, status);
    json_error_response(status, &failure.error, body)
}

/// Returns the `data` of the last event of a failed stream.
pub(crate) fn rest_event(version: Version, error: &A2aError) -> Value {
    rest_body(version, error, error.reason.status().0)
}

fn rest_body(version: Version, error: &A2aError, status: StatusCode) -> Value {
    match version {
        Version::V1_0 => {
            let name = match status {
                StatusCode::METHOD_NOT_ALLOWED => "UNIMPLEMENTED",
                _ => error.reason.status().1,
            };
            json!({"error": {
                "code": status.as_u16(),
                "status": name,
                "message": error.text,
                "details": details(error),
            }})
        }
        Version::V0_3 => {
            let mut body = rpc_error(error);
            // The official Python client in its 0.3 mode reads this field. Other clients read the code.
            body["type"] = type_0_3(error.reason).into();
            body
        }
    }
}

/// Returns the response over JSON-RPC. The HTTP status is 200, except for errors that have a status of HTTP.
pub(crate) fn rpc(id: &Id, failure: &Failure) -> Response {
    let reason = failure.error.reason;
    let status = failure.status.unwrap_or(match reason {
        ErrorReason::Unauthenticated
        | ErrorReason::PermissionDenied
        | ErrorReason::ResourceExhausted
        | ErrorReason::PayloadTooLarge
        | ErrorReason::Unavailable => reason.status().0,
        _ => StatusCode::OK,
    });
    json_error_response(status, &failure.error, rpc_body(id, &failure.error))
}

/// Returns the body over JSON-RPC. Both versions have the same format, because 0.3 allows any `data`.
pub(crate) fn rpc_body<'a>(id: &'a Id, error: &A2aError) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        error: Value,
    }
    Body {
        jsonrpc: "2.0",
        id,
        error: rpc_error(error),
    }
}

fn rpc_error(error: &A2aError) -> Value {
    json!({
        "code": error.reason.code(),
        "message": error.text,
        "data": details(error),
    })
}

fn details(error: &A2aError) -> Vec<Value> {
    let mut details = vec![json!({
        "@type": a2a::v1_0::errordetails::ERROR_INFO_TYPE,
        "reason": error.reason.name(),
        "domain": DOMAIN,
        "metadata": {},
    })];
    if let Some(field) = &error.field {
        details.push(json!({
            "@type": a2a::v1_0::errordetails::BAD_REQUEST_TYPE,
            "fieldViolations": [{"field": field, "description": error.text}],
        }));
    }
    if let Some(seconds) = error.retry_after_s {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        }));
    }
    details
}

/// Returns the HTTP status over HTTP+JSON of 0.3. The specification names none, so it is that of the reference server.
fn status_0_3(reason: ErrorReason) -> StatusCode {
    match reason {
        ErrorReason::TaskNotCancelable => StatusCode::CONFLICT,
        ErrorReason::InvalidParams => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorReason::PushNotificationNotSupported | ErrorReason::UnsupportedOperation => {
            StatusCode::NOT_IMPLEMENTED
        }
        ErrorReason::ContentTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorReason::InvalidAgentResponse => StatusCode::BAD_GATEWAY,
        ErrorReason::ExtendedAgentCardNotConfigured => StatusCode::NOT_FOUND,
        reason => reason.status().0,
    }
}

/// Returns the name that the official Python client has for an error.
fn type_0_3(reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::ParseError => "JSONParseError",
        ErrorReason::InvalidRequest | ErrorReason::PayloadTooLarge => "InvalidRequestError",
        ErrorReason::MethodNotFound => "MethodNotFoundError",
        ErrorReason::InvalidParams => "InvalidParamsError",
        ErrorReason::TaskNotFound => "TaskNotFoundError",
        ErrorReason::TaskNotCancelable => "TaskNotCancelableError",
        ErrorReason::PushNotificationNotSupported => "PushNotificationNotSupportedError",
        ErrorReason::UnsupportedOperation => "UnsupportedOperationError",
        ErrorReason::ContentTypeNotSupported => "ContentTypeNotSupportedError",
        ErrorReason::InvalidAgentResponse => "InvalidAgentResponseError",
        ErrorReason::ExtendedAgentCardNotConfigured => "ExtendedAgentCardNotConfiguredError",
        ErrorReason::ExtensionSupportRequired => "ExtensionSupportRequiredError",
        ErrorReason::VersionNotSupported => "VersionNotSupportedError",
        ErrorReason::InternalError
        | ErrorReason::Unauthenticated
        | ErrorReason::PermissionDenied
        | ErrorReason::ResourceExhausted
        | ErrorReason::Unavailable => "InternalError",
    }
}

/// Returns a response with a JSON body, and the headers that the error requires.
pub fn json_error_response(status: StatusCode, error: &A2aError, body: impl Serialize) -> Response {
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    // For the log.
    response.extensions_mut().insert(error.reason);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if error.reason == ErrorReason::Unauthenticated {
        headers.insert(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"a2a\""),
        );
    }
    if let Some(seconds) = error.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
