//! Finds agents for the person who adds one: reads AI Catalogs and ARD documents, and asks ARD search endpoints.
//!
//! Requests carry no credential, and only the host that the person gave may be an address that is not public. What a document
//! says is a claim: [`FoundAgent::odd`] lists what does not fit, and the person decides. `documents.rs` reads the documents, and
//! `cards.rs` what the cards of the listed agents say.

mod cards;
mod documents;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use base::config::{normal_url, with_presumed_scheme};
use base::text::shortened;
use base::visible::visible;
use egress::{BoxFuture, HttpClient};

use documents::Reader;

/// How many cards are read, and how many of them at a time.
const MAX_SHOWN: usize = 20;
const MAX_CONCURRENT: usize = 4;

const MAX_TEXT_CHARS: usize = 160;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Where to look for agents, and which.
#[derive(Debug, Default)]
pub struct AgentQuery {
    /// A domain, or the URL of a catalog, of a card or of a search endpoint.
    pub place: String,
    /// A file with a card, or with the output of `remote-agent card`, in place of `place`.
    pub file: Option<PathBuf>,
    /// Asks the search endpoint at `place` for this.
    pub search: Option<String>,
    /// Only the agent with this number, name or identifier.
    pub pick: Option<String>,
    /// Allows addresses that are not public.
    pub allow_private: bool,
}

impl AgentQuery {
    /// Reads a query of a host: an object with the names of the fields in camelCase.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let query: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let text = |name: &str| query[name].as_str().map(str::to_owned);
        Ok(Self {
            place: text("place").unwrap_or_default(),
            file: text("file").map(PathBuf::from),
            search: text("search"),
            pick: text("pick"),
            allow_private: query["allowPrivate"] == true,
        })
    }
}

/// The agents that the documents list. All texts are on one line and without hidden characters.
#[derive(Debug, Default, Serialize)]
pub struct FoundAgents {
    /// The agents whose cards were read.
    pub agents: Vec<FoundAgent>,
    /// How many more agents there are, whose cards were not read.
    pub left: usize,
    /// How many entries are no agents.
    pub others: usize,
    /// The search endpoints that the documents name.
    pub registries: Vec<String>,
    /// Why documents could not be read.
    pub problems: Vec<String>,
}

/// An agent that a document lists.
#[derive(Debug, Default, Serialize)]
pub struct FoundAgent {
    /// Its place in the list, from 1.
    pub number: usize,
    /// The name in the entry, else in the card.
    pub name: String,
    /// Identifies it in its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of A2A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The names of its skills.
    pub skills: Vec<String>,
    /// What the agent requires of its clients, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<String>,
    /// The document that lists it.
    pub catalog: String,
    /// The address of its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Where its card leads calls.
    pub interfaces: Vec<String>,
    /// What does not fit, a sentence each.
    pub odd: Vec<String>,
    /// The settings of a target, without an alias; `None` if it cannot be added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Value>,
    /// Whether the card is part of the catalog, so that only the catalog vouches for its addresses.
    pub inline: bool,
    /// Whether the card is at another origin than the place that the person gave.
    pub foreign: bool,
    /// All of this for a person, in lines.
    pub text: String,
}

/// Returns the agents that `query` asks for.
///
/// # Errors
/// The place is no address, or the pick names not exactly one agent; a sentence.
pub async fn find_agents(net: &dyn HttpClient, query: &AgentQuery) -> Result<FoundAgents, String> {
    if let Some(file) = &query.file {
        return cards::in_file(net, file, query.allow_private).await;
    }
    let place = query.place.trim();
    let whole = with_presumed_scheme(place).unwrap_or_else(|| place.to_owned());
    let given = normal_url(&whole).map_err(|fault| format!("`{}` {fault}", line(place)))?;
    let scope = Scope {
        is_search: query.search.is_some(),
        ..Scope::new(net, given, query.allow_private)
    };
    let mut reader = Reader::new(&scope);
    match &query.search {
        Some(text) => reader.search(text).await,
        None => reader.read().await,
    }
    let (entries, found) = reader.into_found();
    scope.describe(entries, found, query.pick.as_deref()).await
}

/// What all requests of one query share.
struct Scope<'a> {
    net: &'a dyn HttpClient,
    /// The address that the person gave.
    given: Url,
    allow_private: bool,
    is_search: bool,
    deadline: Instant,
}

