//! The options that select the known agents of an interactive command, and the agent that it calls.

mod source;

use std::{borrow::Cow, path::Path, sync::OnceLock};

use serde_json::{Value, json};

use super::{
    config::{self, ConfigArgs, UnsetVariable},
    credentials::CredentialArgs,
    exit::Failure,
    local::{self, LocalArgs},
    openclaw::Loaded,
    text::{shell, with_source},
};
use base::config::with_presumed_scheme;
use base::variable_name::variable_fault;

/// The options that name agents, for a hint.
pub(super) const NAME_AN_AGENT: &str = "name a configuration with `--config FILE` (`remote-agent add URL --config FILE` writes one), an agent with `--url URL`, or the local gateway with `--gateway URL`";

/// Returns the hint for a call without a known agent. With OpenClaw's settings it needs no option.
pub(super) fn name_an_agent() -> String {
    format!(
        "{NAME_AN_AGENT}; `openclaw remote-agent add URL` adds one to OpenClaw's settings, which this command reads, too"
    )
}

/// Returns the message about a configuration without agents, which is in `file`.
pub(super) fn no_agents(file: Option<&Path>) -> String {
    let place = file.map(|file| format!(" in `{}`", file.display()));
    format!(
        "no agents are configured{}; add one to `targets` of the configuration, or {}",
        place.unwrap_or_default(),
        name_an_agent()
    )
}

/// The alias of the agent that `--url` names.
pub(super) const AD_HOC: &str = "target";

/// The source of the known agents.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct PeerArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// Call the agent at this base URL, without a configuration; its alias is `target`
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["config", "openclaw"],
        value_parser = base_url
    )]
    pub(super) url: Option<String>,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// Allow an address of the agent of --url that is not public; an IP address or localhost in --url itself is always
    /// allowed
    #[arg(long, requires = "url")]
    allow_private: bool,

    /// Prefer this transport for the agent of --url
    #[arg(long, requires = "url", ignore_case = true, value_parser = ["JSONRPC", "HTTP+JSON"])]
    transport: Option<String>,

    #[command(flatten)]
    pub(super) local: LocalArgs,

    /// Call on behalf of this agent; a target may accept only some agents
    #[arg(long, value_name = "NAME", visible_alias = "as")]
    agent: Option<String>,

    /// Call on behalf of this person; a target may require that each person signs in
    #[arg(long = "person", value_name = "NAME")]
    user: Option<String>,

    /// The settings of the OpenClaw on this machine, for a command that names no agents.
    #[arg(skip)]
    discovered: OnceLock<Option<Loaded>>,
}

/// The same, and which one is meant.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) peers: PeerArgs,

    /// The alias of the agent [default: the agent of --url, else the default of the configuration]
    #[arg(long, value_name = "ALIAS", alias = "alias")]
    target: Vec<String>,
}

impl PeerArgs {
    fn ad_hoc(&self) -> Option<Value> {
        let url = self.url.as_ref()?;
        // Nothing is remembered of an agent that is not configured.
        let (base, card) = base_and_card(url);
        let mut target = json!({"alias": AD_HOC, "baseUrl": base, "pins": "off"});
        if let Some(card) = card {
            target["cardUrl"] = card.into();
        }
        self.credentials.apply(&mut target);
        if self.allow_private {
            target["allowPrivateNetwork"] = json!(true);
        }
        if let Some(transport) = &self.transport {
            target["preferredTransports"] = json!([transport.to_uppercase()]);
        }
        Some(target)
    }

    /// Returns the `caller` with the calling agent, as JSON. `by_person` says that a person wrote the message.
    pub(super) fn caller(&self, by_person: bool) -> Option<String> {
        let mut caller = serde_json::Map::new();
        if by_person {
            caller.insert("by_person".to_owned(), json!(true));
        }
        for (field, value) in [("agent_id", &self.agent), ("user", &self.user)] {
            caller.extend(value.as_ref().map(|value| (field.to_owned(), json!(value))));
        }
        (!caller.is_empty()).then(|| Value::Object(caller).to_string())
    }

