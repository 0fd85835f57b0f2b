//! The fields of agent cards that the tool needs (A2A 0.3 §5.5, 1.0 §4.4), read leniently.

pub mod fields;

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::json::{field, items, text};
use super::security::Security;
use fields::CardFields;

/// An agent card.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The interfaces of the peer, the preferred one first. Not empty.
    pub interfaces: Vec<Interface>,
    /// Whether the peer declares streaming.
    pub streaming: Option<bool>,
    /// Whether the peer has an extended card for authenticated callers.
    pub has_extended_card: bool,
    /// The extensions that the peer offers.
    pub extensions: Vec<CardExtension>,
    /// The security requirements.
    pub security: Arc<Security>,
    /// The part that `list_targets` shows; an error text if only that part is invalid.
    pub view: Result<CardView, String>,
    /// What a person accepts who trusts the agent.
    pub fields: CardFields,
    /// Where the client found it, without a query, if at the origin of the peer and not below its base URL.
    pub found_at: Option<String>,
}

/// An extension of the protocol that a peer offers (A2A 0.3 §5.5.2.1, 1.0 §4.4.4).
#[derive(Debug, Clone, PartialEq)]
pub struct CardExtension {
    /// Its URI; empty if the card names none.
    pub uri: String,
    /// Whether the peer refuses clients without it.
    pub required: bool,
    /// Its parameters, as in the card.
    pub params: Option<Value>,
}

/// An interface of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Interface {
    /// The name of the transport, as in the card.
    pub transport: String,
    /// The URL, as in the card.
    pub url: String,
    /// The declared version, as in the card.
    #[serde(skip)]
    pub version: Option<String>,
    /// The tenant of its requests (A2A 1.0 §4.4).
    #[serde(skip)]
    pub tenant: Option<String>,
    /// The parsed URL, if it is absolute. Others are relative to the base URL of the peer.
    #[serde(skip)]
    pub address: Option<Url>,
}

impl Interface {
    /// Creates an interface at `url` without further fields.
    pub fn new(transport: impl Into<String>, url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            transport: transport.into(),
            address: Url::parse(&url).ok(),
            url,
            version: None,
            tenant: None,
        }
    }
}

/// The descriptive part of a card, in the contract's terms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CardView {
    /// The agent's name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The preferred transport.
    pub preferred_transport: Option<String>,
    /// The declared interfaces beside the main one, without duplicates.
    pub additional_interfaces: Vec<Interface>,
    /// The capabilities.
    pub capabilities: Capabilities,
    /// The media types of its input.
    pub default_input_modes: Vec<String>,
    /// The media types of its output.
    pub default_output_modes: Vec<String>,
    /// The skills.
    pub skills: Vec<Skill>,
}

/// The capabilities that a card declares; `None` if it does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capabilities {
    /// Whether it streams.
    pub streaming: Option<bool>,
    /// Whether it sends push notifications.
    pub push_notifications: Option<bool>,
    /// Whether it records a history of states.
    pub state_transition_history: Option<bool>,
    /// The protocol extensions, as in the card.
    pub extensions: Vec<Value>,
}

/// A skill of a peer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Skill {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Key words.
    pub tags: Vec<String>,
    /// Example requests.
    pub examples: Vec<String>,
    /// The media types of its input, if they differ from those of the peer.
    pub input_modes: Vec<String>,
    /// The media types of its output, if they differ from those of the peer.
    pub output_modes: Vec<String>,
}

impl Card {
    /// Creates a card with these interfaces and this description, which declares nothing else.
    pub fn new(interfaces: Vec<Interface>, view: CardView) -> Self {
        Self {
            interfaces,
            streaming: None,
            has_extended_card: false,
            extensions: Vec::new(),
            security: Arc::default(),
            fields: CardFields::default(),
            view: Ok(view),
            found_at: None,
        }
    }

