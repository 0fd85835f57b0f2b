//! Gateways inside this process for the duration of a command: one of `a2a-v1` on a free loopback port with a temporary state
//! directory and scripted agents, and the scripted ones of `remote-agent gateway --profile`, for tests of clients.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base::{environment::SystemEnvironment, files::Fsync, log::Silent};
use collective::Vote;
use gateway_bridge::client::{AgentEvent, Ballot, Connector, Endpoint, Script};
use gateway_server::{
    Server,
    config::{AuditConfig, ServerConfig},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::gateway_args::failure;
use crate::{exit::Failure, output::note};

/// The delay between the votes of successive agents. Votes arrive in the order of the agents; without the delay, two votes
/// might decide before the third arrives.
const VOTE_INTERVAL: Duration = Duration::from_millis(150);

/// A gateway in this process. Dropping it stops it and removes its files.
pub(crate) struct Embedded {
    url: String,
    shutdown: CancellationToken,
    connector: Connector,
    /// The gateway and its agents. Declared before the directory, so that they are dropped first.
    tasks: JoinSet<()>,
    _folder: TempDirectory,
}

impl Embedded {
    /// Starts the gateway without agents.
    ///
    /// # Errors
    /// The gateway cannot listen, or cannot write its files.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let folder = TempDirectory::new();
        let config = ServerConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            state_dir: folder.0.clone(),
            // The temporary state directory needs no durability.
            fsync: Fsync::Never,
            audit: AuditConfig {
                enabled: false,
                ..AuditConfig::default()
            },
            ..ServerConfig::default()
        };
        let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::new(Silent)).await;
        let server =
            server.map_err(|error| Failure::new(format!("cannot start a gateway: {error}")))?;
        let shutdown = CancellationToken::new();
        let url = server.url();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run(shutdown.clone()));
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            shutdown,
            connector: Connector::new().map_err(|error| failure(&error))?,
            tasks,
            _folder: folder,
        })
    }

    /// Starts the gateway with these agents, and prints its address and its agents on standard error.
    ///
    /// # Errors
    /// The gateway cannot start, or an agent cannot connect.
    pub(crate) async fn with(agents: &[Script]) -> Result<Self, Failure> {
        let mut gateway = Self::start().await?;
        let mut vote_delay = Duration::ZERO;
        for agent in agents {
            let mut agent = agent.clone();
            agent.delay += vote_delay;
            vote_delay += VOTE_INTERVAL;
            gateway.agent(agent).await?;
        }
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let agent_list = match names.is_empty() {
            true => "no agents; `--gateway-agent alpha=approve` adds one".to_owned(),
            false => names.join(", "),
        };
        note(format_args!(
            "{}: a2a-v1, until this command ends: {agent_list}",
            gateway.url()
        ));
        Ok(gateway)
    }

    /// Returns its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts an agent and waits until it is connected.
    ///
    /// # Errors
    /// The agent cannot connect.
    pub(crate) async fn agent(&mut self, script: Script) -> Result<(), Failure> {
        let url = self.url.parse().map_err(|_| Failure::new("no URL"))?;
        let endpoint = Endpoint::new(url);
        let connected = CancellationToken::new();
        let on_connected = connected.clone();
        let connector = self.connector.clone();
        let shutdown = self.shutdown.clone();
        let name = script.name.clone();
        self.tasks.spawn(async move {
            let on_event = move |event: &AgentEvent| {
                if matches!(event, AgentEvent::Connected(_)) {
                    on_connected.cancel();
                }
            };
            // The timeout below reports an agent that cannot connect.
            let _ = connector.serve(endpoint, script, on_event, shutdown).await;
        });
        let connected =
            tokio::time::timeout(Endpoint::DEFAULT_TIMEOUT, connected.cancelled()).await;
        connected.map_err(|_| {
            Failure::new(format!(
                "the agent `{name}` cannot connect to `{}`",
                self.url
            ))
        })
    }
}

/// Returns the configuration with the gateway at `url`, unless it already has one. Returns anything but a JSON object
/// unchanged.
pub(crate) fn with_gateway(config: &str, url: &str) -> String {
    let Ok(Value::Object(mut settings)) = serde_json::from_str(config) else {
        return config.to_owned();
    };
    let gateway = settings.entry("gateway").or_insert_with(|| json!({}));
    if let Some(gateway) = gateway.as_object_mut()
        && !gateway.contains_key("url")
    {
        gateway.insert("url".into(), url.into());
        gateway.entry("enabled").or_insert(true.into());
    }
    Value::from(settings).to_string()
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.tasks.abort_all();
    }
}