    /// Returns the name of the person on whose behalf the command calls.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the name of the calling agent.
    pub(super) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Returns the arguments that start `remote-agent mcp` with these agents from any directory.
    ///
    /// # Errors
    /// The options name no agent, or the path of the configuration is unknown.
    pub(super) fn arguments_of_mcp(&self) -> Result<Vec<String>, Failure> {
        let mut arguments = vec!["mcp".to_owned()];
        let mut push =
            |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        if let Some(url) = &self.url {
            push("--url", url);
            if let Some(transport) = &self.transport {
                push("--transport", transport);
            }
            if self.allow_private {
                arguments.push("--allow-private".to_owned());
            }
            arguments.extend(self.credentials.clone().with_absolute_paths()?.arguments());
        } else if let Some((name, file)) = self.config_option() {
            let path = std::path::absolute(&file).map_err(|error| {
                Failure::usage(format!("cannot find `{}`: {error}", file.display()))
            })?;
            match name {
                // Its value is optional.
                "--openclaw" => arguments.push(format!("{name}={}", path.display())),
                name => push(name, &path.to_string_lossy()),
            }
        } else {
            return Err(Failure::usage(
                "name a configuration with `--config FILE` or `--openclaw`, or an agent with `--url URL`",
            ));
        }
        if let Some(agent) = &self.agent {
            arguments.extend(["--as".to_owned(), agent.clone()]);
        }
        if let Some(user) = &self.user {
            arguments.extend(["--person".to_owned(), user.clone()]);
        }
        Ok(arguments)
    }

    /// Returns the environment variables that the configuration refers to, without those that OpenClaw's files set.
    ///
    /// # Errors
    /// See [`config::resolve`]. Or the `id` of a reference may be the secret itself.
    pub(super) fn variables(&self) -> Result<Vec<String>, Failure> {
        let loaded = self.load().unwrap_or_else(|_| Loaded::own(""));
        let file = self.config_file();
        let (_, references) = config::resolve(&loaded.written, |_| None)
            .map_err(|error| config::failure(error, file.as_deref()))?;
        let is_secret = |unset: &&UnsetVariable| {
            variable_fault(unset.name()).is_some() && std::env::var_os(unset.name()).is_none()
        };
        if let Some(unset) = references.iter().find(is_secret) {
            let error = json!({"message": format!("{}. {}", unset.fault(), unset.repair(None))});
            return Err(config::failure(error.to_string(), file.as_deref()));
        }
        let openclaw = loaded.openclaw.as_ref();
        let is_added = |name: &str| {
            openclaw
                .and_then(|files| files.environment.get(name))
                .is_some()
        };
        let names = references.iter().map(UnsetVariable::name);
        let names = names.filter(|name| !is_added(name));
        Ok(names.map(str::to_owned).collect())
    }

    /// Returns the aliases of the known agents; empty if the configuration cannot be read.
    pub(super) fn aliases(&self) -> Vec<String> {
        let config = self.config().ok();
        let config = config.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let config = config.unwrap_or_default();
        let targets = config["targets"].as_array().into_iter().flatten();
        let alias = |target: &Value| Some(target["alias"].as_str()?.trim().to_owned());
        let configured = targets.filter_map(alias);
        configured.chain(local::aliases(&config)).collect()
    }

    /// Returns the environment variable with the token for the agent of `--url`, or for the gateway of `--gateway`.
    pub(super) fn token_variable(&self) -> Option<&str> {
        let credential = self.credentials.variable();
        credential.or(self.local.token_variable())
    }

    /// Returns whether `--url` is the URL of a single agent of a server.
    pub(super) fn is_agent_url(&self) -> bool {
        self.url.as_deref().is_some_and(is_agent_url)
    }

    /// Returns whether the agents are those behind the gateway of `--gateway`.
    pub(super) fn uses_gateway(&self) -> bool {
        self.local.is_set()
    }

    /// Returns the options that name the settings.
    pub(super) fn source(&self) -> String {
        let config = self.config.config.as_ref();
        let config = config.map(|file| format!(" --config {}", shell(&file.display().to_string())));
        let openclaw = match &self.config.openclaw {
            Some(Some(file)) => format!(" --openclaw={}", shell(&file.display().to_string())),
            Some(None) => " --openclaw".to_owned(),
            None => String::new(),
        };
        openclaw + &config.unwrap_or_default()
    }

