//! Access tokens from an authorization server (RFC 6749): by client credentials, by token exchange, or from a person's sign-in.
//!
//! The client authenticates with HTTP Basic (`client_secret_basic`), which every authorization server must support
//! (§2.3.1), or in another way, if the operator chose that. `discovery.rs` finds endpoints, `person.rs` refreshes the stored
//! token of a person, and `sign_in.rs` gets the first one.

pub(crate) mod discovery;
mod person;
mod redirect_listener;
pub mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::credential::{
    ClientAuth, Credential, Grant, Issued, LOCK_TIMEOUT, MAX_FILE_BYTES, OAuth2, Token, Trust,
    other_token_type, seconds, sensitive,
};
use base::files;
use base::json::{self, Limits};
use base::redact::Secrets;
use base::text::{first_chars, one_line};

use super::{
    HttpClient, NetError, NetFault, Request, Response, Sent, body, redirect, stated_reason,
    status_text,
};

/// The timeout of a token request: other calls may wait for the same token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the end of an instance waits for a refresh: for its request and the storage of the answer.
pub const REFRESH_TIMEOUT: Duration = TOKEN_TIMEOUT.saturating_add(Duration::from_secs(1));

// Who has the lock of a stored token may request the metadata at three places, and a refresh twice.
const _: () = assert!(5 * TOKEN_TIMEOUT.as_secs() < LOCK_TIMEOUT.as_secs());

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

/// Returns what waits for the refreshes of `credential` that a server may have received; `None` if there are none. A server that
/// rotates refresh tokens has replaced the stored one, so its answer must not be lost. No refresh begins after this.
pub fn end_refreshes(credential: &Credential) -> Option<impl Future<Output = ()> + use<>> {
    let Credential::OAuth2(client) = credential else {
        return None;
    };
    let refreshes: TaskTracker = client.refreshes.clone();
    refreshes.close();
    (!refreshes.is_empty()).then_some(async move {
        // Each ends within this time by itself, and is then in its file.
        let _ = tokio::time::timeout(REFRESH_TIMEOUT, refreshes.wait()).await;
    })
}

/// Returns a valid token: the current one, or a new one. A refresh goes on without the caller, because the server may have
/// replaced the refresh token already.
///
/// # Errors
/// [`NetFault::TokenUnavailable`] if the server issues no token, [`NetFault::AddressRefused`] if the policy forbids its
/// address.
pub(super) async fn get(
    net: &dyn HttpClient,
    client: &Arc<OAuth2>,
    endpoint: &TokenEndpoint,
) -> Result<Token<HeaderValue>, NetError> {
    if let Grant::Person { file, .. } = &client.grant
        && file.has_changed().await
    {
        client.tokens.forget();
    }
    if let Some(token) = client.tokens.current(Instant::now()) {
        return Ok(token);
    }
    let detached = match &client.grant {
        Grant::Person { .. } => net.detached(),
        _ => None,
    };
    let Some(net) = detached else {
        return client.tokens.get(obtain(net, client, endpoint)).await;
    };
    let (own, endpoint) = (Arc::clone(client), endpoint.clone());
    let refresh = tokio::spawn(async move { own.tokens.get(obtain(&*net, &own, &endpoint)).await });
    refresh
        .await
        .unwrap_or_else(|error| Err(unavailable(client, error)))
}

/// Returns whether the client has no token until a person signs in: there is no sign-in yet, or the server has ended it. Renews
/// the token if that is due.
pub async fn needs_sign_in(
    net: &dyn HttpClient,
    client: &Arc<OAuth2>,
    endpoint: &TokenEndpoint,
) -> bool {
    let Grant::Person { file, .. } = &client.grant else {
        return false;
    };
    if file.is_per_user() && file.user.is_none() {
        return false;
    }
    get(net, client, endpoint).await.is_err() && person::is_over(client, file).await
}

