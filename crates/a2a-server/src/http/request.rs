//! Reads the parts of a request that both bindings have: its principal, agent, protocol version (A2A 1.0 §3.6) and
//! body. Compares entity tags (RFC 9110 §8.8.3, §13.1.2).

use std::borrow::Cow;
use std::error::Error as _;

use a2a::http::VERSION_HEADER;
use a2a::{A2aError, ErrorReason};
use axum::body::Body;
use base::json::{self, JsonErrorKind, Limits};
use base::text::first_chars;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::request::Parts;
use http::{StatusCode, header};
use http_body_util::LengthLimitError;
use http_server::content;
use ring::digest::{SHA256, digest};

use super::App;
use super::access_control::{Principal, RequestContext};
use super::error::Failure;
use a2a::Version;

/// Returns the principal of a request.
///
/// # Errors
/// The request needs a token and has none, or an unknown one.
pub(crate) fn principal(parts: &Parts) -> Result<&Principal, A2aError> {
    match &RequestContext::get(&parts.extensions)?.principal {
        Ok(principal) => Ok(principal),
        Err(error) => Err(error.clone()),
    }
}

/// Returns the URL of this server in the client's view, without a slash at the end: the configured URL, or else the
/// origin of the request.
pub(crate) fn base_url(app: &App, parts: &Parts) -> Result<String, A2aError> {
    match &app.card.public_url {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => Ok(RequestContext::get(&parts.extensions)?.origin.clone()),
    }
}

/// Returns the agent in the path or the tenant of a request.
///
/// # Errors
/// The agent does not exist, or the executor cannot list agents.
pub(crate) async fn agent(
    app: &App,
    path: Option<String>,
    tenant: Option<String>,
) -> Result<Option<String>, Failure> {
    let tenant = tenant.filter(|tenant| !tenant.is_empty());
    if path.is_none() && tenant.is_none() {
        return Ok(None);
    }
    let agents = app.service.agents().await?;
    let known = |name: &str| agents.iter().any(|agent| agent.name == name);
    if let Some(name) = path.as_deref().filter(|name| !known(name)) {
        let error = A2aError::new(
            ErrorReason::MethodNotFound,
            format!("unknown agent `{}`", first_chars(name, 64)),
        );
        return Err(Failure::with(error, StatusCode::NOT_FOUND));
    }
    match (path, tenant) {
        (Some(path), Some(tenant)) if path != tenant => {
            Err(invalid_tenant("is not the agent that the path names").into())
        }
        (None, Some(tenant)) if !known(&tenant) => {
            Err(invalid_tenant("names no agent of this server; omit it, or name one").into())
        }
        (path, tenant) => Ok(path.or(tenant)),
    }
}

fn invalid_tenant(problem: &str) -> A2aError {
    a2a::parse_request::invalid_params("tenant", problem)
}

/// Returns the version in the header `A2A-Version`, or else in the query parameter of the same name, or else 0.3.
/// Ignores a patch number, and reads `1` as 1.0.
///
/// # Errors
/// The server does not support the version.
pub(crate) fn requested_version(parts: &Parts) -> Result<Version, A2aError> {
    let header = match parts.headers.get(VERSION_HEADER) {
        Some(value) => Some(
            value
                .to_str()
                .map_err(|_| unsupported_version("a value that is not text"))?,
        ),
        None => None,
    };
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let queried = pairs
        .find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER.as_str()))
        .map(|(_, value)| value);
    let text = header
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .or(queried.as_deref().map(str::trim))
        .unwrap_or_default();
    parse_version(text).ok_or_else(|| {
        // Limit the text of the header that the error repeats.
        let text: String = text.chars().take(32).collect();
        unsupported_version(&format!("`{text}`"))
    })
}

/// Parses `MAJOR`, `MAJOR.MINOR` or `MAJOR.MINOR.PATCH`, with or without a leading `v`. An empty text is 0.3.
fn parse_version(text: &str) -> Option<Version> {
    if text.is_empty() {
        return Some(Version::V0_3);
    }
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let mut numbers = text.splitn(3, '.');
    match (numbers.next()?, numbers.next()) {
        ("0", Some("3")) => Some(Version::V0_3),
        ("1", Some("0") | None) => Some(Version::V1_0),
        _ => None,
    }
}

fn unsupported_version(version: &str) -> A2aError {
    A2aError::new(
        ErrorReason::VersionNotSupported,
        format!("unsupported A2A-Version: {version}; this server supports `1.0` and `0.3`"),
    )
}

/// Returns the error of a request whose explicit or implied version is not `needed`.
pub(crate) fn version_mismatch(what: &str, needed: Version) -> A2aError {
    let text = match needed {
        Version::V1_0 => format!(
            "{what} belongs to A2A 1.0, but a request without the header `A2A-Version: 1.0` is one of 0.3; send the header"
        ),
        Version::V0_3 => format!(
            "{what} belongs to A2A 0.3, but the header A2A-Version says 1.0; use the form of 1.0, or omit the header"
        ),
    };
    A2aError::new(ErrorReason::VersionNotSupported, text)
}

/// What a body may contain. Stored messages and events add levels to it, and clients have limits too: ProtoJSON commonly
/// 100, other parsers 128. A parsed small value takes up to 320 times the memory of its text.
pub(crate) const JSON_LIMITS: Limits = Limits {
    depth: 64,
    values: 200_000,
    memory: usize::MAX,
};

/// Reads a JSON body: a text that a parser can read.
///
/// # Errors
/// The media type is not JSON, the body exceeds a limit, or it ended early.
pub(crate) async fn read_body(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
    if !content::is_json(&parts.headers) {
        return Err(unsupported_media_type(
            "unsupported Content-Type; send `application/json` or `application/a2a+json`",
        ));
    }
    let bytes = read_any_body(app, parts, body).await?;
    Ok(json_text(bytes)?)
}

/// Reads the body of a request that may be empty. The official clients then omit `Content-Type`. A request with
/// `Origin` may come from a web page, so it must have an accepted media type.
///
/// # Errors
/// The same errors as [`read_body`].
pub(crate) async fn read_optional_body(
    app: &App,
    parts: &Parts,
    body: Body,
) -> Result<Bytes, Failure> {
    let headers = &parts.headers;
    if headers.contains_key(header::CONTENT_TYPE) || headers.contains_key(header::ORIGIN) {
        return read_body(app, parts, body).await;
    }
    let bytes = read_any_body(app, parts, body).await?;
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
pub(crate) async fn read_any_body(app: &App, parts: &Parts, body: Body) -> Result<Bytes, Failure> {
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

/// Computes the strong entity tag of a representation.
pub(crate) fn entity_tag(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest.as_ref()))
}

/// Returns whether an `If-None-Match` header matches `tag`.
pub(crate) fn matches_entity_tag<'a>(
    if_none_match: impl Iterator<Item = &'a str>,
    tag: &str,
) -> bool {
    if_none_match
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
