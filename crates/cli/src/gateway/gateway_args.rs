//! Selects the gateway of a command: a running gateway by its address, or its files.

use std::{
    env, fs,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base::{
    config::{ConfigError, gateway_url},
    key_source::KeySource,
};
use collective::ErrorCode;
use egress::{
    address::is_this_machine,
    credential::{Trust, TrustError},
};
use gateway_bridge::{
    Signer,
    client::{ClientError, ClientErrorKind, Connector, Endpoint, Health, Requester},
    delegation::{DELEGATION_KEY, Delegation},
};
use gateway_server::config::{PORT, ServerConfig, default_state_dir};
use secrecy::SecretString;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    config::unset_reason,
    credentials::check_variable,
    exit::{Exit, Failure},
    instance,
};

/// The default name of the configuration file, in the state directory.
const CONFIG: &str = "gateway.json";

/// The maximum number of services whose health a command requests.
pub(super) const MAX_SERVICES: usize = 100;

/// A gateway: where it listens, and what it keeps in files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Gateway")]
pub(super) struct GatewayArgs {
    /// The gateway's address [default: where its configuration listens]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The environment variable with the API key or token to send
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,

    /// The PEM file of the trusted certificate authorities, for `wss`
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// The PEM file of the client certificate, for a gateway that requires one
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,

    /// The private key of --cert-file, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,

    /// Allow a gateway on another machine; requires `wss`
    #[arg(long)]
    allow_remote: bool,

    /// The timeout of the connection and of each response, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout_ms: u64,

    /// Sign messages with the private key in this file (PEM: Ed25519 or ECDSA on P-256)
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,

    /// The agent that signs; with --token-env, the agent of that credential
    #[arg(long = "as", value_name = "AGENT", requires = "signing_key")]
    signs_as: Option<String>,

    #[command(flatten)]
    pub(super) files: FileArgs,
}

impl GatewayArgs {
    /// Returns whether the command line names an address.
    pub(super) fn has_url(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the environment variable with the credential.
    pub(super) fn token_variable(&self) -> Option<&str> {
        self.token_env.as_deref()
    }

    /// Returns the address of the gateway.
    ///
    /// # Errors
    /// The command line has no address, and the configuration cannot be read or has port 0.
    pub(super) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let config = self.files.read()?;
        let scheme = if config.tls.is_some() { "wss" } else { "ws" };
        let mut address = config.listen;
        if address.port() == 0 {
            let message = format!(
                "cannot determine the gateway's address: its configuration has port 0 in `listen`; name the address with `--url ws://127.0.0.1:{PORT}`"
            );
            return Err(Failure::usage(message));
        }
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Ok(format!("{scheme}://{address}"))
    }

