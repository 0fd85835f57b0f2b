//! Access tokens by the client credentials grant (RFC 6749 §4.4).
//!
//! The client authenticates with HTTP Basic (`client_secret_basic`), which every authorization server must support
//! (§2.3.1), or in the body (`client_secret_post`), if the operator chose that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::credential::{ClientAuth, OAuth2, Token, TokenError, Trust, sensitive};
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

/// The lifetime of a token whose server names none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// How long before its expiry a token is replaced; at most a fifth of its lifetime. A request takes time to arrive.
const REFRESH_MARGIN: Duration = Duration::from_secs(30);

/// The minimum of this margin: servers count in whole seconds.
const MIN_REFRESH_MARGIN: Duration = Duration::from_secs(1);

/// The maximum lifetime of a token, even if its server declares a longer one.
const MAX_LIFETIME: Duration = Duration::from_hours(24);

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

/// Returns a valid token: the current one, or a new one. One token request runs at a time, and waiting callers share
/// its result, so that a failing server does not receive one request per caller.
///
/// # Errors
/// [`NetFault::TokenUnavailable`] if the server issues no token, [`NetFault::AddressRefused`] if the policy forbids its
/// address.
pub(super) async fn token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Token, NetError> {
    let tokens = &client.tokens;
    if let Some(token) = tokens.current(Instant::now()) {
        return Ok(token);
    }
    let before = tokens.ended.load(Ordering::Acquire);
    let mut failed = tokens.refresh.lock().await;
    // Another call may have fetched a token meanwhile, or failed.
    if let Some(token) = tokens.current(Instant::now()) {
        return Ok(token);
    }
    let waited = tokens.ended.load(Ordering::Acquire) != before;
    if let Some(reason) = failed.as_ref().filter(|_| waited) {
        return Err(unavailable_error(reason));
    }
    let outcome = obtain(net, client, endpoint).await;
    *failed = outcome.as_ref().err().map(|error| TokenError {
        address_refused: error.fault() == NetFault::AddressRefused,
        reason: error.to_string(),
    });
    tokens.ended.fetch_add(1, Ordering::Release);
    outcome
}

fn unavailable_error(failed: &TokenError) -> NetError {
    let fault = if failed.address_refused {
        NetFault::AddressRefused
    } else {
        NetFault::TokenUnavailable
    };
    NetError::new(fault, Sent::No, &failed.reason)
}

/// Requests a new token and stores it.
async fn obtain(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Token, NetError> {
    let requested_at = Instant::now();
    let answer = tokio::time::timeout(TOKEN_TIMEOUT, request_token(net, client, endpoint)).await;
    let issued = answer.unwrap_or_else(|_| {
        let seconds = TOKEN_TIMEOUT.as_secs();
        Err(unavailable(
            client,
            format_args!("no answer within {seconds} seconds"),
        ))
    })?;
    let lifetime = issued
        .lifetime
        .map_or(DEFAULT_LIFETIME, |lifetime| lifetime.min(MAX_LIFETIME));
    let margin = (lifetime / 5).clamp(MIN_REFRESH_MARGIN, REFRESH_MARGIN);
    let token = Token {
        header: sensitive(format!("Bearer {}", issued.secret.expose_secret()))
            .map_err(|_| unavailable(client, "an HTTP header cannot contain its token"))?,
        renew_at: requested_at + lifetime.saturating_sub(margin),
    };
    client.tokens.keep(token.clone(), issued.secret);
    Ok(token)
}

/// A token as the server issued it.
struct IssuedToken {
    secret: SecretString,
    lifetime: Option<Duration>,
}

async fn request_token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<IssuedToken, NetError> {
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
fn read(client: &OAuth2, response: &Response, body: &[u8]) -> Result<IssuedToken, NetError> {
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
    // Servers write many words for a bearer token, and the words of other kinds are these.
    if let Some(kind) = answer.token_type.as_deref().map(str::trim)
        && ["dpop", "mac"]
            .iter()
            .any(|other| kind.eq_ignore_ascii_case(other))
    {
        let message =
            format!("it issues tokens of the type `{kind}`; only bearer tokens are supported");
        return Err(unavailable(client, message));
    }
    if token.is_empty() {
        return Err(unavailable(client, "its token is empty"));
    }
    // Some servers write the number as a string.
    let seconds = answer
        .expires_in
        .and_then(|n| n.as_f64().or_else(|| n.as_str()?.trim().parse().ok()));
    Ok(IssuedToken {
        secret: token.into(),
        lifetime: seconds.map(|n| {
            Duration::try_from_secs_f64(n.max(0.0))
                .unwrap_or(MAX_LIFETIME)
                .min(MAX_LIFETIME)
        }),
    })
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
