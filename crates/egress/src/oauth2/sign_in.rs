//! A person's sign-in: with a code on another device (RFC 8628), or in a browser that returns with a code (RFC 6749 §4.1, with
//! PKCE, RFC 7636).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use base::files;
use base::json::{self, Limits};
use base::text::excerpt;

use super::discovery::{self, Needed};
use super::person::stored_token;
use super::{
    Form, TOKEN_TIMEOUT, TokenEndpoint, TokenError, TokenResponse, add_scopes, add_target,
    own_fault, post, request_token, unavailable,
};
use crate::credential::{
    ClientAuth, Grant, OAuth2, SignInFlow, StoredToken, TokenFile, random_text, seconds,
};
use crate::{HttpClient, NetError, NetFault};

pub use super::discovery::server;
pub use super::person::NAMELESS;
pub use super::redirect_listener::RedirectListener;
pub use crate::credential::{DeviceCode, Prompt, Refusal, RunningSignIn, SignInError, SignInTurn};

/// The grant type of RFC 8628.
const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The interval of polls if the server names none.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// How much longer the interval becomes when the server answers `slow_down`.
const SLOW_DOWN: Duration = Duration::from_secs(5);

/// The minimum interval of polls, whatever the server names.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum interval of polls: a server cannot delay the answer to a finished sign-in further.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The error of a person who does not come in time.
const EXPIRED: &str = "the code expired before the sign-in was complete; start again";

/// The maximum time for a sign-in.
const MAX_SIGN_IN: Duration = Duration::from_secs(30 * 60);

/// How many pasted texts that are not the address end the sign-in.
const MAX_BAD_PASTES: usize = 5;

/// The longest code that a person enters.
const MAX_USER_CODE_CHARS: usize = 40;

/// How long a browser may take to return.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

impl RunningSignIn {
    /// Begins a sign-in, as [`sign_in`] does.
    pub fn begin(net: Arc<dyn HttpClient>, client: Arc<OAuth2>, endpoint: TokenEndpoint) -> Self {
        // A prompt and up to as many bad pastes as the sign-in allows.
        let (sender, prompts) = mpsc::channel(1 + MAX_BAD_PASTES);
        let (pasted, addresses) = mpsc::channel(1);
        let ended = tokio::spawn(async move {
            let show = |prompt| {
                let _ = sender.try_send(prompt);
            };
            sign_in(&*net, &client, &endpoint, show, addresses).await
        });
        Self {
            ended: AbortOnDropHandle::new(ended),
            prompts,
            pasted,
            shown: None,
            is_kept: false,
        }
    }
}

/// Signs a person in with the flow of `client`, and stores the token. `show` presents what the person has to do, and `pasted`
/// has the address at which a browser ended, if the person pastes one. `show` may be called again for another paste.
///
/// # Errors
/// The server, or the person, refuses; or the time is up.
pub async fn sign_in(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    show: impl FnMut(Prompt),
    pasted: mpsc::Receiver<String>,
) -> Result<StoredToken, SignInError> {
    let Grant::Person { flow, file } = &client.grant else {
        return Err(own_fault("this target needs no sign-in").into());
    };
    // A person must not sign in for a token that cannot be stored.
    let locked = file.lock().await;
    drop(locked.map_err(|error| not_stored(file, &error))?);
    let answer = match flow {
        SignInFlow::DeviceCode => by_device(net, client, endpoint, show).await?,
        SignInFlow::AuthorizationCode(redirect) => {
            let redirect = redirect.as_ref();
            by_browser(net, client, endpoint, redirect, show, pasted).await?
        }
    };
    Ok(store(client, file, answer).await?)
}

async fn store(
    client: &OAuth2,
    file: &TokenFile,
    answer: TokenResponse,
) -> Result<StoredToken, NetError> {
    let now = client.tokens.clock.system_time();
    let token = stored_token(client, file, answer, None, now);
    let stored = match file.lock().await {
        Ok(_lock) => file.write_async(&token).await,
        Err(error) => Err(error),
    };
    stored.map_err(|error| not_stored(file, &error))?;
    Ok(token)
}