/// Gets a new token in the way of its grant.
async fn obtain(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Issued, NetError> {
    let mut form = Form::default();
    match &client.grant {
        Grant::Person { file, .. } => return person::obtain(net, client, file, endpoint).await,
        Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        Grant::TokenExchange {
            subject,
            subject_type,
        } => {
            let path = subject.clone();
            let token = files::blocking(move || files::read_bounded(&path, MAX_FILE_BYTES)).await;
            let token = token.map_err(|error| {
                let file = subject.display();
                unavailable(client, format_args!("cannot read `{file}`: {error}"))
            })?;
            form.append_pair("grant_type", TOKEN_EXCHANGE);
            form.append_pair("subject_token", token.trim());
            form.append_pair("subject_token_type", subject_type);
        }
    }
    add_scopes(client, &mut form);
    add_target(client, &mut form);
    let answer = request_token(net, client, endpoint, form).await?;
    answer.issued(client)
}

/// The grant type of RFC 8693.
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// The parameters of a request, encoded. Unlike the encoder of `url`, it can move between threads.
#[derive(Default)]
struct Form(String);

impl Form {
    fn append_pair(&mut self, name: &str, value: &str) {
        let mut form = Serializer::new(std::mem::take(&mut self.0));
        form.append_pair(name, value);
        self.0 = form.finish();
    }
}

/// Adds the scopes to a request.
fn add_scopes(client: &OAuth2, form: &mut Form) {
    if !client.scopes.is_empty() {
        form.append_pair("scope", &client.scopes.join(" "));
    }
}

/// Adds to a request what the token is for, and the operator's parameters.
fn add_target(client: &OAuth2, form: &mut Form) {
    if let Some(audience) = &client.audience {
        form.append_pair("audience", audience);
    }
    if let Some(resource) = &client.resource {
        form.append_pair("resource", resource);
    }
    for (name, value) in &client.params {
        form.append_pair(name, value);
    }
}

/// A request that the server refused, or that failed.
struct TokenError {
    error: NetError,
    /// The error code (RFC 6749 §5.2), or else the status; `None` if the server gave no verdict.
    code: Option<String>,
}

impl From<NetError> for TokenError {
    fn from(error: NetError) -> Self {
        Self { error, code: None }
    }
}

impl From<TokenError> for NetError {
    fn from(refused: TokenError) -> Self {
        refused.error
    }
}

/// Requests a token with the parameters in `form`.
async fn request_token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    form: Form,
) -> Result<TokenResponse, TokenError> {
    let url = discovery::find(net, client, endpoint, discovery::Needed::Token).await?;
    post(net, client, endpoint, &url, form).await?.token()
}

/// A response of the server, with what it may repeat of the request.
struct Answer<'a> {
    client: &'a OAuth2,
    /// The form that was sent.
    sent: Bytes,
    status: StatusCode,
    /// Where a redirect leads to, without its query.
    location: Option<String>,
    body: Bytes,
}

/// Sends a request to an endpoint of the server with the client's authentication.
async fn post<'a>(
    net: &dyn HttpClient,
    client: &'a OAuth2,
    endpoint: &TokenEndpoint,
    url: &Url,
    form: Form,
) -> Result<Answer<'a>, NetError> {
    let request = request(client, endpoint, url, form)?;
    let sent = request.body.clone().unwrap_or_default();
    let (response, body) = fetch(net, client, request).await?;
    Ok(Answer {
        client,
        sent,
        status: response.status,
        location: redirect::location(&response.headers),
        body,
    })
}

/// Sends a request within its timeout, and returns the response with its body.
async fn fetch(
    net: &dyn HttpClient,
    client: &OAuth2,
    request: Request,
) -> Result<(Response, Bytes), NetError> {
    let answer = tokio::time::timeout(TOKEN_TIMEOUT, exchange(net, client, request)).await;
    answer.unwrap_or_else(|_| {
        let seconds = TOKEN_TIMEOUT.as_secs();
        Err(unavailable(
            client,
            format_args!("no answer within {seconds} seconds"),
        ))
    })
}

async fn exchange(
    net: &dyn HttpClient,
    client: &OAuth2,
    request: Request,
) -> Result<(Response, Bytes), NetError> {
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
    Ok((response, body))
}