    /// Returns the endpoint of the gateway.
    ///
    /// # Errors
    /// The address is invalid, the variable is unset, or a file has no certificates or no key.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.endpoint_of(None)
    }

    /// Returns the endpoint like [`endpoint`](Self::endpoint), for the agent `own`.
    ///
    /// # Errors
    /// The same as [`endpoint`](Self::endpoint).
    pub(super) fn endpoint_of(&self, own: Option<&str>) -> Result<Endpoint, Failure> {
        let url = gateway_url(&self.url()?)
            .map_err(|wrong| Failure::usage(format!("the gateway's address {wrong}")))?;
        let token = match &self.token_env {
            None => None,
            Some(variable) => match env::var(variable).ok().filter(|value| !value.is_empty()) {
                Some(value) => Some(SecretString::from(value)),
                None => {
                    check_variable("--token-env", variable)?;
                    let message = format!(
                        "the environment variable `{variable}` {}; put the key or token in it",
                        unset_reason(variable)
                    );
                    return Err(Failure::usage(message));
                }
            },
        };
        let certificate = self.cert_file.as_deref().zip(self.key_file.as_deref());
        if certificate.is_some() && url.scheme() == "ws" {
            let message =
                "`--cert-file` has no effect unless the gateway's address begins with `wss:`";
            return Err(Failure::usage(message));
        }
        let trust = match (&self.ca_file, certificate) {
            (None, None) => None,
            (ca_file, certificate) => Some(read_trust(ca_file.as_deref(), certificate)?),
        };
        Ok(Endpoint {
            url,
            token,
            trust,
            // An address from the configuration was set by the operator, so it may be remote.
            allow_remote: self.allow_remote || self.url.is_none(),
            timeout: Duration::from_millis(self.timeout_ms.max(1)),
            heartbeat: Endpoint::DEFAULT_HEARTBEAT,
            signer: self.signer(own)?,
        })
    }

    /// Returns what signs the messages of the agent `own`, or else of the agent of `--as`.
    ///
    /// # Errors
    /// The file is unusable, or the options name no agent or two.
    fn signer(&self, own: Option<&str>) -> Result<Option<Signer>, Failure> {
        let Some(file) = &self.signing_key else {
            return Ok(None);
        };
        let name = match (own, self.signs_as.as_deref()) {
            (Some(_), Some(_)) => {
                let message = "an agent signs as itself; leave out `--as`";
                return Err(Failure::usage(message));
            }
            (own, other) => own.or(other),
        };
        let name = name.ok_or_else(|| {
            Failure::usage("`--signing-key` needs the agent that signs: `--as AGENT`")
        })?;
        let source = KeySource::KeyFile(file.clone());
        let signer = Signer::read(name, &source, |_| None).map_err(|error| {
            let message = format!(
                "cannot use `--signing-key`: {error}; `remote-agent gateway keygen FILE` makes a key"
            );
            Failure::usage(message)
        })?;
        Ok(Some(signer))
    }

    /// Connects to the gateway. If this process is the command of an agent, its messages carry the next hop of the
    /// delegation.
    ///
    /// # Errors
    /// The gateway is unreachable, or refuses the connection.
    pub(super) async fn connect(&self) -> Result<Requester, Failure> {
        let endpoint = self.endpoint()?;
        let delegation = instance::delegation()?;
        let connected = Self::connector()?.connect(endpoint).await;
        let mut requester = connected.map_err(|error| failure(&error))?;
        if let Some(delegation) = delegation {
            let next = Delegation::next(Some(delegation), Uuid::new_v4);
            requester.set_metadata(DELEGATION_KEY, next.json());
        }
        Ok(requester)
    }

    /// Returns the agents that the running gateway lists, or why it does not.
    ///
    /// # Errors
    /// The command line or the configuration is invalid.
    pub(super) async fn listed(&self) -> Result<Result<Vec<Value>, ClientError>, Failure> {
        let (connector, endpoint) = (Self::connector()?, self.endpoint()?);
        let listed = async {
            let mut requester = connector.connect(endpoint).await?;
            let discovery = requester.discover().await?;
            requester.disconnect().await;
            Ok(discovery["agents"].as_array().cloned().unwrap_or_default())
        };
        Ok(listed.await)
    }

    /// Creates a connector for gateways.
    ///
    /// # Errors
    /// The system's TLS configuration is unusable.
    pub(super) fn connector() -> Result<Connector, Failure> {
        Connector::new().map_err(|error| failure(&error))
    }
}

/// Requests the health of a service that the gateway at `url` lists. Skips services of a remote gateway, because it could
/// name an address that only this machine can reach.
pub(super) async fn service_health(connector: &Connector, url: &str, service: &Value) -> Health {
    let is_local = gateway_url(url).is_ok_and(|url| is_this_machine(&url));
    let endpoint = service["healthEndpoint"].as_str().filter(|_| is_local);
    connector.health(endpoint).await
}

/// Reads the certificate authorities of `--ca-file`.
pub(crate) fn trust(file: &Path) -> Result<Arc<Trust>, Failure> {
    read_trust(Some(file), None)
}

/// Reads the certificate authorities of `--ca-file`, and the client certificate `own` of `--cert-file` and `--key-file`.
fn read_trust(ca_file: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Arc<Trust>, Failure> {
    let (chain, key) = own.unzip();
    let named = |option: &str, file: Option<&Path>| {
        let file = file.unwrap_or(Path::new(""));
        format!("`{option} {}`", file.display())
    };
    let read = |option: &str, file: Option<&Path>| {
        let read = file.map(fs::read).transpose();
        read.map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}", named(option, file)))
        })
    };
    let authorities = read("--ca-file", ca_file)?;
    let own = (read("--cert-file", chain)?).zip(read("--key-file", key)?);
    let own = own.as_ref().map(|(chain, key)| (&**chain, &**key));
    let trust = Trust::read(authorities.as_deref(), own);
    trust.map(Arc::new).map_err(|error| {
        let (option, file, cause) = match error {
            TrustError::Authorities(cause) => ("--ca-file", ca_file, cause),
            TrustError::Chain(cause) => ("--cert-file", chain, cause),
            TrustError::Key(cause) => ("--key-file", key, cause),
        };
        Failure::usage(format!("{} {cause}", named(option, file)))
    })
}