fn not_stored(file: &TokenFile, error: &io::Error) -> NetError {
    let dir = file.dir().display();
    own_fault(format_args!("cannot store the token in `{dir}`: {error}"))
}

/// What a sign-out found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedOut {
    /// There was no stored token.
    NotSignedIn,
    /// The token was removed, and the server may still accept it.
    Removed,
    /// The token was removed, and the server has revoked it.
    Revoked,
}

/// Removes the stored token, and asks the server to revoke it if its metadata name an endpoint for that (RFC 7009).
///
/// # Errors
/// The file cannot be removed.
pub async fn sign_out(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> io::Result<SignedOut> {
    let Grant::Person { file, .. } = &client.grant else {
        return Ok(SignedOut::NotSignedIn);
    };
    let stored = {
        let _lock = file.lock().await?;
        // A damaged file is removed too.
        let stored = file.read_to_revoke().await.ok().flatten();
        let own = file.clone();
        if !files::blocking(move || own.remove()).await? {
            return Ok(SignedOut::NotSignedIn);
        }
        stored
    };
    let Some(stored) = stored else {
        return Ok(SignedOut::Removed);
    };
    let revoked = timeout(TOKEN_TIMEOUT, revoke(net, client, endpoint, stored)).await;
    Ok(match revoked {
        Ok(Ok(true)) => SignedOut::Revoked,
        _ => SignedOut::Removed,
    })
}

/// Asks the server to revoke a refresh token, with the access tokens of its grant, or else an access token.
async fn revoke(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    stored: StoredToken,
) -> Result<bool, NetError> {
    let Some(url) = discovery::revocation(net, client, endpoint).await? else {
        return Ok(false);
    };
    let mut form = Form::default();
    match stored.refresh_token {
        Some(token) => {
            form.append_pair("token", &token);
            form.append_pair("token_type_hint", "refresh_token");
        }
        None => form.append_pair("token", &stored.access_token),
    }
    let answer = post(net, client, endpoint, &url, form).await?;
    Ok(answer.status.is_success())
}

/// The answer of the device authorization endpoint (RFC 8628 §3.2). Google writes `verification_url`.
#[derive(Deserialize)]
struct DeviceAnswer {
    device_code: String,
    user_code: String,
    #[serde(alias = "verification_url")]
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: Option<Value>,
    interval: Option<Value>,
}

async fn by_device(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    mut show: impl FnMut(Prompt),
) -> Result<TokenResponse, SignInError> {
    let url = discovery::find(net, client, endpoint, Needed::Device).await?;
    let mut form = Form::default();
    add_scopes(client, &mut form);
    add_target(client, &mut form);
    if matches!(client.client_auth, ClientAuth::Basic) {
        form.append_pair("client_id", &client.client_id);
    }
    let answer = post(net, client, endpoint, &url, form).await?;
    if !answer.status.is_success() {
        return Err(answer.refused().error.into());
    }
    let device: DeviceAnswer = json::from_slice(&answer.body, Limits::NONE)
        .map_err(|_| unavailable(client, "its answer is no device code"))?;
    let duration = |value: Option<&Value>| {
        let seconds = value.and_then(seconds).filter(|seconds| *seconds > 0.0);
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    };
    let expires_in = duration(device.expires_in.as_ref()).unwrap_or(MAX_SIGN_IN);
    if !is_user_code(&device.user_code) {
        let reason = "its answer has no code that a person could enter";
        return Err(unavailable(client, reason).into());
    }
    let code = DeviceCode {
        url: web_address(&device.verification_uri).ok_or_else(|| {
            unavailable(
                client,
                "its address for the code is not http or https, or has a user name",
            )
        })?,
        complete_url: device
            .verification_uri_complete
            .as_deref()
            .and_then(web_address),
        user_code: device.user_code,
        expires_in: expires_in.min(MAX_SIGN_IN),
    };
    let until = Instant::now() + code.expires_in;
    show(Prompt::Device(code));
    let interval = duration(device.interval.as_ref()).unwrap_or(POLL_INTERVAL);
    poll(net, client, endpoint, &device.device_code, interval, until).await
}

/// Polls the token endpoint until the person has signed in (RFC 8628 §3.5).
async fn poll(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    device_code: &str,
    interval: Duration,
    until: Instant,
) -> Result<TokenResponse, SignInError> {
    let mut interval = interval.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL);
    let slower = |interval: Duration, more: Duration| (interval + more).min(MAX_POLL_INTERVAL);
    loop {
        sleep(interval).await;
        let mut form = Form::default();
        form.append_pair("grant_type", DEVICE_CODE);
        form.append_pair("device_code", device_code);
        if matches!(client.client_auth, ClientAuth::Basic) {
            form.append_pair("client_id", &client.client_id);
        }
        let TokenError { error, code } = match request_token(net, client, endpoint, form).await {
            Ok(token) => return Ok(token),
            Err(refused) => refused,
        };
        match code.as_deref() {
            Some("authorization_pending") => {}
            Some("slow_down") => interval = slower(interval, SLOW_DOWN),
            Some("access_denied" | "authorization_declined") => {
                return Err(SignInError::Declined);
            }
            Some("expired_token") => return Err(own_fault(EXPIRED).into()),
            // The connection, or the server, failed, and the code is still valid.
            None if error.fault() == NetFault::TokenUnavailable => {
                interval = slower(interval, interval);
            }
            _ => return Err(error.into()),
        }
        if Instant::now() >= until {
            return Err(own_fault(EXPIRED).into());
        }
    }
}

