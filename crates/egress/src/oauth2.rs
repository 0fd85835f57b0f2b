//! Access tokens by the client credentials grant (RFC 6749 §4.4).
//!
//! The client authenticates with HTTP Basic (`client_secret_basic`), which every authorization server must support
//! (§2.3.1), and never in the body.

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

use crate::credential::{OAuth2, Token, TokenError, Trust, sensitive};
use common::redact::Secrets;

use super::error::place;
use super::{HttpClient, NetError, NetFault, Request, Response, Sent, address_policy, body};

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
    let mut response = net.exchange(request).await.map_err(to_error)?;
    let body = body::read_response(&mut response, ANSWER_BYTES)
        .await
        .map_err(to_error)?;
    read(client, &response, &body)
}

fn request(client: &OAuth2, endpoint: &TokenEndpoint) -> Result<Request, NetError> {
    let access = address_policy::for_url(&client.token_url, endpoint.allow_private, true)?;
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !client.scopes.is_empty() {
        form.append_pair("scope", &client.scopes.join(" "));
    }
    let mut headers = HeaderMap::new();
    headers.insert(
        AUTHORIZATION,
        sensitive(format!("Basic {}", client.basic().expose_secret()))?,
    );
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

/// Reads a token (RFC 6749 §5.1) or an error (§5.2).
fn read(client: &OAuth2, response: &Response, body: &[u8]) -> Result<IssuedToken, NetError> {
    #[derive(Deserialize)]
    struct TokenResponse {
        access_token: String,
        token_type: Option<String>,
        expires_in: Option<Value>,
    }
    if response.status != StatusCode::OK {
        return Err(refused(client, response.status, body));
    }
    // The parser's error could contain the token.
    let answer: TokenResponse = serde_json::from_slice(body)
        .map_err(|_| unavailable(client, "its answer is not a token response"))?;
    let kind = answer.token_type.as_deref().unwrap_or("Bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        let message = format!(
            "it issues tokens of the type `{}`; only bearer tokens are supported",
            redacted(client, kind)
        );
        return Err(unavailable(client, message));
    }
    if answer.access_token.is_empty() {
        return Err(unavailable(client, "its token is empty"));
    }
    // Some servers write the number as a string.
    let seconds = answer
        .expires_in
        .and_then(|n| n.as_f64().or_else(|| n.as_str()?.trim().parse().ok()));
    Ok(IssuedToken {
        secret: answer.access_token.into(),
        lifetime: seconds.map(|n| {
            Duration::try_from_secs_f64(n.max(0.0))
                .unwrap_or(MAX_LIFETIME)
                .min(MAX_LIFETIME)
        }),
    })
}

fn refused(client: &OAuth2, status: StatusCode, body: &[u8]) -> NetError {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: String,
        error_description: Option<String>,
    }
    if status.is_redirection() {
        return unavailable(
            client,
            format_args!("it answered {status}, and redirects are not followed"),
        );
    }
    let reason = match serde_json::from_slice::<ErrorResponse>(body) {
        Ok(response) => {
            let more = response
                .error_description
                .map(|text| format!(" ({})", redacted(client, &text)))
                .unwrap_or_default();
            format!(": {}{more}", redacted(client, &response.error))
        }
        Err(_) => String::new(),
    };
    unavailable(client, format_args!("it answered {status}{reason}"))
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
    let clean = secrets.redact(text);
    clean.chars().take(MAX_QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests;
