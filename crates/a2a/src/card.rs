//! Agent cards, as far as the tool needs them (A2A 0.3 §5.5, 1.0 §4.4).

mod read;

use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::security::Security;

/// An agent card, read and tidied.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The interfaces of the peer, the preferred one first. Not empty.
    pub interfaces: Vec<Interface>,
    /// Whether the peer says it streams.
    pub streaming: Option<bool>,
    /// The peer shows more of itself to a caller it knows.
    pub has_extended_card: bool,
    /// Extensions without which the peer takes no request, by URI.
    pub required_extensions: Vec<String>,
    /// The security requirements.
    pub security: Security,
    /// The part that `list_targets` shows; an error text if only that part is invalid.
    pub view: Result<CardView, String>,
}

/// One place where a peer can be called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Interface {
    /// The transport's name as the card gives it.
    pub transport: String,
    /// The address, as the card gives it.
    pub url: String,
    /// The version it says it speaks there, as the card gives it.
    #[serde(skip)]
    pub version: Option<String>,
    /// The tenant to name there (A2A 1.0 §4.4).
    #[serde(skip)]
    pub tenant: Option<String>,
    /// The address where it is one by itself: read once for all calls. Others are relative to the peer's base URL.
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
    /// The transport it likes best.
    pub preferred_transport: Option<String>,
    /// All declared interfaces beside the main one, without doubles.
    pub additional_interfaces: Vec<Interface>,
    /// The capabilities.
    pub capabilities: Capabilities,
    /// Media types it takes.
    pub default_input_modes: Vec<String>,
    /// Media types it gives.
    pub default_output_modes: Vec<String>,
    /// The skills.
    pub skills: Vec<Skill>,
}

/// The capabilities that a card declares; `None` if it does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capabilities {
    /// It streams.
    pub streaming: Option<bool>,
    /// It reports progress to a callback.
    pub push_notifications: Option<bool>,
    /// It keeps a history of states.
    pub state_transition_history: Option<bool>,
    /// Protocol extensions, as the card gives them.
    pub extensions: Vec<Value>,
}

/// One thing a peer is good at.
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
    /// Media types it takes, where other than the peer's.
    pub input_modes: Vec<String>,
    /// Media types it gives, where other than the peer's.
    pub output_modes: Vec<String>,
}
