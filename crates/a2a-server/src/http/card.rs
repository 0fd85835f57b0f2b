//! Agent cards (A2A 1.0 §4.4 and §8, A2A 0.3 §5.5). The server builds them from the current agents for each request.

use std::time::{Duration, SystemTime};

use a2a::http::JSON;
use a2a::{A2aError, Dialect, ErrorReason};
use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LAST_MODIFIED,
    VARY,
};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use url::Url;

use super::error::Failure;
use super::{App, error, request};
use crate::executor::{Agent, OUTPUT_MODES};
use crate::service::AGENT;
use crate::service::CallContext;
use a2a::Version;

/// The part of an agent card that does not depend on the agents.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    /// The name of the server.
    pub name: String,
    /// The description of the server.
    pub description: String,
    /// The version of the server.
    pub version: String,
    /// The URL for clients, if it differs from the origin of their requests.
    pub public_url: Option<Url>,
    /// The URL of the documentation.
    pub documentation_url: Option<Url>,
    /// Whether clients may register webhooks.
    pub push_notifications: bool,
    /// Whether a certificate identifies some of the clients.
    pub client_certificates: bool,
    /// The media types that the agents accept.
    pub input_modes: Vec<String>,
    /// The media types in which the agents answer.
    pub output_modes: Vec<String>,
    /// How long clients may cache the agent card.
    pub max_age: Duration,
}

impl CardFacts {
    /// Creates the facts with text input and output, push notifications, and a cache lifetime of one minute.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        version: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            version: version.into(),
            public_url: None,
            documentation_url: None,
            push_notifications: true,
            client_certificates: false,
            input_modes: vec!["text/plain".to_owned()],
            output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
            max_age: Duration::from_secs(60),
        }
    }
}

/// Serves the public agent card of the server or of one agent.
pub(crate) async fn serve(app: &App, parts: &Parts, agent: Option<String>) -> Response {
    match public(app, parts, agent).await {
        Ok(response) => response,
        Err(failure) => error::rest(Version::V1_0, &failure),
    }
}

async fn public(app: &App, parts: &Parts, agent: Option<String>) -> Result<Response, Failure> {
    let agent = request::agent(app, agent, None).await?;
    let base = request::base_url(app, parts)?;
    // A client that requests no version, or an unknown one, needs the supported versions in the card.
    let format = match request::requested_version(parts) {
        Ok(Version::V1_0) => CardFormat::V1,
        _ => CardFormat::Both,
    };
    let list = app.service.agent_list().await?;
    let mut card = CardContent {
        facts: &app.card,
        base: &base,
        agents: &list.agents,
        bearer: app.requires_token,
        // Without tokens, every client may see all details.
        detailed: !app.requires_token,
    }
    .write(agent.as_deref(), format)?;
    if let Some(signer) = &app.card_signer {
        signer.sign(&mut card, &base);
    }
    let mut response = cacheable(app, parts, &card, list.changed, JSON);
    // The URLs on the card depend on the host of the request.
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Host, A2A-Version"));
    Ok(response)
}

/// Serves the catalog of the public cards.
pub(crate) async fn serve_catalog(app: &App, parts: &Parts) -> Response {
    let list = match app.service.agent_list().await {
        Ok(list) => list,
        Err(error) => return error::rest(Version::V1_0, &error.into()),
    };
    let base = app.card.public_url.as_ref().map_or("", Url::as_str);
    let catalog = CardContent {
        facts: &app.card,
        base: base.trim_end_matches('/'),
        agents: &list.agents,
        bearer: app.requires_token,
        detailed: !app.requires_token,
    }
    .write_catalog();
    // The same bytes on both paths: readers of ARD expect JSON, and ignore what only an AI Catalog has.
    let media_type = match parts.uri.path().contains("ard.json") {
        true => JSON,
        false => "application/ai-catalog+json",
    };
    let mut response = cacheable(app, parts, &catalog, list.changed, media_type);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Returns a response that clients may cache, or 304 if theirs is the current one.
fn cacheable(
    app: &App,
    parts: &Parts,
    content: &Value,
    changed: SystemTime,
    media_type: &'static str,
) -> Response {
    let bytes = serde_json::to_vec(content).unwrap_or_default();
    let tag = request::entity_tag(&bytes);
    let known = parts.headers.get_all(IF_NONE_MATCH).iter();
    let mut response =
        if request::matches_entity_tag(known.filter_map(|line| line.to_str().ok()), &tag) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let mut response = Response::new(Body::from(bytes));
            let media_type = HeaderValue::from_static(media_type);
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        };
    let headers = response.headers_mut();
    let max_age = format!("public, max-age={}", app.card.max_age.as_secs());
    let changed = httpdate::fmt_http_date(changed);
    for (name, value) in [
        (ETAG, tag),
        (CACHE_CONTROL, max_age),
        (LAST_MODIFIED, changed),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// Returns the extended agent card (A2A 1.0 §3.1.11, A2A 0.3 §7.10) with all agents and their skills.
///
/// # Errors
/// The server requires no token and therefore has no extended card, or the client is not authenticated.
pub(crate) async fn extended(
    app: &App,
    caller: &CallContext,
    dialect: Dialect,
    base: &str,
) -> Result<Value, A2aError> {
    if !app.requires_token {
        let reason = match dialect {
            // 1.0 has different errors for a card that is not declared and one that is missing.
            Dialect::V1_0 => ErrorReason::UnsupportedOperation,
            Dialect::V0_3(_) => ErrorReason::ExtendedAgentCardNotConfigured,
        };
        return Err(A2aError::new(
            reason,
            "this server has no extended card, because it requires no authentication; the public card has all details",
        ));
    }
    if !caller.authenticated {
        return Err(A2aError::new(
            ErrorReason::Unauthenticated,
            "the extended card requires authentication; send `Authorization: Bearer TOKEN`",
        ));
    }
    let format = match dialect {
        Dialect::V1_0 => CardFormat::V1,
        Dialect::V0_3(_) => CardFormat::V0_3,
    };
    let mut card = CardContent {
        facts: &app.card,
        base,
        agents: &app.service.agents().await?,
        bearer: true,
        detailed: true,
    }
    .write(caller.agent.as_deref(), format)?;
    if let Some(signer) = &app.card_signer {
        signer.sign(&mut card, base);
    }
    Ok(card)
}

/// The URI of the extension that lists the agents.
const AGENTS_EXTENSION: &str = "urn:openclaw-remote-agent:agents:1";

/// The characters of a path segment that need percent-encoding.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The versions whose fields a card has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CardFormat {
    /// The fields of both versions, for the well-known path. Clients of 1.0 read `supportedInterfaces` (A2A 1.0
    /// §8.3.2).
    Both,
    /// The fields of 1.0.
    V1,
    /// The fields of 0.3.
    V0_3,
}

/// The data of a card.
struct CardContent<'a> {
    facts: &'a CardFacts,
    /// The URL of the server, without a slash at the end.
    base: &'a str,
    agents: &'a [Agent],
    /// Whether requests need a bearer token.
    bearer: bool,
    /// Whether the card shows the agents' own skills.
    detailed: bool,
}

