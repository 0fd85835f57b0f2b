//! Access tokens by the client credentials grant (RFC 6749 §4.4).
//!
//! The client authenticates with HTTP Basic (`client_secret_basic`), which every authorization server must support
//! (§2.3.1), or in the body (`client_secret_post`), if the operator chose that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::Value;

use crate::credential::{ClientAuth, Issued, OAuth2, Trust, other_token_type, seconds, sensitive};
use base::json::{self, Limits};
use base::redact::Secrets;
use base::text::first_chars;

use super::error::place;
use super::{
    AddressPolicy, HttpClient, NetError, NetFault, Request, Response, Sent, body, redirect,
    status_text,
};

/// The timeout of a token request: other calls may wait for the same token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum size of a token response, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;

/// The maximum length of the server's text in an error, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// The token endpoint, which the operator configured.
#[derive(Clone, Debug)]
pub struct TokenEndpoint {
    /// Whether its address may be other than public.
    pub allow_private: bool,
    /// The TLS trust.
    pub trust: Option<Arc<Trust>>,
}

/// Requests a new token.
///
/// # Errors
/// [`NetFault::TokenUnavailable`] if the server issues no token, [`NetFault::AddressRefused`] if the policy forbids its
/// address.
pub(super) async fn obtain(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Issued, NetError> {
    let answer = tokio::time::timeout(TOKEN_TIMEOUT, request_token(net, client, endpoint)).await;
    answer.unwrap_or_else(|_| {
        let seconds = TOKEN_TIMEOUT.as_secs();
        Err(unavailable(
            client,
            format_args!("no answer within {seconds} seconds"),
        ))
    })
}

async fn request_token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Issued, NetError> {
    let request = request(client, endpoint)?;
    let to_error = |error: NetError| match error.fault() {
        NetFault::AddressRefused => NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("the token endpoint {error}"),
        ),
        _ => unavailable(client, error),
    };
    let followed = redirect::follow(net, request).await;
    let mut response = followed.map_err(to_error)?.response;
    let body = body::read_response(&mut response, ANSWER_BYTES)
        .await
        .map_err(to_error)?;
    read(client, &response, &body)
}

fn request(client: &OAuth2, endpoint: &TokenEndpoint) -> Result<Request, NetError> {
    let access = AddressPolicy::for_url(&client.token_url, endpoint.allow_private, true)?;
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !client.scopes.is_empty() {
        form.append_pair("scope", &client.scopes.join(" "));
    }
    if let Some(audience) = &client.audience {
        form.append_pair("audience", audience);
    }
    let mut headers = HeaderMap::new();
    match client.client_auth {
        ClientAuth::Basic => {
            let pair = client.basic();
            let value = sensitive(format!("Basic {}", pair.expose_secret()))?;
            headers.insert(AUTHORIZATION, value);
        }
        ClientAuth::Post => {
            form.append_pair("client_id", &client.client_id);
            form.append_pair("client_secret", client.client_secret.expose_secret());
        }
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, kind);
    Ok(Request {
        method: Method::POST,
        url: client.token_url.clone(),
        headers,
        body: Some(Bytes::from(form.finish())),
        access,
        trust: endpoint.trust.clone(),
        repeatable: false,
        authorization: None,
    })
}

/// Reads a token (RFC 6749 §5.1) or an error (§5.2), which some servers send with a status of success.
fn read(client: &OAuth2, response: &Response, body: &[u8]) -> Result<Issued, NetError> {
    #[derive(Deserialize)]
    struct TokenResponse {
        access_token: Option<String>,
        token_type: Option<String>,
        expires_in: Option<Value>,
    }
    let status = response.status;
    if !status.is_success() {
        return Err(refused(client, status, body));
    }
    let answer: TokenResponse = json::from_slice(body, Limits::NONE).map_err(|error| {
        unavailable(
            client,
            format!("its answer is not a token response: {error}"),
        )
    })?;
    let Some(token) = answer.access_token else {
        return Err(match error_response(client, body) {
            Some(reason) => unavailable(client, format_args!("it answered {reason}")),
            None => unavailable(client, "its answer has no `access_token`"),
        });
    };
    if let Some(kind) = answer.token_type.as_deref().and_then(other_token_type) {
        let message =
            format!("it issues tokens of the type `{kind}`; only bearer tokens are supported");
        return Err(unavailable(client, message));
    }
    if token.is_empty() {
        return Err(unavailable(client, "its token is empty"));
    }
    Issued::bearer(token.into(), answer.expires_in.as_ref().and_then(seconds))
        .map_err(|_| unavailable(client, "an HTTP header cannot contain its token"))
}

fn refused(client: &OAuth2, status: StatusCode, body: &[u8]) -> NetError {
    let status_text = status_text(status);
    if status.is_redirection() {
        let message = format!(
            "it answered {status_text}, and this redirect is not followed; set `tokenUrl` to the address that it leads to"
        );
        return unavailable(client, message);
    }
    let reason = match error_response(client, body) {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    };
    unavailable(client, format_args!("it answered {status_text}{reason}"))
}

/// Reads an error (RFC 6749 §5.2), if the body is one.
fn error_response(client: &OAuth2, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: Value,
        error_description: Option<Value>,
    }
    let response: ErrorResponse = json::from_slice(body, Limits::NONE).ok()?;
    let text = |value: &Value| {
        let text = value
            .as_str()
            .or_else(|| value.get("message")?.as_str())
            .or_else(|| value.get("code")?.as_str())?;
        Some(redacted(client, text)).filter(|text| !text.trim().is_empty())
    };
    let error = text(&response.error);
    let description = response.error_description.as_ref().and_then(text);
    match (error, description) {
        (Some(error), Some(description)) => Some(format!("{error} ({description})")),
        (error, description) => error.or(description),
    }
}

fn unavailable(client: &OAuth2, reason: impl std::fmt::Display) -> NetError {
    NetError::new(
        NetFault::TokenUnavailable,
        Sent::No,
        format!(
            "the authorization server `{}` issued no access token: {reason}",
            place(&client.token_url)
        ),
    )
}

/// Returns an excerpt of the server's text, without the secrets of the request.
fn redacted(client: &OAuth2, text: &str) -> String {
    let secrets = Secrets::in_all_forms(client.secrets());
    first_chars(&secrets.redact(text), MAX_QUOTED_CHARS).to_owned()
}

#[cfg(test)]
mod tests;
