//! The options for the local gateway, for interactive commands without a configuration.

use base::config::gateway_url;
use egress::address::is_this_machine;
use gateway_bridge::client::Script;
use serde_json::{Value, json};
use url::Url;

use super::{
    credentials::check_variable,
    exit::Failure,
    gateway::embedded::{Embedded, scripted},
    text::shell,
};

/// The alias prefix of the gateway's agents.
const ALIAS: &str = "gateway:";

/// The option value that selects a gateway inside this process instead of a URL.
pub(super) const EMBEDDED: &str = "embedded";

/// Which gateway.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct LocalArgs {
    /// Call the agents of the local gateway at this URL (ws://127.0.0.1:18789), without a configuration; --target
    /// names one of them. `embedded` runs a gateway of a2a-v1 in this process until the command ends
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "openclaw", "url"])]
    gateway: Option<String>,

    /// Send the token in this environment variable to the gateway of --gateway
    #[arg(long, value_name = "VAR", requires = "gateway")]
    gateway_token_env: Option<String>,

    /// The protocol of the gateway; by default the command detects it
    #[arg(long, value_name = "DIALECT", requires = "gateway", value_parser = ["auto", "openclaw", "a2a-v1", "heretek-js"])]
    gateway_dialect: Option<String>,

    /// Add a scripted agent to `--gateway embedded` (alpha=approve, beta=reject, charlie=abstain, delta=silent,
    /// 'coder=reply:I read {text}'); may be given several times
    #[arg(long, value_name = "NAME=HOW", requires = "gateway", value_parser = scripted)]
    gateway_agent: Vec<Script>,

    /// The gateway is one of this process.
    #[arg(skip)]
    embedded: bool,
}

impl LocalArgs {
    /// Returns whether the options name a gateway.
    pub(super) fn is_set(&self) -> bool {
        self.gateway.is_some()
    }

    /// Returns whether the options select a gateway inside this process.
    pub(super) fn uses_embedded(&self) -> bool {
        self.embedded
    }

    /// Returns the options for the gateway at `url`.
    #[cfg(test)]
    pub(super) fn at(url: &str, embedded: bool) -> Self {
        Self {
            gateway: Some(url.to_owned()),
            embedded,
            ..Self::default()
        }
    }

    /// Starts the gateway and the agents of `--gateway embedded`, and replaces the option's value by the address of that
    /// gateway.
    ///
    /// # Errors
    /// The gateway cannot start, or the options name agents for a gateway that runs elsewhere.
    pub(super) async fn embed(&mut self) -> Result<Option<Embedded>, Failure> {
        let named = self.gateway.as_deref();
        if named != Some(EMBEDDED) {
            return match (named, self.gateway_agent.first()) {
                (Some(url), Some(agent)) => Err(Failure::usage(format!(
                    "`--gateway-agent` requires `--gateway embedded`; connect an agent to a running gateway with `remote-agent gateway agent --url {} --name {}`",
                    shell(url),
                    shell(&agent.name)
                ))),
                _ => Ok(None),
            };
        }
        let gateway = Embedded::with(&self.gateway_agent).await?;
        self.gateway = Some(gateway.url().to_owned());
        self.embedded = true;
        Ok(Some(gateway))
    }

    /// Returns the `gateway` settings, if the options name a gateway.
    ///
    /// # Errors
    /// The address is invalid.
    pub(super) fn settings(&self) -> Result<Option<Value>, Failure> {
        let Some(address) = &self.gateway else {
            return Ok(None);
        };
        if address == EMBEDDED {
            return Err(Failure::usage(
                "cannot continue a task of `--gateway embedded`: that gateway ends with its command; for tasks that outlive a command, start `remote-agent gateway` and name it with `--gateway URL`",
            ));
        }
        let url = gateway_url(address)
            .map_err(|error| Failure::usage(format!("the address of `--gateway` {error}")))?;
        // A remote address on the command line is intended by the user.
        let mut settings = json!({
            "enabled": true,
            "url": url.as_str(),
            "allowRemote": !is_this_machine(&url),
        });
        if let Some(variable) = &self.gateway_token_env {
            check_variable("--gateway-token-env", variable)?;
            settings["token"] = json!({"source": "env", "id": variable});
        }
        if let Some(dialect) = &self.gateway_dialect {
            settings["dialect"] = json!(dialect);
        }
        Ok(Some(settings))
    }

    /// Returns the alias for `target`, if the options name a gateway. A user may omit the prefix of an agent's alias.
    pub(super) fn alias(&self, target: &str) -> Option<String> {
        self.gateway.as_ref()?;
        (!target.starts_with(ALIAS)).then(|| format!("{ALIAS}{target}"))
    }