/// Returns whether a text is a code for a person (RFC 8628 §6.1), and no sentence: hosts show it among words of their own.
fn is_user_code(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (1..=MAX_USER_CODE_CHARS).contains(&text.len()) && text.chars().all(is_part)
}

/// Parses an address that a person may open. A user name in it would look like its host.
fn web_address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    (matches!(url.scheme(), "https" | "http") && !has_user).then_some(url)
}

async fn by_browser(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    redirect: Option<&Url>,
    mut show: impl FnMut(Prompt),
    mut pasted: mpsc::Receiver<String>,
) -> Result<TokenResponse, SignInError> {
    let failed = |error: io::Error| {
        let place = redirect.map_or_else(String::new, |url| format!(" at `{url}`"));
        let repair = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program, or another sign-in that is open, uses its port; wait for its end, or set and register another `auth.redirectUrl`"
            }
            _ => "set and register another `auth.redirectUrl`",
        };
        own_fault(format_args!(
            "cannot wait for the browser{place}: {error}; {repair}"
        ))
    };
    let mut listener = RedirectListener::bind(redirect).await.map_err(failed)?;
    let authorization = discovery::find(net, client, endpoint, Needed::Authorization).await?;
    let request = CodeRequest::new(client, authorization, listener.url().clone())?;
    show(Prompt::Browser(request.url.clone()));
    let (mut can_paste, mut bad_pastes) = (true, 0);
    let code = timeout(BROWSER_TIMEOUT, async {
        loop {
            tokio::select! {
                returned = listener.accept() => {
                    let (url, reply) = returned.map_err(failed)?;
                    match request.code(client, &url) {
                        Ok(code) => {
                            reply.send(true);
                            return Ok(code);
                        }
                        // Another program, or an earlier sign-in.
                        Err(None) => reply.send(false),
                        Err(Some(error)) => {
                            reply.send(true);
                            return Err(error);
                        }
                    }
                }
                line = pasted.recv(), if can_paste => {
                    let Some(line) = line else {
                        can_paste = false;
                        continue;
                    };
                    let reason = match Url::parse(line.trim()) {
                        Ok(url) => match request.code(client, &url) {
                            Ok(code) => return Ok(code),
                            Err(Some(error)) => return Err(error),
                            Err(None) => "the pasted address is not that of this sign-in (`state` differs or is missing)",
                        },
                        Err(_) => "the pasted text is no address; paste the whole address of the page at which the browser ended",
                    };
                    bad_pastes += 1;
                    if bad_pastes >= MAX_BAD_PASTES {
                        return Err(own_fault(format_args!("{reason}; start again")).into());
                    }
                    show(Prompt::PasteAgain(reason));
                }
            }
        }
    });
    let late = "the browser did not return in time; start again";
    let code = code.await.unwrap_or_else(|_| Err(own_fault(late).into()))?;
    let mut form = Form::default();
    form.append_pair("grant_type", "authorization_code");
    form.append_pair("code", code.expose_secret());
    form.append_pair("redirect_uri", request.redirect.as_str());
    form.append_pair("code_verifier", request.verifier.expose_secret());
    add_target(client, &mut form);
    let token = request_token(net, client, endpoint, form).await;
    Ok(token.map_err(NetError::from)?)
}

