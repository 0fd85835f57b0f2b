//! `remote-agent add`: adds an agent to a file of settings, found by its address, its domain, a search or a card.

mod settings_file;

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::Path,
    sync::Arc,
};

use base::{config::with_presumed_scheme, log::Silent};
use egress::address::is_this_machine;
use openclaw_remote_agent::{
    plugin::{FoundAgent, FoundAgents, Plugin},
    remote_agent::Reason,
};
use serde_json::{Value, json};
use url::Url;

use super::{
    config::{self, ConfigArgs, VARIABLE, unset_reason},
    credentials::CredentialArgs,
    exit::{Exit, Failure},
    instance::Library,
    openclaw,
    output::{LineWriter, note},
    pin,
    target::{base_and_card, base_of_card_with_query, base_url},
    targets,
    text::{self, shell},
};
use settings_file::{SettingsFile, alias_for, is_same_agent};

const EXAMPLES: &str = "\
Examples:
  remote-agent add https://desk.example --config agents.json
  remote-agent add desk.example --config agents.json --pick Pilot
  remote-agent add card.json --config agents.json --alias pilot
  remote-agent add --search 'book a berth' --registry https://registry.example \\
    --config agents.json";

/// How long a card may take.
const CARD_TIMEOUT_MS: u64 = 10_000;

/// Add an agent to a file of settings, or change the one at its address
///
/// A domain is asked for its AI Catalog and its ARD document, a registry for the agents that fit a text. The command lists what
/// they name, with what is odd, and adds the one that you pick after it has checked it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A domain, the URL of an agent, of its card or of a catalog, or a file with a card
    #[arg(
        value_name = "PLACE",
        group = "url",
        required_unless_present = "search"
    )]
    place: Option<String>,

    /// Ask the registry of --registry for agents that fit this text
    #[arg(
        long,
        value_name = "TEXT",
        requires = "registry",
        conflicts_with = "place"
    )]
    search: Option<String>,

    /// The search endpoint (ARD) for --search
    #[arg(long, value_name = "URL", requires = "search", group = "url")]
    registry: Option<String>,

    /// Add the listed agent with this number, name or identifier
    #[arg(long, value_name = "AGENT", requires = "url")]
    pick: Option<String>,

    /// Accept a card that is part of a catalog, or a credential for an agent at another origin than PLACE: only the catalog
    /// vouches for the address
    #[arg(long)]
    yes: bool,

    /// The alias of the agent [default: from the host]
    #[arg(long, value_name = "ALIAS")]
    alias: Option<String>,

    /// Call the agent at this URL, in place of the one in its card
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// The purpose of the agent
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Use it for requests without a target
    #[arg(long)]
    default: bool,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// Allow addresses that are not public
    #[arg(long)]
    allow_private: bool,

    /// Add it although a check fails
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    config: ConfigArgs,

    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Where an agent is, as its place says.
enum Place {
    Agent(String),
    /// A query for agents, as JSON.
    Query(Value),
}

