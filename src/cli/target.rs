//! Which agents a command for people knows, and which of them it calls.

use serde_json::{Value, json};

use super::{config::ConfigArgs, exit::Failure, text::shell};

/// The alias of the agent that `--url` names.
pub(super) const AD_HOC: &str = "target";

/// Where the known agents come from.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct PeerArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// Call the agent at this base URL, without a configuration; it gets the alias `target`
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Send the bearer token in this environment variable to the agent of --url
    #[arg(long, value_name = "VAR", requires = "url")]
    bearer_env: Option<String>,

    /// Speak only this transport with the agent of --url
    #[arg(long, requires = "url", ignore_case = true, value_parser = ["JSONRPC", "HTTP+JSON"])]
    transport: Option<String>,
}

/// The same, and which one is meant.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct TargetArgs {
    #[command(flatten)]
    peers: PeerArgs,

    /// The agent's alias; without it the agent of --url, else the configuration's default
    #[arg(long, value_name = "ALIAS")]
    target: Option<String>,
}

impl PeerArgs {
    /// The configuration, with the agent of `--url` in it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn config(&self) -> Result<String, Failure> {
        let config = self.config.read()?;
        Ok(match self.ad_hoc() {
            Some(target) => with_target(config, target),
            None => config,
        })
    }

    fn ad_hoc(&self) -> Option<Value> {
        let mut target = json!({"alias": AD_HOC, "baseUrl": self.url.as_ref()?});
        if let Some(variable) = &self.bearer_env {
            let token = json!({"source": "env", "id": variable});
            target["auth"] = json!({"type": "bearer", "token": token});
        }
        if let Some(transport) = &self.transport {
            target["preferredTransports"] = json!([transport.to_uppercase()]);
        }
        Some(target)
    }

    fn is_empty(&self) -> bool {
        self.url.is_none() && !self.config.is_given()
    }

    /// The same options, for a command line to copy.
    fn options(&self) -> String {
        let config = self.config.config.as_ref();
        let options = [
            ("--config", config.map(|file| file.display().to_string())),
            ("--url", self.url.clone()),
            ("--bearer-env", self.bearer_env.clone()),
            ("--transport", self.transport.clone()),
        ];
        options
            .iter()
            .filter_map(|(name, value)| Some(format!(" {name} {}", shell(value.as_ref()?))))
            .collect()
    }
}

impl TargetArgs {
    /// The configuration. Where neither options nor the environment name one, the agent that `continuation` comes from is its only target.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn config(&self, continuation: Option<&Value>) -> Result<String, Failure> {
        let origin = continuation.map(|continuation| &continuation["target"]);
        match origin.filter(|origin| self.peers.is_empty() && origin["target_url"].is_string()) {
            Some(origin) => Ok(json!({"targets": [known_from(origin)]}).to_string()),
            None => self.peers.config(),
        }
    }

    /// The alias to ask for; `None` leaves it to the configuration's default, or to the `continuation`, which names its agent itself.
    pub(super) fn alias(&self, continuation: Option<&Value>) -> Option<&str> {
        let implied = self.peers.url.as_ref().filter(|_| continuation.is_none());
        self.target.as_deref().or(implied.map(|_| AD_HOC))
    }

    /// The options that name the known agents, for a command line to copy. Empty, or with a space before each.
    pub(super) fn peer_options(&self) -> String {
        self.peers.options()
    }

    /// The options that name the agent `alias` as well.
    pub(super) fn options_for(&self, alias: Option<&str>) -> String {
        let mut options = self.peers.options();
        let implied = self.peers.url.as_ref().map(|_| AD_HOC);
        if let Some(alias) = alias.filter(|alias| Some(*alias) != implied) {
            options.push_str(" --target ");
            options.push_str(&shell(alias));
        }
        options
    }
}

/// A target as the continuation shows it.
fn known_from(origin: &Value) -> Value {
    let mut target = json!({"alias": AD_HOC, "baseUrl": origin["target_url"]});
    for (field, name) in [
        ("alias", "target_alias"),
        ("cardPath", "card_path"),
        ("preferredTransports", "preferred_transports"),
    ] {
        if let Some(value) = origin.get(name) {
            target[field] = value.clone();
        }
    }
    target
}

/// A configuration that is no object, or has no list of targets where one should be, is left for the library to refuse.
fn with_target(config: String, target: Value) -> String {
    let Ok(mut parsed) = serde_json::from_str::<Value>(&config) else {
        return config;
    };
    let Some(fields) = parsed.as_object_mut() else {
        return config;
    };
    let targets = fields.entry("targets").or_insert_with(|| json!([]));
    let Some(targets) = targets.as_array_mut() else {
        return config;
    };
    targets.push(target);
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ad_hoc() -> PeerArgs {
        PeerArgs {
            url: Some("https://desk.example".to_owned()),
            bearer_env: Some("DESK_TOKEN".to_owned()),
            transport: Some("http+json".to_owned()),
            ..PeerArgs::default()
        }
    }

    #[test]
    fn the_agent_of_the_url_joins_those_of_the_file() {
        let config = with_target(
            r#"{"targets":[{"alias":"a"}]}"#.to_owned(),
            json!({"alias": "b"}),
        );
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["targets"], json!([{"alias": "a"}, {"alias": "b"}]));
    }

    #[test]
    fn a_configuration_that_is_wrong_is_left_as_it_is() {
        for wrong in ["{", "[]", r#"{"targets":{}}"#] {
            assert_eq!(with_target(wrong.to_owned(), json!({})), wrong);
        }
    }

    #[test]
    fn the_token_is_a_reference_and_never_the_token_itself() {
        let target = ad_hoc().ad_hoc().unwrap();
        assert_eq!(
            target["auth"]["token"],
            json!({"source": "env", "id": "DESK_TOKEN"})
        );
        assert_eq!(target["preferredTransports"], json!(["HTTP+JSON"]));
    }

    #[test]
    fn options_are_given_again_as_they_came() {
        let args = TargetArgs {
            peers: ad_hoc(),
            target: None,
        };
        assert_eq!(
            args.options_for(Some(AD_HOC)),
            " --url https://desk.example --bearer-env DESK_TOKEN --transport http+json"
        );
        assert_eq!(args.alias(None), Some(AD_HOC));
        assert_eq!(
            TargetArgs::default().options_for(Some("a b")),
            " --target 'a b'"
        );
    }
}
