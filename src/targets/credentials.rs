//! Converts the credentials of the configuration, and reads the files that it names: certificates, and the keys that verify
//! a target's agent card.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::environment::SystemEnvironment;
use base::files::read_bytes;
use base::jws::KeySet;
use egress::credential::{
    AssertionKey, AwsKeySource, AwsKeys, AwsSigV4, ClientAuth, CommandCredential, Credential,
    CredentialPlace, Endpoints, Grant, OAuth2, SignInFlow, TokenFile, Trust, TrustError,
};
use http::HeaderName;
use peer::CardKeys;
use secrecy::SecretString;

use crate::config::{
    self, Auth, ConfigError, Gateway, KeyPlace, Program, Secret, TargetConfig, normal_url,
};

/// The limit of the time of a program that prints a credential, if the settings name none.
const DEFAULT_PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason that a credential is missing.
pub(super) enum CredentialError {
    /// The host has not resolved this secret reference.
    Secret(String),
    /// A value is invalid in a way that the schema cannot detect.
    Use(String),
}

/// Returns the credential of a target; `None` without one, and for mTLS, whose certificate belongs to the connection. `dir` is
/// the configured state directory.
pub(super) fn credential(
    target: &TargetConfig,
    trusts: &TargetTrust,
    dir: Option<&Path>,
) -> Result<Option<Credential>, CredentialError> {
    let Some(auth) = &target.auth else {
        return Ok(None);
    };
    Ok(Some(match auth {
        Auth::Bearer { token } => Credential::Bearer(resolved(token)?),
        Auth::Basic { username, password } => Credential::Basic {
            username: username.clone(),
            password: resolved(password)?,
        },
        Auth::ApiKey { place, name, value } => Credential::ApiKey {
            key: resolved(value)?,
            place: match place {
                KeyPlace::Header => CredentialPlace::Header(
                    HeaderName::try_from(name)
                        .map_err(|error| CredentialError::Use(error.to_string()))?,
                ),
                KeyPlace::Query => CredentialPlace::Query(name.clone()),
                KeyPlace::Cookie => CredentialPlace::Cookie(name.clone()),
            },
        },
        Auth::OAuth2(settings) => {
            Credential::OAuth2(Arc::new(oauth2(settings, target, trusts, dir)?))
        }
        Auth::Command { program } => Credential::Command(Arc::new(command(program))),
        Auth::AwsSigV4 {
            region,
            service,
            access_key_id,
            secret_access_key,
            session_token,
            program,
        } => Credential::AwsSigV4(Box::new(AwsSigV4 {
            region: region.clone(),
            service: service.clone(),
            keys: match (access_key_id, secret_access_key) {
                (Some(id), Some(key)) => AwsKeySource::Settings(AwsKeys {
                    access_key_id: resolved(id)?,
                    secret_access_key: resolved(key)?,
                    session_token: session_token.as_ref().map(resolved).transpose()?,
                }),
                _ => AwsKeySource::Command(Arc::new(command(program))),
            },
            clock: Arc::new(SystemEnvironment),
        })),
        Auth::MutualTls { .. } => return Ok(None),
    }))
}

fn oauth2(
    settings: &config::OAuth2,
    target: &TargetConfig,
    trusts: &TargetTrust,
    dir: Option<&Path>,
) -> Result<OAuth2, CredentialError> {
    let url = |text: &Option<String>| {
        let text = text.as_deref();
        text.map(normal_url)
            .transpose()
            .map_err(CredentialError::Use)
    };
    let endpoints = Endpoints {
        issuer: url(&settings.issuer)?,
        token: url(&settings.token_url)?,
        authorization: url(&settings.authorization_url)?,
        device: url(&settings.device_authorization_url)?,
        ..Endpoints::default()
    };
    let grant = match settings.grant {
        config::Grant::ClientCredentials => Grant::ClientCredentials,
        config::Grant::TokenExchange => Grant::TokenExchange {
            subject: settings.subject_token_file.clone().unwrap_or_default(),
            subject_type: settings
                .subject_token_type
                .clone()
                .unwrap_or_else(|| JWT_TYPE.to_owned()),
        },
        config::Grant::DeviceCode => Grant::Person {
            flow: SignInFlow::DeviceCode,
            file: token_file(settings, target, dir)?,
        },
        config::Grant::AuthorizationCode => Grant::Person {
            flow: SignInFlow::AuthorizationCode(url(&settings.redirect_url)?),
            file: token_file(settings, target, dir)?,
        },
    };
    let client_auth = match settings.client_auth {
        None | Some(config::ClientAuth::Basic) => ClientAuth::Basic,
        Some(config::ClientAuth::Post) => ClientAuth::Post,
        Some(config::ClientAuth::None) => ClientAuth::None,
        Some(config::ClientAuth::PrivateKeyJwt) => {
            ClientAuth::PrivateKeyJwt(Arc::new(assertion_key(settings)?))
        }
        Some(config::ClientAuth::Tls) => {
            let own = trusts.token.clone();
            ClientAuth::Tls(own.ok_or_else(|| CredentialError::Use("no certificate".to_owned()))?)
        }
    };
    let params = settings.token_params.iter();
    Ok(OAuth2 {
        client_secret: settings.client_secret.as_ref().map(resolved).transpose()?,
        scopes: settings.scopes.clone(),
        client_auth,
        audience: settings.audience.clone(),
        resource: settings.resource.clone(),
        params: params
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        ..OAuth2::at(endpoints, settings.client_id.clone(), grant)
    })
}

