//! Sign-in of a person to a target of a configuration, and the state of a sign-in. Calls refresh the stored token by themselves.

use std::sync::Arc;
use std::time::Duration;

use egress::credential::StoredToken;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::config::{Config, ConfigError};
use crate::plugin::network;
use crate::remote_agent::{check_issuer, token_file};
use crate::targets::{Catalog, for_user};

pub use crate::remote_agent::SignIn;

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

/// Opens the sign-in of the target `alias`, or of the only one that needs a sign-in, for `user`.
///
/// # Errors
/// The configuration is invalid, or the target needs no sign-in.
pub fn open(
    config_json: &str,
    alias: Option<&str>,
    user: Option<&str>,
) -> Result<SignIn, SignInError> {
    let config = Config::parse(config_json)?;
    let catalog = Catalog::new(&config)?;
    let net = Arc::new(network(&config)?);
    SignIn::find(&catalog, net, alias, user).map_err(SignInError::Target)
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
    let targets = catalog.targets().iter();
    let files = targets.filter_map(|target| token_file(&for_user(target, user)));
    let files = files.filter(|file| !file.is_per_user() || file.user.is_some());
    files
        .map(|file| SignInState {
            alias: file.alias.clone(),
            command: file.command(),
            token: file.read().map_err(|error| error.to_string()),
        })
        .collect()
}

/// Reads the metadata of the issuers of a configuration, each within `limit`. Returns the alias of each target whose authorization
/// server cannot be used, and a sentence.
pub async fn issuer_faults(config_json: &str, limit: Duration) -> Vec<(String, String)> {
    let config = Config::parse(config_json);
    let opened = config.and_then(|config| Ok((Catalog::new(&config)?, network(&config)?)));
    let Ok((catalog, net)) = opened else {
        return Vec::new();
    };
    let checks = catalog.targets().iter().map(async |target| {
        let checked = timeout(limit, check_issuer(target, &net)).await;
        let seconds = limit.as_secs();
        let late = || {
            Err(format!(
                "the authorization server has not answered within {seconds} seconds"
            ))
        };
        let fault = checked.unwrap_or_else(|_| late()).err()?;
        Some((target.alias.clone().unwrap_or_default(), fault))
    });
    join_all(checks).await.into_iter().flatten().collect()
}