    /// Parses a card of either version.
    ///
    /// # Errors
    /// The reason why the card is unusable for calls.
    pub fn read(json: &Value) -> Result<Self, String> {
        read(json)
    }
}

fn read(json: &Value) -> Result<Card, String> {
    let card = json.as_object().ok_or("the card is not a JSON object")?;
    let interfaces_1_0 = interfaces_1_0(card);
    let mut interfaces = if interfaces_1_0.is_empty() {
        interfaces_0_3(card)
    } else {
        interfaces_1_0.clone()
    };
    if interfaces.is_empty() {
        interfaces.extend(interface_at_base(card));
    }
    if interfaces.is_empty() {
        return Err("the card has neither a `url` nor usable `supportedInterfaces`".into());
    }
    let capabilities = field(card, "capabilities");
    Ok(Card {
        interfaces,
        streaming: flag(capabilities, "streaming"),
        has_extended_card: flag(capabilities, "extendedAgentCard")
            .or_else(|| flag(Some(json), "supportsAuthenticatedExtendedCard"))
            .unwrap_or(false),
        extensions: extensions(capabilities),
        security: Arc::new(crate::security::read(card)),
        view: view(card, &interfaces_1_0),
        fields: CardFields::read(json),
        found_at: None,
    })
}

/// Returns the interfaces of 1.0, which list those of other versions too (1.0 §4.4.6).
fn interfaces_1_0(card: &Map<String, Value>) -> Vec<Interface> {
    let list = items(field(card, "supportedInterfaces")).iter();
    let all = list.filter_map(|entry| {
        Some(Interface {
            version: text(member(entry, "protocolVersion")),
            tenant: text(member(entry, "tenant")),
            ..Interface::new(
                transport_of(entry).unwrap_or_else(default_transport),
                text(member(entry, "url"))?,
            )
        })
    });
    without_duplicates(all.collect())
}

/// Returns the only interface of a card whose address is empty: the base URL, to which an empty reference leads.
fn interface_at_base(card: &Map<String, Value>) -> Option<Interface> {
    let is_empty = |url: Option<&Value>| url.and_then(Value::as_str) == Some("");
    let interfaces = items(field(card, "supportedInterfaces"));
    if let Some(entry) = interfaces
        .iter()
        .find(|entry| is_empty(member(entry, "url")))
    {
        let transport = transport_of(entry).unwrap_or_else(default_transport);
        return Some(Interface {
            version: text(member(entry, "protocolVersion")),
            tenant: text(member(entry, "tenant")),
            ..Interface::new(transport, "")
        });
    }
    let transport = text(field(card, "preferredTransport")).unwrap_or_else(default_transport);
    is_empty(field(card, "url")).then(|| Interface {
        version: Some(text(field(card, "protocolVersion")).unwrap_or_else(|| "0.3".into())),
        ..Interface::new(transport, "")
    })
}

/// Returns the transport of an interface by its name in 1.0 or 0.3: cards mix them.
fn transport_of(entry: &Value) -> Option<String> {
    text(member(entry, "protocolBinding")).or_else(|| text(member(entry, "transport")))
}

/// Returns the default transport of an interface.
fn default_transport() -> String {
    "JSONRPC".into()
}

/// Returns the interfaces of 0.3: the main one, then the additional ones. A card without a version is one of 0.3.
fn interfaces_0_3(card: &Map<String, Value>) -> Vec<Interface> {
    let version = text(field(card, "protocolVersion")).unwrap_or_else(|| "0.3".into());
    let transport = text(field(card, "preferredTransport")).unwrap_or_else(default_transport);
    let main = text(field(card, "url")).map(|url| Interface::new(transport, url));
    let mut all: Vec<_> = main.into_iter().collect();
    all.extend(interfaces_of(field(card, "additionalInterfaces")));
    for interface in &mut all {
        interface.version = Some(version.clone());
    }
    without_duplicates(all)
}