/// The type of a token to exchange, if the settings name none (RFC 8693 §3).
const JWT_TYPE: &str = "urn:ietf:params:oauth:token-type:jwt";

fn assertion_key(settings: &config::OAuth2) -> Result<AssertionKey, CredentialError> {
    let file = settings.client_key_file.as_deref().unwrap_or(Path::new(""));
    let invalid = |reason: String| {
        CredentialError::Use(format!(
            "the file `{}` of clientKeyFile {reason}",
            file.display()
        ))
    };
    let pem = read_file(file).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    AssertionKey::parse(&pem, settings.client_key_id.clone())
        .map_err(|reason| invalid(reason.to_owned()))
}

/// Returns the file of the token of the person who signs in to a target. A sign-in is for one server, client and agent: with
/// other settings it does not apply, and its token reaches no other origin.
fn token_file(
    settings: &config::OAuth2,
    target: &TargetConfig,
    dir: Option<&Path>,
) -> Result<TokenFile, CredentialError> {
    let dir = base::config::plugin_state_dir(dir, |name| std::env::var_os(name));
    if dir.is_relative() {
        let message =
            "the tokens of people who sign in need a directory: set `stateDir` to an absolute path";
        return Err(CredentialError::Use(message.to_owned()));
    }
    let scopes = settings.scopes.join(" ");
    let identity = [
        &settings.issuer,
        &settings.token_url,
        &settings.audience,
        &settings.resource,
        &target.card_url,
        &target.endpoint,
    ];
    let identity = identity.map(|part| part.as_deref().unwrap_or_default());
    let own = [target.base_url.as_str(), &settings.client_id, &scopes];
    let identity = [&identity[..], &own].concat();
    let per_user = settings.per == config::Per::User;
    let (dir, alias) = (dir.join("tokens"), target.alias.clone());
    Ok(TokenFile::new(dir, alias, &identity, per_user))
}

fn command<T>(program: &Program) -> CommandCredential<T> {
    let timeout = program
        .timeout_ms
        .map_or(DEFAULT_PROGRAM_TIMEOUT, Duration::from_millis);
    CommandCredential::new(program.command.clone(), program.env.clone(), timeout)
}

fn resolved(secret: &Secret) -> Result<SecretString, CredentialError> {
    secret.value().cloned().map_err(CredentialError::Secret)
}

/// The TLS trust of a target's connections.
#[derive(Default, Clone)]
pub(super) struct TargetTrust {
    /// For the target's own origins.
    pub(super) own: Option<Arc<Trust>>,
    /// For other origins.
    pub(super) elsewhere: Option<Arc<Trust>>,
    /// For the authorization server, if the client authenticates there with a certificate.
    pub(super) token: Option<Arc<Trust>>,
}

/// The certificates and keys of all targets. Targets that name the same files share the parsed files, and with them
/// their connections. The flag: the certificate is for the authorization server.
#[derive(Default)]
pub(super) struct Files(HashMap<([Option<PathBuf>; 3], bool), TargetTrust>);

