//! Credentials on requests.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::ExposeSecret as _;

use crate::credential::{Credential, OAuth2, Place, Token, basic};

use super::oauth2;
use super::{BoxFuture, Net, NetError, NetFault, Request, Response, Sent, Upgrade};

pub use super::oauth2::Endpoint;

/// A network on which every request carries a credential. Whoever builds one sees to it that the requests go to origins
/// that the credential is for.
///
/// An access token that a peer refuses with 401 is replaced, and the request sent once more: a peer that does not know who
/// calls has not done what was asked. Nothing else is repeated here.
#[derive(Clone)]
pub struct Authorized {
    net: Arc<dyn Net>,
    credential: Arc<Credential>,
    endpoint: Endpoint,
}

impl Authorized {
    /// `net` with `credential`. `endpoint` says how an authorization server may be reached.
    pub fn new(net: Arc<dyn Net>, credential: Arc<Credential>, endpoint: Endpoint) -> Self {
        Self {
            net,
            credential,
            endpoint,
        }
    }

    async fn with_token(&self, client: &OAuth2, request: Request) -> Result<Response, NetError> {
        let token = self.token(client).await?;
        let response = self.net.exchange(carrying(&request, &token)).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        client.tokens.discard(&token);
        let fresh = self.token(client).await?;
        if fresh.header == token.header {
            return Ok(response);
        }
        drop(response);
        self.net.exchange(carrying(&request, &fresh)).await
    }

    async fn token(&self, client: &OAuth2) -> Result<Token, NetError> {
        oauth2::token(&*self.net, client, &self.endpoint).await
    }
}

impl Net for Authorized {
    /// A protocol that takes a connection over has its own way to say who calls.
    fn upgrade(&self, request: Request) -> BoxFuture<'static, Result<Upgrade, NetError>> {
        self.net.upgrade(request)
    }

    fn exchange(&self, mut request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        let this = self.clone();
        Box::pin(async move {
            match &*this.credential {
                Credential::OAuth2(client) => this.with_token(client, request).await,
                other => {
                    apply(other, &mut request)?;
                    this.net.exchange(request).await
                }
            }
        })
    }
}

fn carrying(request: &Request, token: &Token) -> Request {
    let mut request = request.clone();
    request.headers.insert(AUTHORIZATION, token.header.clone());
    request
}

/// Puts a credential that is known where it belongs.
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
                Place::Header(name) => {
                    headers.insert(name.clone(), sensitive(key)?);
                }
                Place::Query(name) => {
                    request.url.query_pairs_mut().append_pair(name, key);
                }
                Place::Cookie(name) => add_cookie(headers, format!("{name}={key}"))?,
            }
        }
        // Its token has to be fetched first.
        Credential::OAuth2(_) => {}
    }
    Ok(())
}

/// Beside the cookies that the operator's own headers may have.
fn add_cookie(headers: &mut HeaderMap, cookie: String) -> Result<(), NetError> {
    let before = headers.get(COOKIE).and_then(|value| value.to_str().ok());
    let all = before.map_or_else(|| cookie.clone(), |before| format!("{before}; {cookie}"));
    headers.insert(COOKIE, sensitive(all)?);
    Ok(())
}

/// A header's value that is printed nowhere.
pub(super) fn sensitive(text: impl AsRef<str>) -> Result<HeaderValue, NetError> {
    let mut value = HeaderValue::from_str(text.as_ref()).map_err(|_| {
        let message = "the credential has characters that cannot stand in an HTTP header";
        NetError::new(NetFault::Protocol, Sent::No, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