/// Runs the subcommand.
///
/// # Errors
/// There is no such agent, it cannot be called, or the file cannot be changed. The file is unchanged then.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    // `--force` writes no secret into the file either.
    args.credentials.check()?;
    let file = args.settings_file();
    let mut is_from_catalog = false;
    let found = match args.place()? {
        Place::Agent(url) => {
            let (base, card) = base_and_card(&url);
            let mut target = json!({"baseUrl": base});
            target["cardUrl"] = card.map_or(Value::Null, Value::from);
            target
        }
        Place::Query(query) => {
            is_from_catalog = query["file"].is_null();
            // A list needs no file.
            let policy = file.as_ref().ok().map(|file| &file.parsed["policy"]);
            let found = find(policy, &query).await?;
            match args.picked(found, !is_from_catalog)? {
                Some(target) => target,
                None => return Ok(Exit::Usage),
            }
        }
    };
    let file = file?;
    let (target, at) = args.target(found, &file)?;
    if let Some(before) = at.map(|at| &file.targets()[at])
        && is_from_catalog
        && !args.yes
        && !(before["auth"].is_null() && before["headers"].is_null())
    {
        return Err(Failure::usage(format!(
            "`{}` is at this address already, and its credential would go where the catalog says; accept that with `--yes`. Nothing was changed",
            text::field(before, "alias")
        )));
    }
    let library = Library::open(verbose)?;
    let alias = target["alias"].as_str().unwrap_or_default();
    let reviewed = pin::review_new(&file.with_only(&target), alias).await;
    let name = match args.check(&library, &target, &file).await {
        Ok(name) => Some(name),
        Err(failure) if args.force => {
            note(format_args!("warn: {}", failure.message));
            None
        }
        Err(failure) => {
            return Err(Failure {
                message: format!("{}. Nothing was added", failure.message),
                ..failure
            });
        }
    };
    let change = match at {
        _ if at.is_some_and(|at| file.targets()[at] == target) => "unchanged",
        Some(_) => "changed",
        None => "added",
    };
    if let Some(reviewed) = reviewed.filter(|_| change == "added" && name.is_some())
        && let Err(cause) = pin::accept_new(reviewed)
    {
        match args.force {
            true => note(format_args!(
                "warn: the agent card is not accepted: {cause}"
            )),
            false => {
                return Err(Failure::new(format!(
                    "cannot accept the agent card: {cause}. Nothing was added"
                )));
            }
        }
    }
    if change != "unchanged" {
        file.write(&library, at, &target)?;
    }
    let url = target["baseUrl"].as_str().unwrap_or_default();
    let lines = LineWriter::default();
    if args.json {
        let shown = json!({"alias": alias, "baseUrl": url, "default": target["default"] == true});
        lines.write(json!({"target": shown, "name": name, "change": change}).to_string());
        return Ok(Exit::Ok);
    }
    let name = name
        .as_deref()
        .unwrap_or("an agent that does not answer now");
    lines.write(format!(
        "{change} `{}`: {} at {}",
        text::line(alias),
        text::line(name),
        text::line(url)
    ));
    note(format_args!(
        "next: remote-agent send --config {} --target {} 'Hello'",
        shell(&file.path.display().to_string()),
        shell(alias)
    ));
    Ok(Exit::Ok)
}

/// Looks for agents, with the proxies of `policy`.
async fn find(policy: Option<&Value>, query: &Value) -> Result<FoundAgents, Failure> {
    let policy = policy.filter(|policy| policy.is_object());
    let settings = policy.map_or_else(|| json!({}), |policy| json!({ "policy": policy }));
    let plugin = Plugin::new(&settings.to_string(), Arc::new(Silent))
        .map_err(|error| config::failure(error.to_json(), None))?;
    let found = plugin.find_agents(&query.to_string()).await;
    found.map_err(|message| Failure::usage(format!("cannot add an agent: {message}")))
}

impl Args {
    /// Returns what the person named.
    fn place(&self) -> Result<Place, Failure> {
        let mut query = json!({"pick": self.pick, "allowPrivate": self.allow_private});
        if let Some(registry) = &self.registry {
            query["place"] = registry.as_str().into();
            query["search"] = self.search.as_deref().into();
            return Ok(Place::Query(query));
        }
        let place = self.place.as_deref().unwrap_or_default();
        if !place.contains("://") && Path::new(place).is_file() {
            let file = std::path::absolute(place);
            let file =
                file.map_err(|error| Failure::usage(format!("cannot find `{place}`: {error}")))?;
            query["file"] = file.to_string_lossy().into();
            return Ok(Place::Query(query));
        }
        let is_nothing = |hint: &str| {
            let place = text::line(place);
            let message = format!(
                "cannot add `{place}`: it is no URL, no domain, and no file that exists{hint}"
            );
            Err(Failure::usage(message))
        };
        if let Some(whole) = with_presumed_scheme(place) {
            let is_domain = Url::parse(&whole).is_ok_and(|url| url.path() == "/");
            if place.ends_with(".json") {
                return is_nothing("");
            } else if !is_domain {
                return is_nothing(&format!("; try `{whole}`"));
            }
            query["place"] = place.into();
            return Ok(Place::Query(query));
        }
        let Ok(base) = base_url(place);
        let is_card = base != place || base_of_card_with_query(place).is_some();
        if !is_card && place.contains("://") && place.ends_with(".json") {
            query["place"] = place.into();
            return Ok(Place::Query(query));
        }
        let is_url = Url::parse(&base).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        match is_url {
            true => Ok(Place::Agent(base)),
            false => is_nothing(""),
        }
    }

