//! A client of an authorization server (RFC 6749). `oauth2.rs` in the crate's root gets its tokens.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::Instant;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use url::Url;

use super::{AssertionKey, Credential, StoredToken, TokenFile, Tokens, Trust, basic, form_encoded};
use crate::NetError;

/// The maximum number of people whose tokens are in memory at a time.
const MAX_USERS: usize = 1000;

/// How a client authenticates at the token endpoint (RFC 6749 §2.3.1).
#[derive(Clone, Default, Hash)]
pub enum ClientAuth {
    /// In the header `Authorization: Basic`, which every server must support.
    #[default]
    Basic,
    /// In the body of the request.
    Post,
    /// Not at all: a public client has only an id.
    None,
    /// With a signed assertion (RFC 7523 §2.2).
    PrivateKeyJwt(Arc<AssertionKey>),
    /// With a certificate (RFC 8705 §2): the trust of requests to the token endpoint.
    Tls(Arc<Trust>),
}

/// How a client gets its tokens.
#[derive(Clone, Hash)]
pub enum Grant {
    /// As itself (RFC 6749 §4.4).
    ClientCredentials,
    /// A person signs in before the first call. Calls refresh the stored token.
    Person {
        /// How the person signs in.
        flow: SignInFlow,
        /// Where the token is.
        file: TokenFile,
    },
    /// In exchange for the token in a file, read for each exchange (RFC 8693).
    TokenExchange {
        /// The file.
        subject: PathBuf,
        /// The type of its token.
        subject_type: String,
    },
}

/// How a person signs in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SignInFlow {
    /// With a code, in any browser (RFC 8628).
    DeviceCode,
    /// In a browser that returns to this address with a code (RFC 6749 §4.1); `None` for any free port of this machine.
    AuthorizationCode(Option<Url>),
}

/// The endpoints of an authorization server. Configured ones precede those that its metadata names.
#[derive(Default)]
pub struct Endpoints {
    /// The issuer, whose metadata names the endpoints that are not configured.
    pub issuer: Option<Url>,
    /// The token endpoint.
    pub token: Option<Url>,
    /// The authorization endpoint.
    pub authorization: Option<Url>,
    /// The device authorization endpoint.
    pub device: Option<Url>,
    /// The metadata, once it is known.
    pub metadata: OnceCell<Metadata>,
}

/// The endpoints in the metadata of an authorization server.
#[derive(Clone)]
pub struct Metadata {
    pub(crate) token: Found,
    pub(crate) authorization: Found,
    pub(crate) device: Found,
    pub(crate) revocation: Found,
    /// Whether the server names its issuer to the browser's return (RFC 9207 §3).
    pub(crate) names_issuer: bool,
}

/// An endpoint in metadata, if they name it; or why it is not used.
pub(crate) type Found = Result<Option<Url>, String>;

/// A client of an authorization server.
#[derive(Clone)]
pub struct OAuth2 {
    /// The server.
    pub endpoints: Arc<Endpoints>,
    /// The client's id.
    pub client_id: String,
    /// The client's secret; `None` if it authenticates without one.
    pub client_secret: Option<SecretString>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// How the client authenticates.
    pub client_auth: ClientAuth,
    /// The requested audience, which some servers require in addition to RFC 6749.
    pub audience: Option<String>,
    /// The requested resource (RFC 8707).
    pub resource: Option<String>,
    /// Further parameters of requests.
    pub params: Vec<(String, String)>,
    /// How it gets its tokens.
    pub grant: Grant,
    /// The issued tokens.
    pub tokens: Arc<Tokens>,
    /// The turn to ask a person to sign in.
    pub signing_in: Arc<tokio::sync::Mutex<SignInTurn>>,
    /// The refreshes that the server may have received, of all people.
    pub refreshes: TaskTracker,
    /// The credentials of people, if each has a token of their own.
    pub users: Users,
}

/// The credentials of people.
#[derive(Clone, Default)]
pub struct Users(Arc<Mutex<HashMap<String, Arc<Credential>>>>);

impl OAuth2 {
    /// Creates a client without a token, which gets tokens by client credentials.
    pub fn new(
        token_url: Url,
        client_id: String,
        client_secret: SecretString,
        scopes: Vec<String>,
    ) -> Self {
        let endpoints = Endpoints {
            token: Some(token_url),
            ..Endpoints::default()
        };
        let grant = Grant::ClientCredentials;
        Self {
            client_secret: Some(client_secret),
            scopes,
            ..Self::at(endpoints, client_id, grant)
        }
    }

