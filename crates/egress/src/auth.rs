//! Adds credentials to requests.
//!
//! If a peer refuses an issued credential with 401 (an OAuth 2 access token, or what a program printed) or, for keys of AWS,
//! with 403, the request is sent once more with a new one: a peer that does not accept its caller has not acted. No other request is repeated here.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::ExposeSecret as _;

use crate::credential::{
    AwsKeySource, AwsKeys, Credential, CredentialPlace, Token, Tokens, basic, sensitive,
};

use super::oauth2;
use super::{HttpClient, NetError, Request, Response};

pub use super::oauth2::discovery::{check_endpoints, metadata_places};
pub use super::oauth2::{REFRESH_TIMEOUT, TokenEndpoint, end_refreshes, needs_sign_in};

/// A credential for one request. The caller attaches it only to requests to the credential's origins.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// The credential.
    pub credential: Arc<Credential>,
    /// The allowed addresses of the authorization server.
    pub endpoint: TokenEndpoint,
}

/// Sends `request` over `net` with the credential of `authorization`.
///
/// # Errors
/// Those of `net`, or the credential is unusable.
pub async fn exchange(
    net: &dyn HttpClient,
    authorization: Authorization,
    mut request: Request,
) -> Result<Response, NetError> {
    let Authorization {
        credential,
        endpoint,
    } = authorization;
    match &*credential {
        Credential::OAuth2(client) => {
            let get = || oauth2::get(net, client, &endpoint);
            exchange_issued(net, &client.tokens, get, add_bearer, is_401, request).await
        }
        Credential::Command(command) => {
            let get = || command.get(|command| async move { command.fetch_bearer().await });
            exchange_issued(net, &command.tokens, get, add_bearer, is_401, request).await
        }
        Credential::AwsSigV4(aws) => {
            let sign = |request: &mut Request, keys: &AwsKeys| aws.sign(keys, request);
            match &aws.keys {
                AwsKeySource::Settings(keys) => {
                    sign(&mut request, keys)?;
                    net.exchange(request).await
                }
                AwsKeySource::Command(command) => {
                    let get = || command.get(|command| async move { command.fetch_keys().await });
                    // Services of AWS answer 403 to expired keys.
                    let is_refusal = |status| is_401(status) || status == StatusCode::FORBIDDEN;
                    exchange_issued(net, &command.tokens, get, sign, is_refusal, request).await
                }
            }
        }
        other => {
            apply(other, &mut request)?;
            net.exchange(request).await
        }
    }
}

/// Sends `request` with the credential that `get` gets from `tokens` and `add` adds, and after a refusal once more with a
/// new one.
async fn exchange_issued<T, F>(
    net: &dyn HttpClient,
    tokens: &Tokens<T>,
    get: impl Fn() -> F,
    add: impl Fn(&mut Request, &T) -> Result<(), NetError>,
    is_refusal: impl Fn(StatusCode) -> bool,
    request: Request,
) -> Result<Response, NetError>
where
    T: Clone + PartialEq,
    F: Future<Output = Result<Token<T>, NetError>>,
{
    let token = get().await?;
    let mut first = request.clone();
    add(&mut first, &token.value)?;
    let response = net.exchange(first).await?;
    if !is_refusal(response.status) {
        return Ok(response);
    }
    tokens.discard(&token);
    let fresh = get().await?;
    if fresh.value == token.value {
        return Ok(response);
    }
    drop(response);
    let mut second = request;
    add(&mut second, &fresh.value)?;
    net.exchange(second).await
}

fn is_401(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED
}

fn add_bearer(request: &mut Request, header: &HeaderValue) -> Result<(), NetError> {
    request.headers.insert(AUTHORIZATION, header.clone());
    Ok(())
}

/// Adds a static credential to the request.
fn apply(credential: &Credential, request: &mut Request) -> Result<(), NetError> {
    let headers = &mut request.headers;
    match credential {
        Credential::Bearer(token) => {
            let value = format!("Bearer {}", token.expose_secret());
            headers.insert(AUTHORIZATION, sensitive(value)?);
        }
        Credential::Basic { username, password } => {
            let pair = basic(username, password.expose_secret());
            let value = format!("Basic {}", pair.expose_secret());
            headers.insert(AUTHORIZATION, sensitive(value)?);
        }
        Credential::ApiKey { place, key } => {
            let key = key.expose_secret();
            match place {
                CredentialPlace::Header(name) => {
                    headers.insert(name.clone(), sensitive(key)?);
                }
                // A redirect may have repeated the query.
                CredentialPlace::Query(name) => {
                    let has_key = |(n, v): (_, _)| n == *name && v == key;
                    if !request.url.query_pairs().any(has_key) {
                        request.url.query_pairs_mut().append_pair(name, key);
                    }
                }
                CredentialPlace::Cookie(name) => add_cookie(headers, format!("{name}={key}"))?,
            }
        }
        // These must be fetched or computed first.
        Credential::OAuth2(_) | Credential::Command(_) | Credential::AwsSigV4(_) => {}
    }
    Ok(())
}

/// Adds a cookie to those in the operator's own headers.
fn add_cookie(headers: &mut HeaderMap, cookie: String) -> Result<(), NetError> {
    let before = headers.get(COOKIE).and_then(|value| value.to_str().ok());
    let all = before.map_or_else(|| cookie.clone(), |before| format!("{before}; {cookie}"));
    headers.insert(COOKIE, sensitive(all)?);
    Ok(())
}

#[cfg(test)]
mod tests;
