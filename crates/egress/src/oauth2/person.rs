//! The token of a person who signed in: from its file, or refreshed (RFC 6749 §6).

use std::io;
use std::time::{Duration, SystemTime};

use base::environment::unix_seconds;

use super::discovery::{self, Needed};
use super::{
    Form, TokenEndpoint, TokenResponse, add_target, own_fault, request_token, unavailable,
};
use crate::credential::{Issued, OAuth2, StoredToken, TokenFile, sensitive};
use crate::{HttpClient, NetError};

/// The error of a call without a person, to a target to which each person signs in.
pub const NAMELESS: &str =
    "each person signs in to this target, and the host does not name the person who calls";

/// How long before its expiry a stored token is refreshed; at most a fifth of its lifetime.
const REFRESH_MARGIN: u64 = 30;

/// How long after its issue a refused token is not replaced, in seconds: an agent that refuses every token otherwise uses up a
/// refresh token with each call of each process.
const REFUSAL_INTERVAL: u64 = 10;

/// Returns the stored token, after a refresh if it has expired or was refused.
///
/// Other processes wait for the refresh and then find its result in the file. The new refresh token is in the file before the
/// access token is used.
pub(super) async fn obtain(
    net: &dyn HttpClient,
    client: &OAuth2,
    file: &TokenFile,
    endpoint: &TokenEndpoint,
) -> Result<Issued, NetError> {
    if file.is_per_user() && file.user.is_none() {
        return Err(own_fault(NAMELESS));
    }
    let failed = |error: io::Error| {
        let dir = file.dir().display();
        own_fault(format_args!(
            "cannot use the stored token in `{dir}`: {error}"
        ))
    };
    let _lock = file.lock().await.map_err(failed)?;
    let now = client.tokens.clock.system_time();
    let again = |reason: &str| format!("{reason}; sign in again with `{}`", file.command());
    let Some(mut stored) = file.read_async().await.map_err(failed)? else {
        let command = file.command();
        return Err(own_fault(format_args!(
            "no person is signed in to this target; sign in with `{command}`"
        )));
    };
    let mut may_read_again = true;
    loop {
        if is_usable(client, &stored, now) {
            return issued(client, &stored, now);
        }
        let Some(refresh_token) = stored.refresh_token.clone() else {
            return Err(own_fault(again("the sign-in has expired")));
        };
        // First, so that the wait below is for the refresh alone.
        discovery::find(net, client, endpoint, Needed::Token).await?;
        // From here until its answer is stored, the end of the instance waits for the refresh.
        let _sent = client.refreshes.token();
        if client.refreshes.is_closed() {
            return Err(unavailable(client, "the plugin is closing"));
        }
        match refresh(net, client, endpoint, &refresh_token).await {
            Ok(answer) => {
                let renewed = stored_token(client, file, answer, Some(&stored), now);
                file.write_async(&renewed).await.map_err(failed)?;
                return issued(client, &renewed, now);
            }
            Err(error) if error.code.as_deref() == Some("invalid_grant") => {
                // A file system without locks, or a sign-in on another machine.
                let newer = file.read_async().await.map_err(failed)?.filter(|newer| {
                    may_read_again && newer.refresh_token.as_ref() != Some(&refresh_token)
                });
                let Some(newer) = newer else {
                    // The next call need not ask the server, and the token that is refused or about to expire is over.
                    stored.refresh_token = None;
                    stored.expires_at =
                        Some(stored.expires_at.unwrap_or(u64::MAX).min(unix_seconds(now)));
                    file.write_async(&stored).await.map_err(failed)?;
                    let message = again("it does not accept the stored sign-in");
                    return Err(unavailable(client, message));
                };
                may_read_again = false;
                stored = newer;
            }
            Err(error) => return Err(error.error),
        }
    }
}

/// Returns whether there is no stored token, or none that calls may use or renew.
pub(super) async fn is_over(client: &OAuth2, file: &TokenFile) -> bool {
    let now = client.tokens.clock.system_time();
    match file.read_async().await {
        Ok(Some(stored)) => stored.refresh_token.is_none() && !is_usable(client, &stored, now),
        stored => stored.is_ok(),
    }
}

/// Requests a new token. Names no scopes: the granted ones stay, and a server that granted fewer than the settings name refuses
/// those as `invalid_scope`.
async fn refresh(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    refresh_token: &str,
) -> Result<TokenResponse, super::TokenError> {
    let mut form = Form::default();
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("refresh_token", refresh_token);
    add_target(client, &mut form);
    request_token(net, client, endpoint, form).await
}

/// Returns whether the peer accepts the stored access token, as far as is known.
fn is_usable(client: &OAuth2, stored: &StoredToken, now: SystemTime) -> bool {
    let refused = client.tokens.refused();
    let header = sensitive(format!("Bearer {}", stored.access_token));
    let is_new = unix_seconds(now).abs_diff(stored.issued_at) < REFUSAL_INTERVAL;
    if !is_new && refused.is_some() && refused == header.ok() {
        return false;
    }
    stored.expires_at.is_none_or(|expires_at| {
        let lifetime = expires_at.saturating_sub(stored.issued_at);
        unix_seconds(now) + REFRESH_MARGIN.min(lifetime / 5) < expires_at
    })
}

fn issued(client: &OAuth2, stored: &StoredToken, now: SystemTime) -> Result<Issued, NetError> {
    let left = stored
        .expires_at
        .map(|at| at.saturating_sub(unix_seconds(now)));
    let token = stored.access_token.clone();
    let mut issued = Issued::bearer(token.into(), None)
        .map_err(|_| unavailable(client, "an HTTP header cannot contain its token"))?;
    issued.lifetime = left.map(Duration::from_secs);
    issued.secrets = stored.secrets();
    Ok(issued)
}

/// Returns an answer in the form of the file. Without a new refresh token, the one of `before` stays valid.
pub(super) fn stored_token(
    client: &OAuth2,
    file: &TokenFile,
    answer: TokenResponse,
    before: Option<&StoredToken>,
    now: SystemTime,
) -> StoredToken {
    let lifetime = answer.lifetime();
    let refresh_token = answer.refresh_token.filter(|token| !token.is_empty());
    let requested = (!client.scopes.is_empty()).then(|| client.scopes.join(" "));
    StoredToken {
        alias: file.alias.clone(),
        user: file.user.clone(),
        access_token: answer.access_token.unwrap_or_default(),
        refresh_token: refresh_token.or_else(|| before?.refresh_token.clone()),
        scope: answer.scope.or_else(|| before?.scope.clone()).or(requested),
        signed_in_at: before.map_or(unix_seconds(now), |before| before.signed_in_at),
        issued_at: unix_seconds(now),
        expires_at: lifetime.map(|lifetime| unix_seconds(now).saturating_add(lifetime.as_secs())),
    }
}

#[cfg(test)]
mod tests;
