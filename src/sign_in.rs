//! Sign-in of a person to a target, sign-out, and the state of a sign-in. Calls refresh the stored token by themselves.

use std::sync::Arc;

use egress::ReqwestClient;
use egress::auth::TokenEndpoint;
use egress::credential::{Credential, Grant, OAuth2, StoredToken, TokenFile};
use egress::sign_in::{self, Prompt, SignedOut};
use tokio::sync::mpsc;

use crate::config::{Config, ConfigError};
use crate::plugin::network;
use crate::targets::{Catalog, Target, for_user};

/// The sign-in of one target, or of one person at a target.
pub struct SignIn {
    client: Arc<OAuth2>,
    file: TokenFile,
    endpoint: TokenEndpoint,
    net: ReqwestClient,
}

/// Why a sign-in cannot begin.
#[derive(Debug)]
pub enum SignInError {
    /// The configuration is invalid.
    Config(ConfigError),
    /// The target cannot be signed in to; a sentence.
    Target(String),
}

impl From<ConfigError> for SignInError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl SignIn {
    /// Opens the sign-in of the target `alias`, or of the only one that needs a sign-in, for `user`.
    ///
    /// # Errors
    /// The configuration is invalid, or the target needs no sign-in.
    pub fn open(
        config_json: &str,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<Self, SignInError> {
        let config = Config::parse(config_json)?;
        let catalog = Catalog::new(&config)?;
        let refused = |message: String| Err(SignInError::Target(message));
        let target = match alias {
            Some(alias) => {
                let named = |target: &&Arc<Target>| target.alias.as_deref() == Some(alias);
                catalog.targets().iter().find(named)
            }
            None => {
                let mut all = catalog.targets().iter();
                all.find(|target| client(target).is_some_and(|client| file(client).is_some()))
                    .filter(|_| {
                        all.all(|other| client(other).is_none_or(|one| file(one).is_none()))
                    })
            }
        };
        let Some(target) = target else {
            return refused(match alias {
                Some(alias) => format!("no target is named `{}`", alias.escape_debug()),
                None => "name a target: not exactly one of them needs a sign-in".to_owned(),
            });
        };
        let name = target.alias.as_deref().unwrap_or_default();
        if let Some(reference) = &target.unresolved {
            return refused(format!("the secret `{reference}` of `{name}` has no value"));
        }
        let target = for_user(target, user);
        let own = client(&target).and_then(|client| Some((Arc::clone(client), file(client)?)));
        let Some((client, file)) = own else {
            return refused(format!(
                "`{name}` needs no sign-in: its `auth` has not the type `oauth2` with the grant `device_code` or `authorization_code`"
            ));
        };
        if file.is_per_user() && user.is_none() {
            return refused(format!(
                "each person signs in to `{name}`: name the person as the host of the agent does, with `--person NAME`"
            ));
        }
        Ok(Self {
            client,
            file,
            endpoint: TokenEndpoint {
                allow_private: target.peer_config.allow_private,
                trust: target.peer_config.trust_elsewhere.clone(),
            },
            net: network(&config)?,
        })
    }

    /// Signs in and stores the token; see [`sign_in::sign_in`].
    ///
    /// # Errors
    /// The server or the person refuses, or the time is up; a sentence.
    pub async fn run(
        &self,
        show: impl FnOnce(Prompt<'_>),
        pasted: mpsc::Receiver<String>,
    ) -> Result<StoredToken, String> {
        let signed_in = sign_in::sign_in(&self.net, &self.client, &self.endpoint, show, pasted);
        signed_in.await.map_err(|error| error.to_string())
    }

    /// Removes the stored token, and revokes it if the server can; see [`sign_in::sign_out`].
    ///
    /// # Errors
    /// The file cannot be removed; a sentence.
    pub async fn sign_out(&self) -> Result<SignedOut, String> {
        let signed_out = sign_in::sign_out(&self.net, &self.client, &self.endpoint);
        signed_out.await.map_err(|error| {
            let dir = self.file.dir().display();
            format!("cannot remove the stored token in `{dir}`: {error}")
        })
    }

    /// Returns the name of the target.
    pub fn alias(&self) -> &str {
        &self.file.alias
    }
}

/// The stored token of a target that needs a sign-in.
pub struct SignInState {
    /// The target.
    pub alias: String,
    /// The command that signs in.
    pub command: String,
    /// The token, if there is one; or why it cannot be read.
    pub token: Result<Option<StoredToken>, String>,
}

/// Returns the state of each target that needs a sign-in, for `user`. Targets where each person signs in need a user.
pub fn states(config_json: &str, user: Option<&str>) -> Vec<SignInState> {
    let config = Config::parse(config_json);
    let Ok(catalog) = config.and_then(|config| Catalog::new(&config)) else {
        return Vec::new();
    };
    let files = catalog.targets().iter().filter_map(|target| {
        let target = for_user(target, user);
        file(client(&target)?)
    });
    let files = files.filter(|file| !file.is_per_user() || file.user.is_some());
    files
        .map(|file| SignInState {
            alias: file.alias.clone(),
            command: file.command(),
            token: file.read().map_err(|error| error.to_string()),
        })
        .collect()
}

fn client(target: &Target) -> Option<&Arc<OAuth2>> {
    match target.peer_config.credential.as_deref()? {
        Credential::OAuth2(client) => Some(client),
        _ => None,
    }
}

fn file(client: &OAuth2) -> Option<TokenFile> {
    match &client.grant {
        Grant::Person { file, .. } => Some(file.clone()),
        _ => None,
    }
}