    /// Creates a client of the server at `endpoints` without a secret and without a token.
    pub fn at(endpoints: Endpoints, client_id: String, grant: Grant) -> Self {
        Self {
            endpoints: Arc::new(endpoints),
            client_id,
            client_secret: None,
            scopes: Vec::new(),
            client_auth: ClientAuth::default(),
            audience: None,
            resource: None,
            params: Vec::new(),
            grant,
            tokens: Arc::default(),
            signing_in: Arc::default(),
            refreshes: TaskTracker::new(),
            users: Users::default(),
        }
    }

    /// Returns the client with the token of `user`; `None` if all share one token.
    pub(crate) fn for_user(&self, user: Option<&str>) -> Option<Arc<Credential>> {
        let Grant::Person { flow, file } = &self.grant else {
            return None;
        };
        if !file.is_per_user() {
            return None;
        }
        let key = user.unwrap_or_default();
        let mut users = self.users.0.lock();
        if let Some(known) = users.get(key) {
            return Some(Arc::clone(known));
        }
        if users.len() >= MAX_USERS {
            users.clear();
        }
        let client = Self {
            grant: Grant::Person {
                flow: flow.clone(),
                file: file.for_user(user),
            },
            tokens: Arc::default(),
            signing_in: Arc::default(),
            ..self.clone()
        };
        let credential = Arc::new(Credential::OAuth2(Arc::new(client)));
        users.insert(key.to_owned(), Arc::clone(&credential));
        Some(credential)
    }

    /// Returns whether the agent has refused the token.
    pub fn is_refused(&self) -> bool {
        self.tokens.refused().is_some()
    }

    /// Encodes the client's id and secret for `Authorization: Basic`, each form-encoded first (RFC 6749 §2.3.1).
    pub fn basic(&self) -> SecretString {
        let secret = self.client_secret.as_ref();
        let secret = secret.map_or("", |secret| secret.expose_secret());
        basic(&form_encoded(&self.client_id), &form_encoded(secret))
    }

    /// Returns the client's secret, alone and with the client's id.
    pub fn secrets(&self) -> Vec<SecretString> {
        let secret = self.client_secret.clone();
        secret.map_or_else(Vec::new, |secret| vec![secret, self.basic()])
    }
}

impl Hash for OAuth2 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Endpoints {
            issuer,
            token,
            authorization,
            device,
            metadata: _,
        } = &*self.endpoints;
        [issuer, token, authorization, device].hash(state);
        let secret = self.client_secret.as_ref();
        secret.map(|secret| secret.expose_secret()).hash(state);
        (&self.client_id, &self.scopes, &self.client_auth).hash(state);
        (&self.audience, &self.resource, &self.params, &self.grant).hash(state);
    }
}

/// A code that the person enters at an address.
pub struct DeviceCode {
    /// The address.
    pub url: Url,
    /// The address with the code in it.
    pub complete_url: Option<Url>,
    /// The code.
    pub user_code: String,
    /// How long it is valid.
    pub expires_in: Duration,
}

/// What the person has to do.
pub enum Prompt {
    /// Enter a code.
    Device(DeviceCode),
    /// Open an address in a browser of this machine, or paste the address at which another browser ends.
    Browser(Url),
    /// Paste again, and why.
    PasteAgain(&'static str),
}

/// Why a sign-in ended without a token.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The person refused, at the server.
    #[error("the sign-in was declined")]
    Declined,
    /// Something else.
    #[error(transparent)]
    Failed(#[from] NetError),
}

/// The sign-in that calls of one token ask for, one at a time.
#[derive(Default)]
pub struct SignInTurn {
    /// How the last one ended without a token.
    pub refusal: Option<Refusal>,
    /// When a person signed in for a call.
    pub signed_in_at: Option<Instant>,
    /// The sign-in that goes on without a call.
    pub running: Option<RunningSignIn>,
}

/// Why a sign-in has no token, for the calls that waited for it.
pub struct Refusal {
    /// When it ended.
    pub at: Instant,
    /// A sentence.
    pub reason: String,
    /// Whether the person refused, so that the next calls do not ask either.
    pub is_persons: bool,
}

/// A sign-in in a task of its own. It ends when this is dropped.
pub struct RunningSignIn {
    /// Its end.
    pub ended: AbortOnDropHandle<Result<StoredToken, SignInError>>,
    /// What the person has to do next.
    pub prompts: mpsc::Receiver<Prompt>,
    /// The address at which a browser ended.
    pub pasted: mpsc::Sender<String>,
    /// What the person has to do first, once it is known.
    pub shown: Option<Prompt>,
    /// Whether it goes on after the call that began it.
    pub is_kept: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn id_and_secret_are_form_encoded_before_they_are_joined() {
        let client = OAuth2::new(
            Url::parse("https://as.example/token").unwrap(),
            "a:b".into(),
            "c d".to_owned().into(),
            Vec::new(),
        );
        // The Base64 of `a%3Ab:c+d`.
        assert_eq!(client.basic().expose_secret(), "YSUzQWI6Yytk");
    }
}