/// Converts an error of the gateway client to a failure of the command.
pub(super) fn failure(error: &ClientError) -> Failure {
    let (exit, next) = match error.kind {
        ClientErrorKind::Unreachable | ClientErrorKind::WrongServer(_) => (Exit::Unreachable, ""),
        ClientErrorKind::Timeout => (Exit::Timeout, "; a larger `--timeout-ms` waits longer"),
        ClientErrorKind::Refused(ErrorCode::AuthRequired) => (
            Exit::Auth,
            "; name the environment variable with the key or token with `--token-env VAR`, or the files of a client certificate with `--cert-file` and `--key-file`",
        ),
        ClientErrorKind::Refused(ErrorCode::AuthFailed | ErrorCode::TokenExpired) => (
            Exit::Auth,
            "; check the key or token in the environment variable of `--token-env`",
        ),
        ClientErrorKind::Refused(code) if (5000..6000).contains(&code.number()) => (Exit::Auth, ""),
        ClientErrorKind::Refused(_) => (Exit::Failed, ""),
    };
    Failure {
        message: format!("{error}{next}"),
        exit,
    }
}

/// Converts an error like [`failure`], for a message to an agent. The exit code distinguishes an offline agent from a busy
/// one.
pub(super) fn delivery_failure(error: &ClientError) -> Failure {
    let failure = failure(error);
    match error.kind {
        // The gateway accepted the credential before, so this is about the signature.
        ClientErrorKind::Refused(ErrorCode::AuthFailed) => Failure {
            message: error.to_string(),
            ..failure
        },
        ClientErrorKind::Refused(ErrorCode::AgentOffline) => Failure {
            exit: Exit::Unreachable,
            ..failure
        },
        ClientErrorKind::Refused(ErrorCode::AgentBusy) => Failure {
            exit: Exit::Timeout,
            ..failure
        },
        _ => failure,
    }
}

/// The files of a gateway.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Files")]
pub(super) struct FileArgs {
    /// Read the gateway's configuration from this file [default: gateway.json in the state directory, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Keep sessions and other state in this directory [default: that of the configuration, else openclaw-remote-agent/gateway in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl FileArgs {
    /// Returns the path of the configuration file. The file may be missing unless an option named it.
    pub(super) fn config_file(&self) -> PathBuf {
        let default_file = |folder: PathBuf| folder.join(CONFIG);
        match (&self.config, &self.state_dir) {
            (Some(file), _) => file.clone(),
            (None, Some(folder)) => default_file(folder.clone()),
            (None, None) => default_file(default_state_dir(|name| env::var_os(name))),
        }
    }

    /// Returns whether `--config` names a file.
    pub(super) fn names_config(&self) -> bool {
        self.config.is_some()
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// The named file cannot be read, or the configuration is invalid.
    pub(super) fn read(&self) -> Result<ServerConfig, Failure> {
        let file = self.config_file();
        let mut config = match self.config.is_some() || file.exists() {
            true => ServerConfig::read(&file).map_err(|error| self.unusable(&error))?,
            false => ServerConfig::default(),
        };
        match &self.state_dir {
            Some(folder) => config.state_dir.clone_from(folder),
            None => base::config::check_state_dir(&config.state_dir, "gateway", |name| {
                env::var_os(name)
            })
            .map_err(Failure::usage)?,
        }
        // The running gateway may have another working directory.
        if let Ok(folder) = std::path::absolute(&config.state_dir) {
            config.state_dir = folder;
        }
        Ok(config)
    }

    /// Returns the failure for a setting of the configuration that the gateway cannot use.
    pub(super) fn unusable(&self, error: &ConfigError) -> Failure {
        Failure::usage(format!(
            "cannot use the configuration `{}`: {error} (docs/reference/gateway.md lists all settings)",
            self.config_file().display()
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        io::{BufRead as _, BufReader, ErrorKind, Write as _},
        net::TcpListener,
        thread,
    };

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn health_is_requested_for_a_gateway_on_this_machine_only() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let service = json!({"healthEndpoint": format!("http://{address}/health")});
        let connector = GatewayArgs::connector().unwrap();
        let remote = service_health(&connector, "wss://gate.example", &service).await;
        assert_eq!(remote, Health::Unknown);
        listener.set_nonblocking(true).unwrap();
        let requested = listener.accept().map(|_| ());
        assert_eq!(requested.unwrap_err().kind(), ErrorKind::WouldBlock);
        listener.set_nonblocking(false).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(response).unwrap();
        });
        let local = service_health(&connector, "ws://127.0.0.1:18789", &service).await;
        assert_eq!(local, Health::Healthy);
    }
}