/// A temporary directory, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new() -> Self {
        let name = format!("remote-agent-gateway-{}", Uuid::new_v4().simple());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The hint for an invalid value.
const FORM: &str = "write NAME=approve, NAME=reject, NAME=abstain, NAME=silent or NAME=reply:TEXT";

/// The delay of scripted agents in milliseconds. It lets a user watch the votes arrive one by one.
const REPLY_DELAY_MS: u64 = 300;

/// Reads `NAME=HOW`.
///
/// # Errors
/// The value is invalid. The message shows the expected form.
pub(crate) fn scripted(text: &str) -> Result<Script, String> {
    let (name, how) = text.split_once('=').ok_or(FORM)?;
    if name.is_empty() {
        return Err(FORM.to_owned());
    }
    let (vote, reply) = match how {
        "approve" => (Some(Vote::Approve), None),
        "reject" => (Some(Vote::Reject), None),
        "abstain" => (Some(Vote::Abstain), None),
        "silent" => (None, None),
        how => (None, Some(how.strip_prefix("reply:").ok_or(FORM)?)),
    };
    Ok(Script {
        name: name.to_owned(),
        ballot: vote.map(|vote| Ballot {
            vote,
            reasoning: Script::REASON.to_owned(),
            confidence: None,
        }),
        delay: Duration::from_millis(REPLY_DELAY_MS),
        reply: reply.unwrap_or(Script::REPLY).to_owned(),
    })
}

/// The scripted gateways of `remote-agent gateway --profile`.
#[cfg(feature = "conformance")]
pub(super) mod profile {
    use std::{
        io::{self, ErrorKind},
        net::{Ipv4Addr, SocketAddr},
    };

    use conformance::gateways::{Gateways, profile};

    use crate::exit::Failure;

    /// Starts the gateway of this name on a port of 127.0.0.1. It ends when it is dropped.
    ///
    /// # Errors
    /// The port is in use.
    pub(in crate::gateway) async fn start(name: &str, port: u16) -> Result<Gateways, Failure> {
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        let failed = |error: io::Error| {
            Failure::new(format!(
                "cannot run the profile `{name}` at {address}: {error}"
            ))
        };
        let script = profile(name).map_err(failed)?;
        let gateway = Gateways::start_at(&script, address).await;
        gateway.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => Failure::new(format!(
                "cannot run the profile `{name}`: the port {} of {} is taken; `remote-agent gateway status --url ws://{address}` shows whether a gateway uses it, and `--port 0` selects a free one",
                address.port(),
                address.ip()
            )),
            _ => failed(error),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn configuration_without_gateway_gets_the_embedded_one() {
        let with = |config| with_gateway(config, "ws://127.0.0.1:1");
        let fresh: Value = serde_json::from_str(&with("{}")).unwrap_or_default();
        let wanted = json!({"gateway": {"url": "ws://127.0.0.1:1", "enabled": true}});
        assert_eq!(fresh, wanted);
        let quorum = r#"{"gateway":{"triad":{"quorum":"all"}}}"#;
        let set: Value = serde_json::from_str(&with(quorum)).unwrap_or_default();
        assert_eq!(set["gateway"]["triad"]["quorum"], "all");
        assert_eq!(set["gateway"]["enabled"], true);
        for own in [r#"{"gateway":{"url":"ws://127.0.0.1:2"}}"#, "[]", "{"] {
            assert_eq!(with(own), own);
        }
    }

    #[test]
    fn parses_agent_name_and_behavior() {
        let vote = |text| scripted(text).unwrap().ballot.map(|ballot| ballot.vote);
        assert_eq!(vote("alpha=approve"), Some(Vote::Approve));
        assert_eq!(vote("alpha=reject"), Some(Vote::Reject));
        assert_eq!(vote("alpha=abstain"), Some(Vote::Abstain));
        assert_eq!(vote("alpha=silent"), None);
        let coder = scripted("coder=reply:a=b: {text}").unwrap();
        assert_eq!(
            (coder.name.as_str(), coder.reply.as_str()),
            ("coder", "a=b: {text}")
        );
    }

    #[test]
    fn bad_agent_error_shows_the_form() {
        for text in ["alpha", "=approve", "alpha=", "alpha=yes"] {
            assert_eq!(scripted(text).unwrap_err(), FORM, "{text}");
        }
    }
}
