//! Reads the bodies of requests.

use a2a::http::{A2A_JSON, JSON};
use std::error::Error as _;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use http_body_util::LengthLimitError;

use super::error::Failure;
use super::{App, json_limits};
use a2a::{A2aError, ErrorReason};

/// The accepted media types. Web pages cannot send them to another origin without a preflight request.
const ACCEPTED_TYPES: [&str; 2] = [JSON, A2A_JSON];

/// Reads a JSON body.
///
/// # Errors
/// The media type is not JSON, the body exceeds a limit, or it ended early.
pub(crate) async fn read(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
    if !is_json(parts) {
        return Err(unsupported_media_type());
    }
    let bytes = read_any(app, body).await?;
    json_limits::check(&bytes)?;
    Ok(bytes)
}

/// Reads the body of a request that may be empty. The official clients then omit `Content-Type`. A request with
/// `Origin` may come from a web page, so it must have an accepted media type.
///
/// # Errors
/// The same errors as [`read`].
pub(crate) async fn read_optional(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
    let headers = &parts.headers;
    if headers.contains_key(header::CONTENT_TYPE) || headers.contains_key(header::ORIGIN) {
        return read(app, parts, body).await;
    }
    let bytes = read_any(app, body).await?;
    if bytes.is_empty() {
        Ok(bytes)
    } else {
        Err(unsupported_media_type())
    }
}

fn is_json(parts: &Parts) -> bool {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    ACCEPTED_TYPES
        .iter()
        .any(|accepted| essence.eq_ignore_ascii_case(accepted))
}

fn unsupported_media_type() -> Failure {
    let error = A2aError::new(
        ErrorReason::ContentTypeNotSupported,
        "unsupported Content-Type; send `application/json` or `application/a2a+json`",
    );
    Failure::with(error, StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Reads a body of any media type.
///
/// # Errors
/// The body exceeds a limit, or it ended early.
pub(crate) async fn read_any(app: &App, body: Body) -> Result<Bytes, Failure> {
    let read = axum::body::to_bytes(body, app.body_limit).await;
    read.map_err(|error| {
        let too_large = error
            .source()
            .is_some_and(|source| source.is::<LengthLimitError>());
        let error = if too_large {
            A2aError::new(
                ErrorReason::PayloadTooLarge,
                format!(
                    "the body exceeds {} bytes; send less, or the URLs of files",
                    app.body_limit
                ),
            )
        } else {
            A2aError::new(
                ErrorReason::InvalidRequest,
                "the body ended early; send it again",
            )
        };
        error.into()
    })
}
