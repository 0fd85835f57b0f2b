//! The fields of agent cards that the tool needs (A2A 0.3 §5.5, 1.0 §4.4).

mod read;

use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::security::Security;

/// An agent card.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The interfaces of the peer, the preferred one first. Not empty.
    pub interfaces: Vec<Interface>,
    /// Whether the peer declares streaming.
    pub streaming: Option<bool>,
    /// Whether the peer has an extended card for authenticated callers.
    pub has_extended_card: bool,
    /// The URIs of the extensions that the peer requires.
    pub required_extensions: Vec<String>,
    /// The security requirements.
    pub security: Security,
    /// The part that `list_targets` shows; an error text if only that part is invalid.
    pub view: Result<CardView, String>,
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
