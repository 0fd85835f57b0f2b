//! What the cards of listed agents say, and what does not fit.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::timeout_at;
use url::Url;

use a2a::Card;
use a2a::http::{CARD_PATH, OLD_CARD_PATH};
use base::config::normal_url;
use base::files::read_bounded;
use base::json;
use egress::HttpClient;
use egress::address::special_host;
use peer::{CARD_LIMITS, CardLocation, Discovered, MAX_CARD_BYTES, PeerConfig, PeerErrorKind};

use super::{Entry, FoundAgent, FoundAgents, Scope, line, origin, shown};
use crate::discover;

const MAX_NAMED_SKILLS: usize = 6;

impl Scope<'_> {
    /// Reads the card of an agent.
    pub(super) async fn agent(&self, number: usize, entry: &Entry) -> FoundAgent {
        let value = &entry.value;
        let mut agent = FoundAgent {
            number,
            name: entry.name(),
            identifier: value["identifier"].as_str().map(line),
            version: value["version"].as_str().map(line),
            catalog: shown(&entry.catalog),
            ..FoundAgent::default()
        };
        if !self.is_given(&entry.catalog) {
            let origin = origin(&entry.catalog);
            agent
                .odd
                .push(format!("the catalog is at another origin: {origin}"));
        }
        if !value["trustManifest"].is_null() || !value["trustManifests"].is_null() {
            let claim = "it has a trust manifest, which is not verified";
            agent.odd.push(claim.to_owned());
        }
        match card_location(value) {
            Ok(location) => self.add_card(&mut agent, location, value).await,
            Err(fault) => agent.odd.push(fault),
        }
        agent.text = agent.lines();
        agent
    }

    /// Adds what the card of an agent says.
    async fn add_card(&self, agent: &mut FoundAgent, location: CardLocation, entry: &Value) {
        let url = match &location {
            CardLocation::Url(url) => Some(url.clone()),
            _ => None,
        };
        agent.inline = url.is_none();
        agent.card = url.as_ref().map(shown);
        agent.foreign = url.as_ref().is_some_and(|url| !self.is_given(url));
        if let Some(url) = url.as_ref().filter(|_| agent.foreign && !self.is_search) {
            agent
                .odd
                .push(format!("the card is at another origin: {}", origin(url)));
        }
        let place = url.clone().unwrap_or_else(|| self.given.clone());
        let vouching = if self.is_search { &place } else { &self.given };
        if let Some(publisher) = publisher(entry)
            && !is_of(vouching.host_str().unwrap_or_default(), &publisher)
        {
            agent.odd.push(format!(
                "its publisher is {}, and not {}",
                line(&publisher),
                vouching.host_str().unwrap_or_default()
            ));
        }
        let config = PeerConfig {
            configured: self.is_given(&place),
            allow_private: self.allow_private,
            card: location,
            ..PeerConfig::new(place.clone(), CardLocation::Url(place.clone()))
        };
        let until = self.request_deadline();
        let discovery = discover::discover(self.net, &config, None, MAX_CARD_BYTES);
        let card = match timeout_at(until, discovery).await {
            Ok(Ok(Discovered::Card { card, .. })) => card,
            Ok(Ok(Discovered::Unchanged { .. })) => return,
            Ok(Err(error)) => {
                agent.odd.push(line(&error.message));
                if error.kind == PeerErrorKind::AuthRequired {
                    // The check with a credential reads it.
                    agent.target = url.map(|url| target_at(&url, None));
                }
                return;
            }
            Err(_) => return agent.odd.push("its card did not arrive in time".to_owned()),
        };
        self.add_interfaces(agent, &card, url.as_ref());
        agent.authentication = card.security.requirements_text().map(|text| line(&text));
        agent.protocol = card.interfaces.first().and_then(|one| one.version.clone());
        match &card.view {
            Ok(view) => {
                let name = view
                    .name
                    .as_deref()
                    .map(line)
                    .filter(|name| !name.is_empty());
                if let Some(name) = name {
                    let has_name = entry["displayName"].is_string();
                    if has_name && name != agent.name {
                        agent.odd.push(format!("its card calls it `{name}`"));
                    } else {
                        agent.name = name;
                    }
                }
                agent.skills = view.skills.iter().map(|skill| line(&skill.name)).collect();
            }
            Err(fault) => agent.odd.push(line(fault)),
        }
        agent.target = match url {
            Some(url) => Some(target_at(&url, Some(&card))),
            None => self.inline_target(agent, &card, &config.card),
        };
    }

    /// Adds the addresses that a card leads calls to.
    fn add_interfaces(&self, agent: &mut FoundAgent, card: &Card, url: Option<&Url>) {
        for address in card
            .interfaces
            .iter()
            .filter_map(|one| one.address.as_ref())
        {
            let origin = origin(address);
            if agent.interfaces.contains(&origin) {
                continue;
            }
            if url.is_some_and(|url| url.origin() != address.origin()) {
                agent
                    .odd
                    .push(format!("the card leads calls to another origin: {origin}"));
            }
            if special_host(address).is_some() && !self.is_given(address) {
                agent.odd.push(format!("{origin} is not a public address"));
            } else if address.scheme() == "http" && special_host(address).is_none() {
                agent.odd.push(format!("{origin} is not encrypted"));
            }
            agent.interfaces.push(origin);
        }
    }

    /// Returns the target of a card inside a catalog. Its base URL is where the card leads calls.
    fn inline_target(
        &self,
        agent: &mut FoundAgent,
        card: &Card,
        location: &CardLocation,
    ) -> Option<Value> {
        let address = card.interfaces.iter().find_map(|one| one.address.as_ref());
        let Some(address) = address.filter(|address| normal_url(address.as_str()).is_ok()) else {
            agent.odd.push("its card has no usable address".to_owned());
            return None;
        };
        // An operator's own address may be private, and this one is the catalog's.
        if special_host(address).is_some() && !self.is_given(address) && !self.allow_private {
            return None;
        }
        let CardLocation::Given(card) = location else {
            return None;
        };
        Some(json!({"baseUrl": address.as_str(), "card": **card}))
    }
}