    /// Returns the environment variable with the gateway's token.
    pub(super) fn token_variable(&self) -> Option<&str> {
        self.gateway_token_env.as_deref()
    }

    /// Returns these options by name.
    pub(super) fn options(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("--gateway", self.gateway.clone()),
            ("--gateway-token-env", self.gateway_token_env.clone()),
            ("--gateway-dialect", self.gateway_dialect.clone()),
        ]
    }
}

/// Returns the aliases of a gateway's agents in a configuration.
pub(super) fn aliases(config: &Value) -> Vec<String> {
    let gateway = &config["gateway"];
    if gateway["enabled"] != true {
        return Vec::new();
    }
    let agents = gateway["agents"].as_array().into_iter().flatten();
    let named = agents.filter_map(Value::as_str).chain(["triad"]);
    named.map(|name| format!("{ALIAS}{name}")).collect()
}

/// Returns whether the origin of a continuation is an agent of a gateway.
pub(super) fn is_origin(origin: &Value) -> bool {
    origin["preferred_transports"] == json!(["GATEWAY"])
}

/// Returns the gateway address in the origin of a continuation.
fn gateway_address(origin: &Value) -> Option<String> {
    if !is_origin(origin) {
        return None;
    }
    let mut url = Url::parse(origin["target_url"].as_str()?).ok()?;
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    url.set_scheme(scheme).ok()?;
    Some(url.to_string().trim_end_matches('/').to_owned())
}

/// Returns the `gateway` settings for the origin of a continuation.
pub(super) fn settings_from(origin: &Value) -> Option<Value> {
    let args = LocalArgs {
        gateway: Some(gateway_address(origin)?),
        ..LocalArgs::default()
    };
    args.settings().ok().flatten()
}

/// Returns the command-line options for the origin of a continuation, if it is an agent of a gateway.
pub(super) fn options_for(origin: &Value) -> Option<String> {
    let gateway = format!(" --gateway {}", shell(&gateway_address(origin)?));
    let target = origin["target_alias"].as_str();
    let target = target.map(|alias| format!(" --target {}", shell(alias)));
    Some(gateway + &target.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use openclaw_remote_agent::config::Config;

    fn named(address: &str) -> LocalArgs {
        LocalArgs {
            gateway_token_env: Some("GATE_TOKEN".to_owned()),
            ..LocalArgs::at(address, false)
        }
    }

    #[test]
    fn gateway_options_give_valid_settings() {
        for address in ["ws://127.0.0.1:1", "ws://localhost:1", "wss://gate.example"] {
            let settings = named(address).settings().unwrap().unwrap();
            let config = Config::parse(&json!({ "gateway": settings }).to_string()).unwrap();
            assert!(config.gateway.enabled && config.gateway.token.is_some());
            assert_eq!(config.gateway.allow_remote, address.starts_with("wss"));
        }
    }

    #[test]
    fn bad_address_error_names_the_likely_one() {
        for (address, advice) in [
            ("127.0.0.1:18789", "try `ws://127.0.0.1:18789`"),
            ("http://127.0.0.1:18789/", "try `ws://127.0.0.1:18789`"),
            ("https://gate.example", "try `wss://gate.example`"),
            ("ftp://gate.example", "ws or wss"),
            ("ws://me:s3cret@127.0.0.1", "gateway.token"),
        ] {
            let message = named(address).settings().unwrap_err().message;
            assert!(message.contains(advice), "{message}");
            assert!(!message.contains("s3cret"), "{message}");
        }
    }

    #[test]
    fn gateway_agent_needs_no_alias_prefix() {
        assert_eq!(named("ws://x").alias("alpha").unwrap(), "gateway:alpha");
        assert_eq!(named("ws://x").alias("gateway:alpha"), None);
        assert_eq!(LocalArgs::default().alias("alpha"), None);
    }

    #[test]
    fn follow_up_repeats_address_of_continuation() {
        let origin = json!({"target_url": "http://127.0.0.1:18789/", "card_path": "/agents/alpha",
            "preferred_transports": ["GATEWAY"], "target_alias": "gateway:alpha"});
        assert_eq!(
            options_for(&origin).unwrap(),
            " --gateway ws://127.0.0.1:18789 --target gateway:alpha"
        );
        assert_eq!(settings_from(&origin).unwrap()["enabled"], true);
        assert_eq!(
            options_for(&json!({"target_url": "http://x/", "preferred_transports": ["JSONRPC"]})),
            None
        );
    }
}