fn extensions(capabilities: Option<&Value>) -> Vec<CardExtension> {
    items(capabilities.and_then(|c| member(c, "extensions")))
        .iter()
        .filter(|extension| extension.is_object())
        .map(|extension| CardExtension {
            uri: text(member(extension, "uri")).unwrap_or_default(),
            required: flag(Some(extension), "required") == Some(true),
            params: member(extension, "params").cloned(),
        })
        .collect()
}

/// Reads the part that `list_targets` shows. `interfaces_1_0` are the interfaces of 1.0, which replace those of 0.3.
fn view(card: &Map<String, Value>, interfaces_1_0: &[Interface]) -> Result<CardView, String> {
    let capabilities = field(card, "capabilities");
    let (preferred_transport, additional_interfaces) = match interfaces_1_0.split_first() {
        Some((first, rest)) => {
            let shown = |one: &Interface| Interface::new(one.transport.clone(), one.url.clone());
            let main = shown(first);
            let others = without_duplicates(rest.iter().map(shown).collect());
            let others = others.into_iter().filter(|other| *other != main).collect();
            (Some(main.transport), others)
        }
        None => (
            text(field(card, "preferredTransport")),
            without_duplicates(interfaces_of(field(card, "additionalInterfaces")).collect()),
        ),
    };
    Ok(CardView {
        name: text(field(card, "name")),
        description: text(field(card, "description")),
        preferred_transport,
        additional_interfaces,
        capabilities: Capabilities {
            streaming: flag(capabilities, "streaming"),
            push_notifications: flag(capabilities, "pushNotifications"),
            state_transition_history: flag(capabilities, "stateTransitionHistory"),
            extensions: items(capabilities.and_then(|c| member(c, "extensions")))
                .iter()
                .filter(|extension| extension.is_object())
                .cloned()
                .collect(),
        },
        default_input_modes: texts(field(card, "defaultInputModes")),
        default_output_modes: texts(field(card, "defaultOutputModes")),
        skills: items(field(card, "skills"))
            .iter()
            .map(skill)
            .collect::<Result<_, _>>()?,
    })
}

fn skill(json: &Value) -> Result<Skill, String> {
    let skill = json
        .as_object()
        .ok_or("the card has a skill that is not an object")?;
    let name = text(field(skill, "name")).unwrap_or_default();
    Ok(Skill {
        id: text(field(skill, "id")).unwrap_or_default(),
        description: text(field(skill, "description")).unwrap_or_else(|| name.clone()),
        name,
        tags: texts(field(skill, "tags")),
        examples: texts(field(skill, "examples")),
        input_modes: texts(field(skill, "inputModes")),
        output_modes: texts(field(skill, "outputModes")),
    })
}

fn interfaces_of(list: Option<&Value>) -> impl Iterator<Item = Interface> {
    items(list).iter().filter_map(|entry| {
        Some(Interface::new(
            transport_of(entry)?,
            text(member(entry, "url"))?,
        ))
    })
}

fn member<'a>(value: &'a Value, camel: &str) -> Option<&'a Value> {
    field(value.as_object()?, camel)
}

/// Returns the texts of a list without duplicates. A bare string counts as the list of its characters, as in the
/// reference plugin, so that the invalid card is visible.
fn texts(value: Option<&Value>) -> Vec<String> {
    let all: Vec<String> = match value {
        Some(Value::Array(list)) => list.iter().filter_map(|item| text(Some(item))).collect(),
        Some(Value::String(text)) => text
            .chars()
            .map(String::from)
            .filter(|c| !c.trim().is_empty())
            .collect(),
        _ => Vec::new(),
    };
    without_duplicates(all)
}

/// Removes repeated items, in linear time, because a peer chooses their number.
fn without_duplicates<T: Clone + Eq + Hash>(mut all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::with_capacity(all.len());
    all.retain(|item| seen.insert(item.clone()));
    all
}

fn flag(object: Option<&Value>, key: &str) -> Option<bool> {
    member(object?, key)?.as_bool()
}

#[cfg(test)]
mod tests;