impl FoundAgent {
    fn lines(&self) -> String {
        let mut head = format!("{}. {}", self.number, self.name);
        if let Some(version) = &self.version {
            head.push_str(&format!(" {version}"));
        }
        if let Some(protocol) = &self.protocol {
            head.push_str(&format!(" (A2A {})", line(protocol)));
        }
        let mut lines = vec![head];
        lines.extend(self.identifier.clone());
        lines.push(match &self.card {
            Some(card) => format!("card: {card}"),
            None if self.inline => format!("card: inside {}", self.catalog),
            None => format!("listed in {}", self.catalog),
        });
        if !self.interfaces.is_empty() {
            lines.push(format!("calls: {}", self.interfaces.join(", ")));
        }
        if !self.skills.is_empty() {
            let named = self.skills.iter().take(MAX_NAMED_SKILLS);
            let named: Vec<&str> = named.map(String::as_str).collect();
            let more = match self.skills.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lines.push(format!("skills: {}{more}", named.join(", ")));
        }
        if let Some(authentication) = &self.authentication {
            lines.push(format!("requires {authentication}"));
        }
        lines.extend(self.odd.iter().map(|fault| format!("odd: {fault}")));
        if self.target.is_none() {
            lines.push("cannot be added".to_owned());
        }
        lines.join("\n   ")
    }
}