fn request(
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    url: &Url,
    mut form: Form,
) -> Result<Request, NetError> {
    let access = discovery::access(client, endpoint, url)?;
    let mut headers = HeaderMap::new();
    let mut trust = endpoint.trust.clone();
    if !matches!(client.client_auth, ClientAuth::Basic) {
        form.append_pair("client_id", &client.client_id);
    }
    match &client.client_auth {
        ClientAuth::Basic => {
            let pair = client.basic();
            let value = sensitive(format!("Basic {}", pair.expose_secret()))?;
            headers.insert(AUTHORIZATION, value);
        }
        ClientAuth::Post => {
            let secret = client.client_secret.as_ref();
            form.append_pair(
                "client_secret",
                secret.map_or("", |secret| secret.expose_secret()),
            );
        }
        ClientAuth::None => {}
        ClientAuth::PrivateKeyJwt(key) => {
            let now = client.tokens.clock.system_time();
            let assertion = key
                .sign(&client.client_id, url.as_str(), now)
                .ok_or_else(|| unavailable(client, "the system gives no random numbers"))?;
            form.append_pair("client_assertion_type", JWT_BEARER);
            form.append_pair("client_assertion", assertion.expose_secret());
        }
        ClientAuth::Tls(own) => trust = Some(Arc::clone(own)),
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, kind);
    Ok(Request {
        headers,
        trust,
        ..Request::post(url.clone(), access, Bytes::from(form.0))
    })
}

/// The type of an assertion (RFC 7523 §2.2).
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The minimum lifetime of a person's token: with a shorter one, each call would use a refresh token.
const MIN_LIFETIME: Duration = Duration::from_secs(2);

/// A token response (RFC 6749 §5.1).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    #[serde(default, deserialize_with = "words")]
    token_type: Option<String>,
    expires_in: Option<Value>,
    #[serde(default, deserialize_with = "words")]
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "words")]
    scope: Option<String>,
    /// Slack's token of a person, beside the one of the application or alone.
    authed_user: Option<Box<TokenResponse>>,
}

/// Reads words that some servers write as a list. A value of another type says nothing.
fn words<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::String(words) => Some(words),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            (!words.is_empty()).then(|| words.join(" "))
        }
        _ => None,
    })
}

/// Slack's type of a bearer token of a person.
const SLACK_USER: &str = "user";

/// Reads an answer of the token endpoint: JSON, or a form, which GitHub and others write whatever `Accept` says.
fn read_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let error = match json::from_slice(body, Limits::NONE) {
        Ok(answer) => return Ok(answer),
        Err(error) => error.to_string(),
    };
    let fields: Map<String, Value> = url::form_urlencoded::parse(body)
        .map(|(name, value)| (name.into_owned(), value.into()))
        .collect();
    let is_form = ["access_token", "error"]
        .iter()
        .any(|name| fields.contains_key(*name));
    let answer = is_form.then(|| serde_json::from_value(fields.into()).ok());
    answer.flatten().ok_or(error)
}

impl TokenResponse {
    /// Returns the lifetime of the token, if the server names one: at least [`MIN_LIFETIME`].
    fn lifetime(&self) -> Option<Duration> {
        let seconds = self.expires_in.as_ref().and_then(seconds);
        let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
        let lifetime = Duration::try_from_secs_f64(seconds).ok()?;
        Some(lifetime.max(MIN_LIFETIME))
    }

    /// Returns the access token as a credential.
    fn issued(self, client: &OAuth2) -> Result<Issued, NetError> {
        let token = self.access_token.unwrap_or_default();
        Issued::bearer(token.into(), self.expires_in.as_ref().and_then(seconds))
            .map_err(|_| unavailable(client, "an HTTP header cannot contain its token"))
    }
}

/// The minimum length of a secret that errors redact: shorter texts occur in every sentence.
const MIN_SECRET_BYTES: usize = 6;

/// The parameters of requests that are secrets, which the server must not show in an error.
const SECRET_PARAMETERS: [&str; 6] = [
    "refresh_token",
    "code",
    "code_verifier",
    "device_code",
    "subject_token",
    "client_assertion",
];