/// A request for an authorization code.
struct CodeRequest {
    url: Url,
    redirect: Url,
    state: SecretString,
    verifier: SecretString,
}

impl CodeRequest {
    fn new(client: &OAuth2, mut url: Url, redirect: Url) -> Result<Self, NetError> {
        let random = || {
            random_text().ok_or_else(|| unavailable(client, "the system gives no random numbers"))
        };
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let mut form = Form::default();
        form.append_pair("response_type", "code");
        form.append_pair("client_id", &client.client_id);
        form.append_pair("redirect_uri", redirect.as_str());
        form.append_pair("state", &state);
        form.append_pair("code_challenge", &challenge);
        form.append_pair("code_challenge_method", "S256");
        add_scopes(client, &mut form);
        add_target(client, &mut form);
        let own = url.query().map(|query| format!("{query}&"));
        url.set_query(Some(&(own.unwrap_or_default() + &form.0)));
        Ok(Self {
            url,
            redirect,
            state: state.into(),
            verifier: verifier.into(),
        })
    }

    /// Returns the code in the address that a browser returned to.
    ///
    /// # Errors
    /// `None` for an address of another sign-in, which changes nothing; else why there is no code.
    fn code(&self, client: &OAuth2, url: &Url) -> Result<SecretString, Option<SignInError>> {
        let parameter = |name: &str| {
            let mut values = url.query_pairs().filter(|(key, _)| key == name);
            let first = values.next().map(|(_, value)| value.into_owned());
            // A repeated parameter has no meaning (RFC 6749 §3.1).
            first.filter(|_| values.next().is_none())
        };
        if parameter("state").as_deref() != Some(self.state.expose_secret()) {
            return Err(None);
        }
        if let Some(fault) = issuer_fault(client, url) {
            return Err(Some(unavailable(client, fault).into()));
        }
        if let Some(code) = parameter("code").filter(|code| !code.is_empty()) {
            return Ok(code.into());
        }
        let reason = match parameter("error").as_deref() {
            Some("access_denied") => return Err(Some(SignInError::Declined)),
            Some(error) => {
                let description = parameter("error_description");
                let description = description.map(|text| format!(" ({})", excerpt(&text)));
                let description = description.unwrap_or_default();
                format!("it answered {}{description}", excerpt(error))
            }
            None => "the browser returned without a code".to_owned(),
        };
        Err(Some(unavailable(client, reason).into()))
    }
}

/// Returns why the browser may come from another server (RFC 9207 §2.4); `None` if nothing says so.
fn issuer_fault(client: &OAuth2, url: &Url) -> Option<String> {
    let bare = |issuer: &str| issuer.trim_end_matches('/').to_owned();
    let own = bare(client.endpoints.issuer.as_ref()?.as_str());
    let named = url.query_pairs().filter(|(key, _)| key == "iss");
    let mut named: Vec<String> = named.map(|(_, issuer)| bare(&issuer)).collect();
    let metadata = client.endpoints.metadata.get();
    if named.is_empty() && metadata.is_some_and(|metadata| metadata.names_issuer) {
        let text = "the browser returned without `iss`, which the metadata announce";
        return Some(text.to_owned());
    }
    // One of several may be the right one (RFC 6749 §3.1 forbids them).
    let (is_repeated, other) = (named.len() > 1, named.iter().position(|name| *name != own));
    match other {
        Some(at) => Some(format!(
            "the browser returned from another issuer, `{}`",
            excerpt(&named.swap_remove(at))
        )),
        None => is_repeated.then(|| "the browser returned with `iss` several times".to_owned()),
    }
}

#[cfg(test)]
mod tests;