/// Returns the agent whose card is in a file of the person who adds it. They vouch for its addresses.
///
/// # Errors
/// The file cannot be read, or has no card; a sentence.
pub(super) async fn in_file(
    net: &dyn HttpClient,
    file: &Path,
    allow_private: bool,
) -> Result<FoundAgents, String> {
    let name = file.display();
    let text = read_bounded(file, MAX_CARD_BYTES as u64)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    let card: Value = json::from_str(&text, CARD_LIMITS)
        .map_err(|error| format!("`{name}` cannot be read as JSON: {error}"))?;
    if let (Some(url), Value::Object(_)) = (card["target_url"].as_str(), &card["peer_card"]) {
        let given = normal_url(url).map_err(|fault| format!("`{name}`: `target_url` {fault}"))?;
        return Ok(at_address(net, given, &card["target_name"], allow_private).await);
    }
    let read = Card::read(&card).map_err(|fault| format!("`{name}` is no agent card: {fault}"))?;
    let address = read.interfaces.iter().find_map(|one| one.address.clone());
    let given = address.ok_or_else(|| format!("the card in `{name}` has no address"))?;
    let entry = Entry {
        value: json!({ "data": card }),
        catalog: given.clone(),
        is_presumed: false,
    };
    let mut agent = Scope::new(net, given, allow_private).agent(1, &entry).await;
    agent.inline = false;
    agent.card = Some(name.to_string());
    if let Some(target) = &mut agent.target {
        target["card"] = name.to_string().into();
    }
    agent.text = agent.lines();
    Ok(FoundAgents {
        agents: vec![agent],
        ..FoundAgents::default()
    })
}

/// Returns the agent at the address in the output of `remote-agent card`. That has only the readable part of the card, without its
/// security, so the card is read again.
async fn at_address(
    net: &dyn HttpClient,
    given: Url,
    name: &Value,
    allow_private: bool,
) -> FoundAgents {
    let url = format!("{}{CARD_PATH}", given.as_str().trim_end_matches('/'));
    let entry = Entry {
        value: json!({"url": url, "displayName": name}),
        catalog: given.clone(),
        is_presumed: false,
    };
    let agent = Scope::new(net, given, allow_private).agent(1, &entry).await;
    FoundAgents {
        agents: vec![agent],
        ..FoundAgents::default()
    }
}

/// Returns where the card of an entry is.
fn card_location(entry: &Value) -> Result<CardLocation, String> {
    match (&entry["url"], &entry["data"]) {
        (Value::String(url), Value::Null) => {
            let url = normal_url(url).map_err(|fault| format!("its `url` {}", line(&fault)))?;
            Ok(CardLocation::Url(url))
        }
        (Value::Null, Value::Object(_)) => Ok(CardLocation::Given(Arc::new(entry["data"].clone()))),
        (Value::Null, Value::Null) => Err("it has neither `url` nor `data`".to_owned()),
        (Value::Null | Value::String(_), _) if !entry["url"].is_null() => {
            Err("it has both `url` and `data`".to_owned())
        }
        _ => Err("its `url` is no text, or its `data` is no card".to_owned()),
    }
}

/// Returns the settings for the card at `url`. Agents of one server have different base URLs, so that each is its own target.
fn target_at(url: &Url, card: Option<&Card>) -> Value {
    let text = url.as_str();
    let paths = [CARD_PATH, OLD_CARD_PATH];
    let base = paths.iter().find_map(|path| text.strip_suffix(path));
    let mut interfaces = card.into_iter().flat_map(|card| &card.interfaces);
    let own = interfaces.find_map(|one| {
        let address = one.address.as_ref()?;
        let is_own = address.origin() == url.origin() && normal_url(address.as_str()).is_ok();
        is_own.then(|| address.to_string())
    });
    let base = base.map(str::to_owned).or(own);
    json!({"baseUrl": base.unwrap_or_else(|| origin(url)), "cardUrl": text})
}

/// Returns the domain in the identifier of an entry (`urn:air:DOMAIN:…`).
fn publisher(entry: &Value) -> Option<String> {
    let identifier = entry["identifier"].as_str()?.to_ascii_lowercase();
    let domain = identifier.strip_prefix("urn:air:")?.split(':').next()?;
    Some(domain.to_owned())
}

/// Returns whether a host belongs to a domain: it is that domain, or below it.
pub(super) fn is_of(host: &str, domain: &str) -> bool {
    let below = host
        .strip_suffix(domain)
        .and_then(|rest| rest.strip_suffix('.'));
    host == domain || (domain.contains('.') && below.is_some())
}