impl Answer<'_> {
    /// Reads a token (RFC 6749 §5.1) or an error (§5.2), which some servers send with a status of success.
    fn token(&self) -> Result<TokenResponse, TokenError> {
        let Self { client, .. } = self;
        if !self.status.is_success() {
            return Err(self.refused());
        }
        let mut answer: TokenResponse = read_answer(&self.body).map_err(|error| {
            unavailable(
                client,
                format!("its answer is not a token response: {error}"),
            )
        })?;
        if answer.access_token.is_none()
            && let Some(person) = answer.authed_user.take()
        {
            answer = *person;
            answer.token_type = answer.token_type.filter(|kind| kind != SLACK_USER);
        }
        let Some(token) = &answer.access_token else {
            let (code, reason) = self.error();
            let error = match reason {
                Some(reason) => unavailable(client, format_args!("it answered {reason}")),
                None => unavailable(client, "its answer has no `access_token`"),
            };
            return Err(TokenError { error, code });
        };
        // The code or refresh token is used up, so that a repetition gives no other answer.
        let unusable = |reason: &str| TokenError {
            error: unavailable(client, reason),
            code: Some(status_text(self.status)),
        };
        if let Some(kind) = answer.token_type.as_deref().and_then(other_token_type) {
            return Err(unusable(&format!(
                "it issues tokens of the type `{kind}`; only bearer tokens are supported"
            )));
        }
        if token.is_empty() {
            return Err(unusable("its token is empty"));
        }
        // Before it is stored: every later call would fail.
        if sensitive(format!("Bearer {token}")).is_err() {
            return Err(unusable("an HTTP header cannot contain its token"));
        }
        Ok(answer)
    }

    /// Returns the error for a status that is no success.
    fn refused(&self) -> TokenError {
        let status_text = status_text(self.status);
        if self.status.is_redirection() {
            let to = self.location.as_deref().unwrap_or("an unknown address");
            let message = format!(
                "it answered {status_text}, a redirect to `{}`, which is not followed; if that is the token endpoint, set `tokenUrl` to it",
                self.redacted(to)
            );
            return unavailable(self.client, message).into();
        }
        let (code, reason) = self.error();
        let reason = reason.map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        let message = format_args!("it answered {status_text}{reason}");
        let may_wait = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        let is_verdict = self.status.is_client_error() && !may_wait.contains(&self.status);
        let status = is_verdict.then(|| status_text.clone());
        TokenError {
            error: unavailable(self.client, message),
            code: code.or(status),
        }
    }

    /// Reads an error (RFC 6749 §5.2), if the body is one: its code, and a text for a message.
    fn error(&self) -> (Option<String>, Option<String>) {
        #[derive(Deserialize)]
        struct ErrorResponse {
            error: Value,
            error_description: Option<Value>,
        }
        let Ok(response) = read_answer::<ErrorResponse>(&self.body) else {
            return (None, self.other_reason());
        };
        let text = |value: &Value| {
            let text = value
                .as_str()
                .or_else(|| value.get("message")?.as_str())
                .or_else(|| value.get("code")?.as_str())?;
            Some(self.redacted(text)).filter(|text| !text.trim().is_empty())
        };
        // For comparisons only: a secret may be part of a known code.
        let code = response.error.as_str().map(str::to_owned);
        let error = text(&response.error);
        let description = response.error_description.as_ref().and_then(text);
        let reason = match (error, description) {
            (Some(error), Some(description)) => Some(format!("{error} ({description})")),
            (error, description) => error.or(description),
        };
        (code, reason)
    }

    /// Returns the text of an error that is none of OAuth: of a gateway in front of the server, or in a form of its own.
    fn other_reason(&self) -> Option<String> {
        let json: Option<Value> = json::from_slice(&self.body, Limits::NONE).ok();
        let text = match &json {
            Some(json) => stated_reason(json).or(json["title"].as_str())?.into(),
            None => String::from_utf8_lossy(&self.body),
        };
        let text = self.redacted(text.trim());
        (!text.is_empty()).then_some(text)
    }

    /// Returns an excerpt of the server's text, without the secrets of the request.
    fn redacted(&self, text: &str) -> String {
        let sent = url::form_urlencoded::parse(&self.sent);
        let sent = sent.filter(|(name, value)| {
            SECRET_PARAMETERS.contains(&&**name) && value.len() >= MIN_SECRET_BYTES
        });
        let sent = sent.map(|(_, value)| value.into_owned().into());
        let secrets = Secrets::in_all_forms(self.client.secrets().into_iter().chain(sent));
        first_chars(&one_line(&secrets.redact(text)), MAX_QUOTED_CHARS).to_owned()
    }
}

/// Returns the error of a cause on this machine, or of a person: no server refused anything.
fn own_fault(reason: impl std::fmt::Display) -> NetError {
    NetError::new(NetFault::TokenUnavailable, Sent::No, reason.to_string())
}

fn unavailable(client: &OAuth2, reason: impl std::fmt::Display) -> NetError {
    NetError::new(
        NetFault::TokenUnavailable,
        Sent::No,
        format!(
            "the authorization server `{}` issued no access token: {reason}",
            discovery::server(client)
        ),
    )
}

#[cfg(test)]
mod provider_tests;
#[cfg(test)]
mod tests;