    /// Shows what was found, and returns the settings of the agent that the person picks; `None` if they only see the list. A file
    /// has one agent.
    fn picked(&self, mut found: FoundAgents, is_file: bool) -> Result<Option<Value>, Failure> {
        let chosen = match found.agents.len() {
            0 => {
                let why = match found.problems.is_empty() {
                    true => "it names none".to_owned(),
                    false => found.problems.join("; "),
                };
                return Err(Failure {
                    exit: Exit::Unreachable,
                    ..Failure::new(format!("found no agent to add: {why}"))
                });
            }
            1 if self.pick.is_some() || is_file => {
                let agent = found.agents.swap_remove(0);
                note(&agent.text);
                Some(agent)
            }
            _ => {
                self.show(&found);
                let number = match can_ask() {
                    true => ask("Which one? Its number, or an empty line for none:")?,
                    false => String::new(),
                };
                let number = number.parse::<usize>().ok();
                let mut agents = found.agents.into_iter();
                agents.find(|agent| Some(agent.number) == number)
            }
        };
        let Some(agent) = chosen else {
            note("nothing was added; pick one with `--pick NUMBER`, its name or its identifier");
            return Ok(None);
        };
        let Some(target) = agent.target.clone() else {
            return Err(Failure::usage(format!(
                "cannot add `{}`: {}",
                agent.name,
                agent.odd.join("; ")
            )));
        };
        self.confirm(&agent)?;
        Ok(Some(target))
    }

