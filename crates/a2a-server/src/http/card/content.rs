//! The content of an agent card.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::CardFacts;
use crate::executor::Agent;
use crate::service::AGENT;
use a2a::{A2aError, ErrorReason};

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
pub(super) enum CardFormat {
    /// The fields of both versions, for the well-known path. Clients of 1.0 read `supportedInterfaces` (A2A 1.0
    /// §8.3.2).
    Both,
    /// The fields of 1.0.
    V1,
    /// The fields of 0.3.
    V0_3,
}

/// The data of a card.
pub(super) struct CardContent<'a> {
    pub(super) facts: &'a CardFacts,
    /// The URL of the server, without a slash at the end.
    pub(super) base: &'a str,
    pub(super) agents: &'a [Agent],
    /// Whether requests need a bearer token.
    pub(super) bearer: bool,
    /// Whether the card shows the agents' own skills.
    pub(super) detailed: bool,
}

impl CardContent<'_> {
    /// Returns the card of the server, or of one agent.
    ///
    /// # Errors
    /// The agent no longer exists.
    pub(super) fn write(&self, agent: Option<&str>, format: CardFormat) -> Result<Value, A2aError> {
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
            add_security(&mut card, format);
        }
        Ok(Value::Object(card))
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

/// Adds the bearer scheme in the fields of both versions, so that clients of either version find it.
fn add_security(card: &mut Map<String, Value>, format: CardFormat) {
    let mut scheme = Map::new();
    // Clients that parse cards with the protobuf types of 0.3 expect this field, which 1.0 retains.
    let http = json!({"scheme": "Bearer"});
    scheme.insert("httpAuthSecurityScheme".to_owned(), http);
    if format != CardFormat::V1 {
        scheme.insert("type".to_owned(), "http".into());
        scheme.insert("scheme".to_owned(), "bearer".into());
        card.insert("security".to_owned(), json!([{"bearer": []}]));
    }
    if format != CardFormat::V0_3 {
        let requirements = json!([{"schemes": {"bearer": {"list": []}}}]);
        card.insert("securityRequirements".to_owned(), requirements);
    }
    card.insert("securitySchemes".to_owned(), json!({"bearer": scheme}));
}