    /// Returns a text of the library with the settings of this command in the commands that it suggests.
    pub(super) fn with_source(&self, text: &str) -> String {
        with_source(text, &self.source())
    }

    /// Returns an envelope with the settings of this command in the commands that the message of its error suggests.
    pub(super) fn in_failure(&self, envelope: String) -> String {
        let parsed: Value = serde_json::from_str(&envelope).unwrap_or_default();
        let message = &parsed["error"]["message"];
        let full = self.with_source(message.as_str().unwrap_or_default());
        match *message == *full || message.is_null() {
            true => envelope,
            // The rest of the text stays as the library wrote it.
            false => envelope.replacen(&message.to_string(), &json!(full).to_string(), 1),
        }
    }

    /// Returns these options as text for a suggested command.
    pub(super) fn options(&self) -> String {
        let options = [
            ("--url", self.url.clone()),
            ("--transport", self.transport.clone()),
            ("--agent", self.agent.clone()),
            ("--person", self.user.clone()),
        ];
        let local = self.local.options();
        let named: String = options
            .iter()
            .chain(&local)
            .filter_map(|(name, value)| Some(format!(" {name} {}", shell(value.as_ref()?))))
            .collect();
        let mut line = self.source() + &named;
        if self.allow_private {
            line.push_str(" --allow-private");
        }
        line + &self.credentials.options()
    }
}

impl TargetArgs {
    /// Returns the configuration. If neither the options nor the environment name one, and OpenClaw does not have the agent
    /// of the `continuation`, it contains only this agent.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn config(&self, continuation: Option<&Value>) -> Result<String, Failure> {
        let group = continuation.and_then(|known| known["group"]["members"].as_array());
        let one = continuation.filter(|_| group.is_none());
        let members = group.into_iter().flatten().chain(one);
        let origins: Vec<&Value> = members.map(|member| &member["target"]).collect();
        let is_alone = |origin: &&Value| {
            self.peers.names_nothing()
                && origin["target_url"].is_string()
                && !self.peers.discovers(origin)
        };
        if origins.is_empty() || !origins.iter().all(is_alone) {
            return self.peers.config();
        }
        let gateway = origins
            .iter()
            .find_map(|origin| local::settings_from(origin));
        let others = origins
            .iter()
            .filter(|origin| local::settings_from(origin).is_none());
        let others: Vec<Value> = others.map(|origin| settings_from(origin)).collect();
        let mut config = json!({});
        if let Some(gateway) = gateway {
            config["gateway"] = json!(gateway);
        }
        if !others.is_empty() {
            config["targets"] = others.into();
        }
        Ok(config.to_string())
    }

    /// Returns the alias of the request. `None` selects the default target, or the agent that the `continuation` names.
    pub(super) fn alias(&self, continuation: Option<&Value>) -> Option<Cow<'_, str>> {
        if let Some(target) = self.target.first() {
            return Some(self.full_alias(target));
        }
        if continuation.is_some() {
            return None;
        }
        match &self.peers.url {
            Some(_) => Some(AD_HOC.into()),
            None => self.peers.only_alias().map(Cow::Owned),
        }
    }

    fn full_alias<'a>(&self, target: &'a str) -> Cow<'a, str> {
        let local = self.peers.local.alias(target);
        local.map_or(target.into(), Cow::Owned)
    }

    /// Returns the aliases of several `--target`, or of one if `is_group`; `None` without a group.
    pub(super) fn group(&self, is_group: bool) -> Option<Vec<String>> {
        let targets = self.target.iter();
        let aliases = targets.map(|target| self.full_alias(target).into_owned());
        (is_group || self.target.len() > 1).then(|| aliases.collect())
    }

    /// Returns the alias of `--target`.
    pub(super) fn named(&self) -> Option<&str> {
        self.target.first().map(String::as_str)
    }

    /// Returns each `--target`.
    pub(super) fn all_named(&self) -> &[String] {
        &self.target
    }

    /// Returns the options that select the agent of a continuation with this `origin`.
    pub(super) fn options_for(&self, origin: &Value) -> String {
        if let Some(url) = origin["target_url"]
            .as_str()
            .filter(|_| self.peers.names_nothing() && !self.peers.discovers(origin))
        {
            if let Some(options) = local::options_for(origin) {
                return options;
            }
            let transport = match origin["preferred_transports"].as_array().map(Vec::as_slice) {
                Some([only]) => only.as_str(),
                _ => None,
            };
            let transport = transport.map(|only| format!(" --transport {}", shell(only)));
            return format!(" --url {}{}", shell(url), transport.unwrap_or_default());
        }
        let alias = origin["target_alias"].as_str();
        let mut options = self.peers.options();
        let implied = self.peers.url.as_ref().map(|_| AD_HOC);
        if let Some(alias) = alias.filter(|alias| Some(*alias) != implied) {
            options.push_str(" --target ");
            options.push_str(&shell(alias));
        }
        options
    }
}