    /// Lets the person confirm what only a catalog vouches for: a card that is part of it, and where a credential goes.
    fn confirm(&self, agent: &FoundAgent) -> Result<(), Failure> {
        let FoundAgent { name, catalog, .. } = agent;
        let has_credential = !self.credentials.arguments().is_empty();
        let claim = if agent.inline {
            let origins = agent.interfaces.join(", ");
            format!("the card of `{name}` is part of {catalog}, and leads calls to {origins}")
        } else if agent.foreign && has_credential {
            let card = agent.card.as_deref().unwrap_or_default();
            format!(
                "only {catalog} says that `{name}` is at {card}, which would get the credential"
            )
        } else {
            return Ok(());
        };
        if self.yes || (can_ask() && ask(&format!("{claim}. Type yes to accept that:"))? == "yes") {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{claim}; accept that with `--yes`. Nothing was added"
        )))
    }

    fn show(&self, found: &FoundAgents) {
        let lines = LineWriter::default();
        if self.json {
            lines.write(json!(found).to_string());
            return;
        }
        for agent in &found.agents {
            lines.write(agent.text.clone());
        }
        if found.left > 0 {
            lines.write(format!("and {} more, not read", found.left));
        }
        if found.others > 0 {
            lines.write(format!("and {} that are no A2A agents", found.others));
        }
        for registry in &found.registries {
            lines.write(format!(
                "a search endpoint: --search TEXT --registry {}",
                shell(registry)
            ));
        }
        for problem in &found.problems {
            note(format_args!("warn: {problem}"));
        }
    }

    /// Returns the settings of the target, and the place in the file of the one that they replace.
    fn target(&self, found: Value, file: &SettingsFile) -> Result<(Value, Option<usize>), Failure> {
        let known = file.targets();
        let url = found["baseUrl"].as_str().unwrap_or_default().to_owned();
        let is_here = |target: &Value| is_same_agent(target["baseUrl"].as_str(), &url);
        let at = match &self.alias {
            Some(alias) => known.iter().position(|target| target["alias"] == **alias),
            None => known.iter().position(is_here),
        };
        if let Some(other) = at.map(|at| &known[at]).filter(|other| !is_here(other)) {
            let (alias, url) = (text::field(other, "alias"), text::field(other, "baseUrl"));
            return Err(Failure::usage(format!(
                "cannot add `{alias}`: it is the agent at {url}; name another alias"
            )));
        }
        let here = known.iter().find(|other| is_here(other));
        if let Some(here) = here.filter(|_| at.is_none() && !self.force) {
            let alias = text::field(here, "alias");
            return Err(Failure::usage(format!(
                "{} is already `{alias}`; without `--alias` this command changes it, with `--force` it adds a second target at this address",
                text::line(&url)
            )));
        }
        let mut target = at.map_or_else(|| json!({}), |at| known[at].clone());
        let fresh = alias_for(&url, known);
        if target["alias"].is_null() {
            target["alias"] = self.alias.as_deref().unwrap_or(&fresh).into();
        }
        if let Some(before) = target.as_object_mut() {
            // The card is in one place.
            before.retain(|name, _| !matches!(name.as_str(), "card" | "cardUrl" | "cardPath"));
        }
        for (name, value) in found.as_object().into_iter().flatten() {
            if !value.is_null() && (name != "baseUrl" || target["baseUrl"].is_null()) {
                target[name] = value.clone();
            }
        }
        for (name, value) in [
            ("endpoint", &self.endpoint),
            ("description", &self.description),
        ] {
            if let Some(value) = value {
                target[name] = value.as_str().into();
            }
        }
        if self.allow_private {
            target["allowPrivateNetwork"] = true.into();
        }
        // The card of an agent on this machine changes with the work of its developer, and one in the settings is the person's.
        let is_elsewhere = Url::parse(&url).is_ok_and(|url| !is_this_machine(&url));
        if at.is_none() && is_elsewhere && target["card"].is_null() {
            target["pins"] = "enforce".into();
        }
        if self.default || known.iter().all(|other| other["default"] != true) {
            target["default"] = true.into();
        }
        self.credentials
            .clone()
            .with_absolute_paths()?
            .apply(&mut target);
        Ok((target, at))
    }

    /// Calls the agent, and returns its name.
    async fn check(
        &self,
        library: &Library,
        target: &Value,
        file: &SettingsFile,
    ) -> Result<String, Failure> {
        if let Some((option, variable)) = self.credentials.unset_variables().first() {
            return Err(Failure::usage(format!(
                "the environment variable `{variable}` of `{option}` {}; set it and start again",
                unset_reason(variable)
            )));
        }
        let mut only = target.clone();
        only["timeoutMs"] = CARD_TIMEOUT_MS.into();
        // The person who adds it may call it.
        only.as_object_mut()
            .map(|only| only.remove("allowedAgents"));
        // What the agent shows now is not accepted before it is added.
        only["pins"] = "off".into();
        let settings = file.with_only(&only);
        let instance = library.interactive_instance(&settings.to_string(), None)?;
        let (name, error) = targets::check(&instance, &text::field(target, "alias")).await;
        if error.is_null() {
            return Ok(name);
        }
        let next = match (Reason::in_error(&error), self.credentials.variable()) {
            (Some(Reason::AddressRefused), _) => {
                "add `--allow-private` if the agent may be at such an address".to_owned()
            }
            (Some(Reason::AuthRequired), Some(variable)) => {
                format!("check the value of `{variable}`: the agent refused it")
            }
            (Some(Reason::AuthRequired), None) => {
                "give its credential, for example with `--bearer-env VAR`".to_owned()
            }
            (Some(Reason::CardMalformed | Reason::CardUnavailable), _) => {
                "give the address before `/.well-known/agent-card.json`, the domain of the agent, or a file with its card".to_owned()
            }
            _ if self.force => "start the agent, or correct its address".to_owned(),
            _ => "start the agent, or correct its address; `--force` adds it all the same".to_owned(),
        };
        Err(Failure {
            exit: Exit::from_error(&error),
            ..Failure::new(format!(
                "cannot call the agent: {}; {next}",
                text::field(&error, "message")
            ))
        })
    }

    /// Reads the file that this command changes.
    ///
    /// # Errors
    /// No file is named, it cannot be read, or only OpenClaw changes it.
    fn settings_file(&self) -> Result<SettingsFile, Failure> {
        let of_openclaw = || {
            let place = self
                .place
                .as_deref()
                .map(|place| format!(" {}", shell(place)));
            Failure::usage(format!(
                "these settings are OpenClaw's, which changes them itself: run `openclaw remote-agent add{}`, or name another file with `--config FILE`",
                place.unwrap_or_default()
            ))
        };
        let Some(path) = self.config.file() else {
            let is_openclaw = self.config.openclaw.is_some() || openclaw::discover()?.is_some();
            return Err(match is_openclaw {
                true => of_openclaw(),
                false => Failure::usage(format!(
                    "name the file of the settings with `--config FILE` or `{VARIABLE}`; the command creates it if it does not exist"
                )),
            });
        };
        if !path.exists() {
            return SettingsFile::parse(
                path,
                "{\n  \"enabled\": true,\n  \"targets\": []\n}\n".to_owned(),
            );
        }
        let loaded = self.config.load()?;
        match loaded.openclaw {
            Some(_) => Err(of_openclaw()),
            None => SettingsFile::parse(path, loaded.written),
        }
    }
}

/// Returns whether a person can be asked on the terminal.
fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn ask(question: &str) -> Result<String, Failure> {
    note(question);
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    Ok(answer.trim().to_owned())
}
