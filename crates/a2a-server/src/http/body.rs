//! Reads the bodies of requests.

use std::borrow::Cow;
use std::error::Error as _;

use axum::body::Body;
use base::json::{self, JsonErrorKind, Limits};
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use http_body_util::LengthLimitError;
use http_server::content;

use super::App;
use super::error::Failure;
use a2a::{A2aError, ErrorReason};

/// What a body may contain. Stored messages and events add levels to it, and clients have limits too: ProtoJSON commonly
/// 100, other parsers 128. A parsed small value takes up to a hundred times the memory of its text.
pub(crate) const JSON_LIMITS: Limits = Limits {
    depth: 64,
    values: 200_000,
    memory: usize::MAX,
};

/// Reads a JSON body: a text that a parser can read.
///
/// # Errors
/// The media type is not JSON, the body exceeds a limit, or it ended early.
pub(crate) async fn read(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
    if !content::is_json(&parts.headers) {
        return Err(unsupported_media_type(
            "unsupported Content-Type; send `application/json` or `application/a2a+json`",
        ));
    }
    let bytes = read_any(app, parts, body).await?;
    Ok(json_text(bytes)?)
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
    let bytes = read_any(app, parts, body).await?;
    if bytes.is_empty() {
        Ok(bytes)
    } else {
        Err(unsupported_media_type(
            "unsupported Content-Type; send `application/json` or `application/a2a+json`",
        ))
    }
}

fn unsupported_media_type(text: impl Into<Cow<'static, str>>) -> Failure {
    let error = A2aError::new(ErrorReason::ContentTypeNotSupported, text);
    Failure::with(error, StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Checks the limits, and returns the text without a byte order mark and unpaired surrogates.
fn json_text(bytes: Bytes) -> Result<Bytes, A2aError> {
    json::check(&bytes, JSON_LIMITS).map_err(|error| {
        let reason = match error.kind {
            JsonErrorKind::TooDeep => ErrorReason::InvalidRequest,
            _ => ErrorReason::PayloadTooLarge,
        };
        A2aError::new(
            reason,
            format!("cannot read the body: {error}; send it as a file"),
        )
    })?;
    let text = json::text(&bytes).map_err(|error| {
        A2aError::new(
            ErrorReason::ParseError,
            format!("the body is not JSON: {error}"),
        )
    })?;
    Ok(match text {
        Cow::Borrowed(text) => bytes.slice_ref(text.as_bytes()),
        Cow::Owned(text) => text.into(),
    })
}

/// Reads a body of any media type.
///
/// # Errors
/// The body is compressed, exceeds a limit, or ended early.
pub(crate) async fn read_any(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
    content::check_coding(&parts.headers).map_err(unsupported_media_type)?;
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
