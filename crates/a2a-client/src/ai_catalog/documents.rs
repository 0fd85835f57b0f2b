//! The documents that list agents. Those of 2025 say `mediaType` where later ones say `type`.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LINK};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout_at;
use url::Url;

use a2a::Card;
use a2a::http::CARD_PATH;
use base::json;
use egress::{AddressPolicy, NetError, Request, body, redirect, status_text};

use super::{Entry, FoundAgents, MAX_SHOWN, Scope, line, shown};
use crate::response_json;

const WELL_KNOWN: [&str; 2] = ["/.well-known/ai-catalog.json", "/.well-known/ard.json"];

/// The relations of links to a catalog.
const RELATIONS: [&str; 2] = ["ai-catalog", "ard"];

const CARD_TYPE: &str = "application/a2a-agent-card+json";

/// The bytes of all documents together.
const MAX_BYTES: usize = 16 << 20;
/// The levels of catalogs inside the first one.
const MAX_DEPTH: usize = 4;
const MAX_DOCUMENTS: usize = 32;
const MAX_AGENTS: usize = 1000;
const MAX_REGISTRIES: usize = 8;

/// Why a document cannot be read.
struct Fault {
    status: Option<StatusCode>,
    message: String,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self {
            status: None,
            message,
        }
    }
}

impl From<NetError> for Fault {
    fn from(error: NetError) -> Self {
        error.to_string().into()
    }
}

/// What an entry stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Agent,
    Catalog,
    Registry,
    Other,
    /// The entry has no type.
    Unknown,
}

/// A document still to be read.
struct Source {
    url: Url,
    /// The document, if it is part of another one.
    inline: Option<Value>,
    depth: usize,
}

pub(super) struct Reader<'a> {
    scope: &'a Scope<'a>,
    visited: Vec<Url>,
    entries: Vec<Entry>,
    /// Identifier, version and address of each entry.
    known_entries: HashSet<[String; 3]>,
    left_bytes: AtomicUsize,
    found: FoundAgents,
}

impl<'a> Reader<'a> {
    pub(super) fn new(scope: &'a Scope<'a>) -> Self {
        Self {
            scope,
            visited: Vec::new(),
            entries: Vec::new(),
            known_entries: HashSet::new(),
            left_bytes: AtomicUsize::new(MAX_BYTES),
            found: FoundAgents::default(),
        }
    }

    /// Returns the agents, and what else the documents have.
    pub(super) fn into_found(self) -> (Vec<Entry>, FoundAgents) {
        (self.entries, self.found)
    }

    /// Reads the given document, or those of the given domain, and the catalogs inside.
    pub(super) async fn read(&mut self) {
        let given = self.scope.given.clone();
        let is_domain = given.path() == "/";
        let mut queue = VecDeque::new();
        let mut push = |url| {
            queue.push_back(Source {
                url,
                inline: None,
                depth: 0,
            })
        };
        if is_domain {
            // Links come before the well-known paths.
            if let Ok(headers) = self.head(&given).await {
                links(&headers, &given).into_iter().for_each(&mut push);
            }
            WELL_KNOWN
                .iter()
                .filter_map(|path| given.join(path).ok())
                .for_each(&mut push);
        } else {
            push(given.clone());
        }
        let mut absent = Vec::new();
        while let Some(source) = queue.pop_front() {
            if source.inline.is_none() {
                if self.visited.contains(&source.url) {
                    continue;
                }
                if self.visited.len() == MAX_DOCUMENTS {
                    let message = format!("only the first {MAX_DOCUMENTS} documents were read");
                    self.found.problems.push(message);
                    break;
                }
                self.visited.push(source.url.clone());
            }
            let name = format!("`{}`", shown(&source.url));
            let is_first = source.depth == 0;
            if let Err(fault) = self.read_source(source, &mut queue).await {
                let message = format!("{name}: {}", fault.message);
                match fault.status {
                    Some(StatusCode::NOT_FOUND | StatusCode::GONE) if is_domain && is_first => {
                        absent.push(message);
                    }
                    _ => self.found.problems.push(message),
                }
            }
        }
        if self.entries.is_empty() {
            self.found.problems.append(&mut absent);
        }
        let has_room = is_domain && self.entries.len() < MAX_SHOWN;
        let own = given.join(CARD_PATH).ok().filter(|_| has_room);
        if let Some(own) = own.filter(|own| !self.has_url(own)) {
            self.entries.push(Entry {
                value: json!({ "url": own.as_str() }),
                catalog: given,
                is_presumed: true,
            });
        }
    }

    fn has_url(&self, url: &Url) -> bool {
        let is_same = |entry: &Entry| entry.value["url"].as_str() == Some(url.as_str());
        self.entries.iter().any(is_same)
    }