/// An entry of a document, and where the document is.
struct Entry {
    value: Value,
    catalog: Url,
    /// It stands for the card that a domain has without a catalog.
    is_presumed: bool,
}

impl<'a> Scope<'a> {
    fn new(net: &'a dyn HttpClient, given: Url, allow_private: bool) -> Self {
        Self {
            net,
            given,
            allow_private,
            is_search: false,
            deadline: Instant::now() + TOTAL_TIMEOUT,
        }
    }

    /// Returns whether the person gave this origin.
    fn is_given(&self, url: &Url) -> bool {
        url.origin() == self.given.origin()
    }

    /// Returns when a request that begins now has to end.
    fn request_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + REQUEST_TIMEOUT)
    }

    /// Reads the cards of the agents that `pick` names, or of the first ones.
    async fn describe(
        &self,
        entries: Vec<Entry>,
        mut found: FoundAgents,
        pick: Option<&str>,
    ) -> Result<FoundAgents, String> {
        let all: Vec<(usize, &Entry)> = (1..).zip(&entries).collect();
        let is_named = |(number, entry): &&(usize, &Entry)| {
            pick.is_some_and(|pick| is_pick(pick, *number, &entry.name(), &entry.value))
        };
        let mut chosen: Vec<(usize, &Entry)> = all.iter().filter(is_named).copied().collect();
        // The name may be that of the card.
        let by_entry = !chosen.is_empty();
        if !by_entry {
            chosen = all;
        }
        found.left += chosen.len().saturating_sub(MAX_SHOWN);
        chosen.truncate(MAX_SHOWN);
        let agents = chosen.iter().map(|(number, entry)| {
            let agent: BoxFuture<'_, FoundAgent> = Box::pin(self.agent(*number, entry));
            agent
        });
        let agents: Vec<BoxFuture<'_, FoundAgent>> = agents.collect();
        let agents: Vec<FoundAgent> = stream::iter(agents)
            .buffered(MAX_CONCURRENT)
            .collect()
            .await;
        for ((_, entry), agent) in chosen.iter().zip(agents) {
            let is_picked = pick.is_none_or(|pick| {
                by_entry || is_pick(pick, agent.number, &agent.name, &entry.value)
            });
            if entry.is_presumed && agent.target.is_none() {
                // A domain needs no agent of its own beside those of its catalog.
                let faults = agent.odd.into_iter().filter(|_| found.agents.is_empty());
                found.problems.extend(faults);
            } else if is_picked {
                found.agents.push(agent);
            }
        }
        match (pick, found.agents.len()) {
            (None, _) | (_, 1) => Ok(found),
            (Some(pick), 0) => {
                let why = found.problems.first();
                let why = why.map(|problem| format!("; {problem}"));
                Err(format!(
                    "no agent there has the number, name or identifier `{}`{}",
                    line(pick),
                    why.unwrap_or_default()
                ))
            }
            (Some(pick), several) => Err(format!(
                "{several} agents there are called `{}`; pick one by its number",
                line(pick)
            )),
        }
    }
}

impl Entry {
    /// Returns the name: that of the entry, else the last segment of its identifier.
    fn name(&self) -> String {
        let identifier = self.value["identifier"].as_str().unwrap_or_default();
        let last = identifier.rsplit([':', '/']).next().unwrap_or_default();
        let name = line(self.value["displayName"].as_str().unwrap_or(last));
        match name.is_empty() {
            true => "an agent".to_owned(),
            false => name,
        }
    }
}

/// Returns a text of a document on one line, without hidden characters.
fn line(text: &str) -> String {
    let text = visible(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    shortened(&words.join(" "), MAX_TEXT_CHARS)
}

/// Formats a URL without its query, which may contain a key.
fn shown(url: &Url) -> String {
    format!("{}{}", origin(url), line(url.path()))
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns whether the pick of a person is this agent.
fn is_pick(pick: &str, number: usize, name: &str, entry: &Value) -> bool {
    let pick = pick.trim();
    pick == number.to_string()
        || name.eq_ignore_ascii_case(pick)
        || entry["identifier"].as_str() == Some(pick)
}

#[cfg(test)]
mod tests;