/// Returns the target in the origin of a continuation.
fn settings_from(origin: &Value) -> Value {
    let mut target = json!({"alias": AD_HOC, "baseUrl": origin["target_url"], "pins": "off"});
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

/// Returns the base URL of the agent at `url`, and the URL of its card where that is not at the usual path: a card with a
/// query, and the card of a single agent of a server, whose card at the origin describes another agent.
pub(super) fn base_and_card(url: &str) -> (&str, Option<String>) {
    if let Some(base) = base_of_card_with_query(url) {
        return (base, Some(url.to_owned()));
    }
    let base = url.trim_end_matches('/');
    let card = is_agent_url(url).then(|| format!("{base}/.well-known/agent-card.json"));
    (url, card)
}

/// Returns the base URL of an agent for the URL of its card with a query, which some servers need.
pub(super) fn base_of_card_with_query(url: &str) -> Option<&str> {
    let (address, _) = url.split_once('?')?;
    let paths = CARD_PATHS.iter().chain(&CARD_FILES);
    let base = paths.filter_map(|path| address.strip_suffix(path)).next()?;
    url::Url::parse(base).is_ok().then_some(base)
}

/// Returns whether the URL has the form of an agent URL: `…/agents/NAME`.
fn is_agent_url(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    let segments = url.path_segments().into_iter().flatten();
    let segments: Vec<&str> = segments.filter(|segment| !segment.is_empty()).collect();
    matches!(segments.as_slice(), [.., "agents", _])
}

/// The paths of agent cards: the one of A2A, and the one before A2A 0.3.
const CARD_PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// The names of files with a card, elsewhere on a server.
const CARD_FILES: [&str; 2] = ["/agent-card.json", "/agent.json"];

/// Returns the base URL of an agent, also for the URL of its card.
#[allow(clippy::unnecessary_wraps, reason = "a parser of values")]
pub(super) fn base_url(url: &str) -> Result<String, std::convert::Infallible> {
    let bare = CARD_PATHS.iter().find_map(|path| url.strip_suffix(path));
    Ok(bare.unwrap_or(url).to_owned())
}

/// Refuses a text that is no URL, with an error that names the option.
fn check_url(url: &str) -> Result<(), Failure> {
    if let Some(whole) = with_presumed_scheme(url) {
        return Err(Failure::usage(format!(
            "`--url {url}` has no scheme; try `--url {whole}`"
        )));
    }
    let fault = match url::Url::parse(url) {
        Ok(_) => return Ok(()),
        Err(_) if url.trim().is_empty() => "is empty".to_owned(),
        Err(error) => format!("is not a URL: {error}"),
    };
    // The text may contain a credential.
    Err(Failure::usage(format!(
        "the value of `--url` {fault}; write it as in `--url http://127.0.0.1:9000`"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ad_hoc() -> PeerArgs {
        PeerArgs {
            url: Some("https://desk.example".to_owned()),
            credentials: CredentialArgs::bearer("DESK_TOKEN"),
            transport: Some("http+json".to_owned()),
            local: LocalArgs::default(),
            agent: Some("main".to_owned()),
            allow_private: true,
            ..PeerArgs::default()
        }
    }

    #[test]
    fn url_without_scheme_is_completed_in_the_hint() {
        for (url, whole) in [
            ("127.0.0.1:7801", "http://127.0.0.1:7801"),
            ("localhost:1/a", "http://localhost:1/a"),
            ("desk.example", "https://desk.example"),
            ("http//127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("https//desk.example/a", "https://desk.example/a"),
        ] {
            let message = check_url(url).unwrap_err().message;
            assert!(message.contains(&format!("`--url {whole}`")), "{message}");
        }
        assert!(check_url("http://desk.example").is_ok());
    }

    #[test]
    fn text_that_is_no_url_is_refused_by_option() {
        for (url, fault) in [
            ("", "`--url` is empty"),
            (" ", "`--url` is empty"),
            ("\"http://desk.example\"", "`--url` is not a URL"),
            ("/desk", "`--url` is not a URL"),
        ] {
            let message = check_url(url).unwrap_err().message;
            assert!(message.contains(fault), "{url}: {message}");
        }
    }

    #[test]
    fn url_of_a_card_is_that_of_its_agent() {
        const CARD: &str = "/.well-known/agent-card.json";
        for (url, base) in [
            (
                &*format!("https://desk.example/a{CARD}"),
                "https://desk.example/a",
            ),
            (
                "https://desk.example/.well-known/agent.json",
                "https://desk.example",
            ),
            (
                "https://desk.example/agent.json",
                "https://desk.example/agent.json",
            ),
        ] {
            assert_eq!(base_url(url).unwrap(), base);
        }
        for (url, base) in [
            (
                &*format!("https://desk.example/a{CARD}?id=1"),
                Some("https://desk.example/a"),
            ),
            (
                "https://desk.example/.well-known/agent.json?a=b.json",
                Some("https://desk.example"),
            ),
            (
                "http://127.0.0.1:1/cards/agent-card.json?v=1",
                Some("http://127.0.0.1:1/cards"),
            ),
            ("https://agent.json?v=1", None),
            ("https://desk.example/a2a?v=1", None),
            ("https://desk.example/.well-known/agent-card.json", None),
            ("https://desk.example/agents", None),
            ("https://desk.example/a2a", None),
        ] {
            assert_eq!(base_of_card_with_query(url), base, "{url}");
            let card = base.map(|_| url.to_owned());
            assert_eq!(base_and_card(url), (base.unwrap_or(url), card));
        }
        let of_server = "https://desk.example/agents/a/";
        let card = format!("https://desk.example/agents/a{CARD}");
        let named = PeerArgs {
            url: Some(of_server.to_owned()),
            ..PeerArgs::default()
        };
        assert_eq!(named.ad_hoc().unwrap()["cardUrl"], card);
        assert_eq!(base_and_card(of_server), (of_server, Some(card)));
    }

    #[test]
    fn where_only_a_continuation_named_the_agent_its_url_does_again() {
        let origin = json!({"target_url": "http://desk.example/", "target_alias": "a", "preferred_transports": ["HTTP+JSON"]});
        assert_eq!(
            TargetArgs::default().options_for(&origin),
            " --url http://desk.example/ --transport HTTP+JSON"
        );
    }

    #[test]
    fn options_become_a_target_and_a_caller() {
        let target = ad_hoc().ad_hoc().unwrap();
        let token = json!({"source": "env", "id": "DESK_TOKEN"});
        assert_eq!(target["auth"]["token"], token);
        assert_eq!(target["preferredTransports"], json!(["HTTP+JSON"]));
        assert_eq!(target["allowPrivateNetwork"], true);
        assert_eq!(target.get("cardUrl"), None);
        assert_eq!(ad_hoc().caller(false).unwrap(), r#"{"agent_id":"main"}"#);
        assert_eq!(PeerArgs::default().caller(false), None);
    }

    #[test]
    fn suggested_command_repeats_the_options() {
        let args = TargetArgs {
            peers: ad_hoc(),
            target: Vec::new(),
        };
        assert_eq!(
            args.options_for(&json!({"target_alias": AD_HOC})),
            " --url https://desk.example --transport http+json --agent main --allow-private --bearer-env DESK_TOKEN"
        );
        assert_eq!(args.alias(None).as_deref(), Some(AD_HOC));
    }
}