impl Files {
    /// Reads the files of the target at `place`.
    ///
    /// # Errors
    /// A file cannot be read or has the wrong content; the error names the setting.
    pub(super) fn read(
        &mut self,
        target: &TargetConfig,
        place: &str,
    ) -> Result<TargetTrust, ConfigError> {
        let ca = target.tls.ca_file.as_deref();
        let own = match &target.auth {
            Some(Auth::MutualTls {
                cert_file,
                key_file,
            }) => Some((cert_file.as_path(), key_file.as_path())),
            Some(Auth::OAuth2(settings)) => {
                let files = (settings.cert_file.as_deref(), settings.key_file.as_deref());
                files.0.zip(files.1)
            }
            _ => None,
        };
        let for_server = own.is_some() && matches!(target.auth, Some(Auth::OAuth2(_)));
        if ca.is_none() && own.is_none() {
            return Ok(TargetTrust::default());
        }
        let names = [ca, own.map(|(cert, _)| cert), own.map(|(_, key)| key)];
        let names = names.map(|name| name.map(Path::to_owned));
        let names = (names, for_server);
        if let Some(known) = self.0.get(&names) {
            return Ok(known.clone());
        }
        let trust = trust(&names.0, [CA, CERT, KEY], place)?;
        let elsewhere = match own {
            Some(_) => trust.anonymous().map(Arc::new),
            None => None,
        };
        let own = Arc::new(trust);
        if for_server {
            let trusts = TargetTrust {
                own: elsewhere.clone(),
                elsewhere,
                token: Some(own),
            };
            self.0.insert(names, trusts.clone());
            return Ok(trusts);
        }
        let trusts = TargetTrust {
            token: None,
            // Without a client certificate both are the same.
            elsewhere: elsewhere.or_else(|| own.certificate().is_none().then(|| Arc::clone(&own))),
            own: Some(own),
        };
        self.0.insert(names, trusts.clone());
        Ok(trusts)
    }
}

/// Reads certificate authorities, a certificate chain and its key, each named by its field below `place`. The chain
/// requires the key, and the key the chain.
fn trust(
    files: &[Option<PathBuf>; 3],
    fields: [&str; 3],
    place: &str,
) -> Result<Trust, ConfigError> {
    let invalid = |which: usize, reason: &str| {
        let file = files[which].as_deref().unwrap_or(Path::new(""));
        let message = format!("the file `{}` {reason}", file.display());
        ConfigError::at(format!("{place}/{}", fields[which]), message)
    };
    let read = |which: usize| {
        let file = files[which].as_deref();
        let read = file.map(read_file).transpose();
        read.map_err(|error| invalid(which, &format!("cannot be read: {error}")))
    };
    let (authorities, chain, key) = (read(0)?, read(1)?, read(2)?);
    let trust = Trust::read(authorities.as_deref(), chain.as_deref().zip(key.as_deref()));
    trust.map_err(|unusable| match unusable {
        TrustError::Authorities(reason) => invalid(0, reason),
        TrustError::Chain(reason) => invalid(1, reason),
        TrustError::Key(reason) => invalid(2, reason),
    })
}

/// Returns the TLS trust of the local gateway; `None` for the system's.
///
/// # Errors
/// A file cannot be read or has the wrong content; the error names the setting.
pub fn local_trust(gateway: &Gateway) -> Result<Option<Arc<Trust>>, ConfigError> {
    let tls = &gateway.tls;
    let files = [&tls.ca_file, &tls.cert_file, &tls.key_file].map(Clone::clone);
    if files.iter().all(Option::is_none) {
        return Ok(None);
    }
    let fields = ["caFile", "certFile", "keyFile"];
    let trust = trust(&files, fields, "/gateway/tls")?;
    Ok(Some(Arc::new(trust)))
}

const CA: &str = "tls/caFile";
const CERT: &str = "auth/certFile";
const KEY: &str = "auth/keyFile";

/// The size limit in bytes. The files hold certificates and keys.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a whole file. It may be a pipe, as a shell passes for `<(…)`.
///
/// # Errors
/// The file cannot be read or is too large.
fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    read_bytes(File::open(file)?, MAX_FILE_BYTES)
}

/// Returns the keys of a target; `None` if its card need not be signed.
///
/// # Errors
/// The key file cannot be read or is invalid.
pub(super) fn card_keys(target: &TargetConfig) -> Result<Option<CardKeys>, String> {
    if !target.require_signed_card {
        return Ok(None);
    }
    let Some(file) = &target.jwks_file else {
        return Ok(Some(CardKeys::OfOwnOrigin));
    };
    let shown = file.display();
    let bytes = read_file(file).map_err(|e| format!("the file `{shown}` cannot be read: {e}"))?;
    let keys = KeySet::parse(&bytes).map_err(|e| format!("in the file `{shown}`, {e}"))?;
    Ok(Some(CardKeys::Configured(Arc::new(keys))))
}

#[cfg(test)]
mod tests;