    async fn read_source(
        &mut self,
        source: Source,
        queue: &mut VecDeque<Source>,
    ) -> Result<(), Fault> {
        let mut document = match source.inline {
            Some(document) => document,
            None => self.document(&source.url, None).await?,
        };
        let Some(entries) = list(&mut document, "entries")? else {
            // The person may have given the address of a card.
            let is_given = source.depth == 0 && source.url == self.scope.given;
            if is_given && Card::read(&document).is_ok() {
                self.push(json!({ "url": source.url.as_str() }), &source.url);
                return Ok(());
            }
            return Err("it has no list of `entries`".to_owned().into());
        };
        for entry in entries {
            match kind(&entry) {
                EntryKind::Agent => self.push(entry, &source.url),
                EntryKind::Registry => self.push_registry(&entry),
                EntryKind::Catalog if source.depth == MAX_DEPTH => {
                    let message = format!(
                        "`{}` has catalogs below level {MAX_DEPTH}, which were not read",
                        shown(&source.url)
                    );
                    if !self.found.problems.contains(&message) {
                        self.found.problems.push(message);
                    }
                }
                EntryKind::Catalog if queue.len() < MAX_DOCUMENTS => {
                    queue.extend(nested(entry, &source.url, source.depth + 1));
                }
                EntryKind::Catalog | EntryKind::Other | EntryKind::Unknown => {
                    self.found.others += 1;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry, unless another document has already had it.
    fn push(&mut self, value: Value, catalog: &Url) {
        if self.entries.len() >= MAX_AGENTS {
            self.found.left += 1;
            return;
        }
        let names = ["identifier", "version", "url"].map(|field| value[field].to_string());
        let is_named = names.iter().any(|name| name.starts_with('"'));
        if is_named && !self.known_entries.insert(names) {
            return;
        }
        self.entries.push(Entry {
            value,
            catalog: catalog.clone(),
            is_presumed: false,
        });
    }

    fn push_registry(&mut self, entry: &Value) {
        let url = entry["url"].as_str().map(line);
        let known = &mut self.found.registries;
        if let Some(url) = url.filter(|url| !known.contains(url))
            && known.len() < MAX_REGISTRIES
        {
            known.push(url);
        }
    }

    /// Asks the given search endpoint.
    pub(super) async fn search(&mut self, text: &str) {
        let base = self.scope.given.as_str().trim_end_matches('/');
        let base = base.strip_suffix("/search").unwrap_or(base).to_owned();
        let mut question = json!({
            "query": {"text": text, "filter": {"type": [CARD_TYPE]}},
            "federation": "none",
            "pageSize": MAX_SHOWN,
        });
        let Ok(url) = Url::parse(&format!("{base}/search")) else {
            return;
        };
        let mut answer = self.document(&url, Some(&question)).await;
        // An endpoint may refuse a filter that it does not support.
        if let Err(fault) = &answer
            && fault.status == Some(StatusCode::BAD_REQUEST)
        {
            question["query"] = json!({ "text": text });
            answer = self.document(&url, Some(&question)).await;
        }
        let read = match answer {
            Ok(answer) => self.read_results(answer, &base).await,
            Err(fault) => Err(fault.message),
        };
        if let Err(message) = read {
            let message = format!("`{}`: {message}", shown(&url));
            self.found.problems.push(message);
        }
    }

    async fn read_results(&mut self, mut answer: Value, base: &str) -> Result<(), String> {
        let results = list(&mut answer, "results")?.ok_or("it has no list of `results`")?;
        for (at, mut result) in results.into_iter().enumerate() {
            // Only the identifier of a result is certain to be there.
            let is_short = kind(&result) == EntryKind::Unknown
                || (result["url"].is_null() && result["data"].is_null());
            if at < MAX_SHOWN
                && is_short
                && let Some(url) = entry_url(base, &result)
                && let Ok(entry) = self.document(&url, None).await
            {
                result = entry;
            }
            match kind(&result) {
                EntryKind::Agent | EntryKind::Unknown => self.push(result, &self.scope.given),
                _ => self.found.others += 1,
            }
        }
        for referral in list(&mut answer, "referrals")?.into_iter().flatten() {
            self.push_registry(&referral);
        }
        Ok(())
    }

    /// Returns the headers of the home page.
    async fn head(&self, url: &Url) -> Result<HeaderMap, Fault> {
        let until = self.scope.request_deadline();
        let request = self.request(url, None)?;
        let fetched = timeout_at(until, redirect::follow(self.scope.net, request)).await;
        let fetched = fetched.map_err(|_| late())??;
        Ok(fetched.response.headers)
    }

    /// Returns the document at `url`, or the answer to `question`.
    async fn document(&self, url: &Url, question: Option<&Value>) -> Result<Value, Fault> {
        let until = self.scope.request_deadline();
        let read = async {
            let request = self.request(url, question)?;
            let mut response = redirect::follow(self.scope.net, request).await?.response;
            let status = response.status;
            if !status.is_success() {
                let what = match status.is_redirection() {
                    true => ", a redirect to another origin, which is not followed",
                    false => "",
                };
                return Err(Fault {
                    status: Some(status),
                    message: format!("it responded {}{what}", status_text(status)),
                });
            }
            let left = self.left_bytes.load(Ordering::Relaxed);
            let bytes = body::read_response(&mut response, left).await?;
            self.left_bytes
                .store(left.saturating_sub(bytes.len()), Ordering::Relaxed);
            let document = json::from_slice(&bytes, response_json::limits(bytes.len()));
            Ok(document.map_err(|error| format!("it cannot be read as JSON: {error}"))?)
        };
        let read = timeout_at(until, read).await;
        read.unwrap_or_else(|_| Err(late()))
    }

    fn request(&self, url: &Url, question: Option<&Value>) -> Result<Request, NetError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/ai-catalog+json, application/json"),
        );
        if question.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let (url, is_given) = (url.clone(), self.scope.is_given(url));
        let access = AddressPolicy::for_url(&url, self.scope.allow_private, is_given)?;
        Ok(Request {
            method: question.map_or(Method::GET, |_| Method::POST),
            headers,
            body: question.map(|question| Bytes::from(question.to_string())),
            ..Request::get(url, access)
        })
    }
}

fn late() -> Fault {
    "it did not arrive in time".to_owned().into()
}

/// Takes a list out of a document; `None` if it has no such list.
///
/// # Errors
/// The document has a later form.
fn list(document: &mut Value, name: &str) -> Result<Option<Vec<Value>>, String> {
    let version = match &document["specVersion"] {
        Value::String(version) => version.clone(),
        version => version.to_string(),
    };
    let major = version.split('.').next().unwrap_or_default();
    if let Ok(2..) = major.parse::<u32>() {
        let version = line(&version);
        return Err(format!(
            "its `specVersion` is {version}; this reads version 1"
        ));
    }
    Ok(match document.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    })
}

/// Returns what an entry stands for. Publishers write the types in many ways.
fn kind(entry: &Value) -> EntryKind {
    let name = entry["type"].as_str().or(entry["mediaType"].as_str());
    let Some(name) = name else {
        return EntryKind::Unknown;
    };
    let mut letters = name.to_ascii_lowercase();
    letters.retain(|c| c.is_ascii_alphanumeric());
    let has = |part: &str| letters.contains(part);
    if has("aicatalog") {
        EntryKind::Catalog
    } else if has("airegistry") {
        EntryKind::Registry
    } else if has("a2a") || has("agentcard") {
        EntryKind::Agent
    } else {
        EntryKind::Other
    }
}

/// Returns the catalog that an entry stands for.
fn nested(mut entry: Value, catalog: &Url, depth: usize) -> Option<Source> {
    let data = entry.get_mut("data").map(Value::take).unwrap_or_default();
    let (url, inline) = match (entry["url"].as_str(), data) {
        (Some(url), Value::Null) => (catalog.join(url).ok()?, None),
        (None, data @ Value::Object(_)) => (catalog.clone(), Some(data)),
        _ => return None,
    };
    Some(Source { url, inline, depth })
}

/// Returns where a registry has the whole entry of a result.
fn entry_url(base: &str, result: &Value) -> Option<Url> {
    let mut url = Url::parse(base).ok()?;
    let identifier = result["identifier"].as_str()?;
    url.path_segments_mut()
        .ok()?
        .pop_if_empty()
        .extend(["agents", identifier]);
    Some(url)
}

/// Returns the catalogs that the headers of a response link to (RFC 8288).
fn links(headers: &HeaderMap, base: &Url) -> Vec<Url> {
    let values = headers.get_all(LINK).iter().filter_map(|v| v.to_str().ok());
    let links = values.flat_map(|value| value.split('<').skip(1));
    let is_catalog = |parameters: &str| {
        let mut parameters = parameters
            .split([';', ','])
            .filter_map(|one| one.split_once('='));
        parameters.any(|(name, value)| {
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            let is_known =
                |relation: &str| RELATIONS.iter().any(|r| relation.eq_ignore_ascii_case(r));
            name.trim().eq_ignore_ascii_case("rel") && relations.any(is_known)
        })
    };
    links
        .filter_map(|link| {
            let (target, parameters) = link.split_once('>')?;
            let url = is_catalog(parameters).then(|| base.join(target))?.ok()?;
            Some(url)
        })
        .collect()
}