impl CardContent<'_> {
    /// Returns the card of the server, or of one agent.
    ///
    /// # Errors
    /// The agent no longer exists.
    fn write(&self, agent: Option<&str>, format: CardFormat) -> Result<Value, A2aError> {
        let facts = self.facts;
        let mut card = Map::new();
        let (name, description, base, skills) = match agent {
            None => (
                facts.name.clone(),
                facts.description.clone(),
                self.base.to_owned(),
                self.all_skills(),
            ),
            Some(name) => {
                let agent = self.agents.iter().find(|agent| agent.name == name);
                let agent = agent.ok_or_else(|| {
                    A2aError::new(
                        ErrorReason::InvalidParams,
                        "the agent does not exist any more",
                    )
                })?;
                let base = self.agent_base(agent);
                (
                    title_of(agent),
                    description_of(agent),
                    base,
                    self.skills(agent, ""),
                )
            }
        };
        card.insert("name".to_owned(), name.into());
        card.insert("description".to_owned(), description.into());
        card.insert("version".to_owned(), facts.version.clone().into());
        if let Some(url) = &facts.documentation_url {
            card.insert("documentationUrl".to_owned(), url.as_str().into());
        }
        card.insert("defaultInputModes".to_owned(), json!(facts.input_modes));
        card.insert("defaultOutputModes".to_owned(), json!(facts.output_modes));
        card.insert("skills".to_owned(), skills);
        self.add_interfaces(&mut card, &base, format);
        self.add_capabilities(&mut card, agent, format);
        if self.bearer {
            add_security(&mut card, facts.client_certificates, format);
        }
        Ok(Value::Object(card))
    }

    /// Returns the catalog: the server, and each of several agents. All of these cards are public.
    fn write_catalog(&self) -> Value {
        let facts = self.facts;
        let host = facts.public_url.as_ref().and_then(Url::host_str);
        let publisher = host.unwrap_or_default();
        let entry = |name: &str, title: &str, description: &str, base: &str| {
            json!({
                "identifier": format!("urn:air:{publisher}:a2a:{name}"),
                "displayName": title,
                "description": description,
                "type": "application/a2a-agent-card+json",
                "version": facts.version,
                "url": format!("{base}/.well-known/agent-card.json"),
            })
        };
        let server = entry("server", &facts.name, &facts.description, self.base);
        let has_agents = self.agents.len() > 1;
        let agents = self.agents.iter().filter(|_| has_agents).map(|agent| {
            let name = format!("agent:{}", utf8_percent_encode(&agent.name, SEGMENT));
            let (title, description) = (title_of(agent), description_of(agent));
            entry(&name, &title, &description, &self.agent_base(agent))
        });
        let entries: Vec<Value> = std::iter::once(server).chain(agents).collect();
        json!({"specVersion": "1.0", "host": {"displayName": facts.name}, "entries": entries})
    }

    fn agent_base(&self, agent: &Agent) -> String {
        let name = utf8_percent_encode(&agent.name, SEGMENT);
        format!("{}/agents/{name}", self.base)
    }

    fn add_interfaces(&self, card: &mut Map<String, Value>, base: &str, format: CardFormat) {
        let rpc = format!("{base}/a2a");
        let rest = format!("{base}/rest");
        if format != CardFormat::V0_3 {
            let interfaces = json!([
                {"url": rpc, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": rest, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
                {"url": rpc, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
                {"url": rest, "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
            ]);
            card.insert("supportedInterfaces".to_owned(), interfaces);
        }
        if format != CardFormat::V1 {
            card.insert("protocolVersion".to_owned(), "0.3.0".into());
            card.insert("preferredTransport".to_owned(), "JSONRPC".into());
            let interfaces = json!([
                {"url": rpc, "transport": "JSONRPC"},
                {"url": rest, "transport": "HTTP+JSON"},
            ]);
            card.insert("additionalInterfaces".to_owned(), interfaces);
            card.insert("url".to_owned(), rpc.into());
        }
    }

    fn add_capabilities(
        &self,
        card: &mut Map<String, Value>,
        agent: Option<&str>,
        format: CardFormat,
    ) {
        let mut capabilities = json!({
            "streaming": true,
            "pushNotifications": self.facts.push_notifications,
        });
        if format != CardFormat::V0_3 {
            capabilities["extendedAgentCard"] = self.bearer.into();
        }
        if format != CardFormat::V1 {
            card.insert(
                "supportsAuthenticatedExtendedCard".to_owned(),
                self.bearer.into(),
            );
        }
        if agent.is_none() && self.detailed && self.agents.len() > 1 {
            let agents: Vec<Value> = self
                .agents
                .iter()
                .map(|agent| {
                    let base = self.agent_base(agent);
                    json!({"name": agent.name, "card": format!("{base}/.well-known/agent-card.json")})
                })
                .collect();
            capabilities["extensions"] = json!([{
                "uri": AGENTS_EXTENSION,
                "description": "The agents behind this server. Each has its own card with an address. Clients can also call it here, by its name in the metadata of a message.",
                "required": false,
                "params": {"metadata": AGENT, "agents": agents},
            }]);
        }
        card.insert("capabilities".to_owned(), capabilities);
    }

    /// Returns one skill for each agent, and the agents' own skills if the card is detailed.
    fn all_skills(&self) -> Value {
        let skills = self.agents.iter().flat_map(|agent| {
            let mut skills = vec![agent_as_skill(agent)];
            if self.detailed {
                skills.extend(own_skills(agent, &format!("{}/", agent.name)));
            }
            skills
        });
        Value::Array(skills.collect())
    }

    /// Returns the skills of one agent, at least one.
    fn skills(&self, agent: &Agent, prefix: &str) -> Value {
        if agent.skills.is_empty() || !self.detailed {
            Value::Array(vec![agent_as_skill(agent)])
        } else {
            Value::Array(own_skills(agent, prefix).collect())
        }
    }
}

/// Returns a skill that represents the whole agent.
fn agent_as_skill(agent: &Agent) -> Value {
    json!({
        "id": agent.name,
        "name": title_of(agent),
        "description": description_of(agent),
        "tags": ["openclaw", "agent"],
    })
}

/// Returns the agent's own skills.
fn own_skills<'a>(agent: &'a Agent, prefix: &'a str) -> impl Iterator<Item = Value> + use<'a> {
    agent.skills.iter().filter_map(move |skill| {
        let mut json = serde_json::to_value(skill).ok()?;
        if !prefix.is_empty() {
            json["id"] = format!("{prefix}{}", skill.id).into();
        }
        Some(json)
    })
}

fn title_of(agent: &Agent) -> String {
    agent.title.clone().unwrap_or_else(|| agent.name.clone())
}

fn description_of(agent: &Agent) -> String {
    agent
        .description
        .clone()
        .unwrap_or_else(|| format!("The agent `{}`.", agent.name))
}

/// Adds the bearer scheme, and that of certificates as an alternative, in the fields of both versions, so that clients of either
/// version find them.
fn add_security(card: &mut Map<String, Value>, certificates: bool, format: CardFormat) {
    // Clients that parse cards with the protobuf types of 0.3 expect these members, which 1.0 retains.
    let mut bearer = json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}});
    let mut mtls = json!({"mtlsSecurityScheme": {}});
    if format != CardFormat::V1 {
        bearer["type"] = "http".into();
        bearer["scheme"] = "bearer".into();
        mtls["type"] = "mutualTLS".into();
    }
    let all = [("bearer", bearer), ("mtls", mtls)];
    let (mut schemes, mut old, mut new) = (Map::new(), Vec::new(), Vec::new());
    for (name, scheme) in all.into_iter().take(1 + usize::from(certificates)) {
        schemes.insert(name.to_owned(), scheme);
        old.push(json!({ name: [] }));
        new.push(json!({"schemes": {name: {"list": []}}}));
    }
    if format != CardFormat::V1 {
        card.insert("security".to_owned(), old.into());
    }
    if format != CardFormat::V0_3 {
        card.insert("securityRequirements".to_owned(), new.into());
    }
    card.insert("securitySchemes".to_owned(), schemes.into());
}
