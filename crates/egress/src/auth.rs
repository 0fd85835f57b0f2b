//! Adds credentials to requests.
//!
//! If a peer refuses an OAuth 2 access token with 401, the request is sent once more with a new token: a peer that does
//! not accept its caller has not acted. No other request is repeated here.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, StatusCode};
use secrecy::ExposeSecret as _;

use crate::credential::{Credential, CredentialPlace, OAuth2, Token, basic, sensitive};

use super::oauth2;
use super::{HttpClient, NetError, Request, Response};

pub use super::oauth2::TokenEndpoint;

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
        Credential::OAuth2(client) => exchange_with_token(net, client, &endpoint, request).await,
        other => {
            apply(other, &mut request)?;
            net.exchange(request).await
        }
    }
}

async fn exchange_with_token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    request: Request,
) -> Result<Response, NetError> {
    let token = oauth2::token(net, client, endpoint).await?;
    let response = net.exchange(carrying(&request, &token)).await?;
    if response.status != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    client.tokens.discard(&token);
    let fresh = oauth2::token(net, client, endpoint).await?;
    if fresh.header == token.header {
        return Ok(response);
    }
    drop(response);
    net.exchange(carrying(&request, &fresh)).await
}

fn carrying(request: &Request, token: &Token) -> Request {
    let mut request = request.clone();
    request.headers.insert(AUTHORIZATION, token.header.clone());
    request
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
        // The token must be fetched first.
        Credential::OAuth2(_) => {}
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
