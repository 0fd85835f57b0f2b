//! Validates envelopes: the fields that a type requires (Heretek A2A §9.1; Heretek Architecture, "Message Types"), and the
//! types of known fields (Heretek A2A §4). Unknown fields stay.

use serde_json::Value;

use super::envelope::time_millis;
use super::tally::is_word;
use super::{Envelope, EnvelopeError, ErrorCode, Kind, Vote};

/// The longest id and name, in characters.
const MAX_ID_CHARS: usize = 128;

const ROLES: &[&str] = &["user", "assistant", "system", "agent"];
const PRIORITIES: &[&str] = &["low", "normal", "high", "critical"];
const REASONS: &[&str] = &["shutdown", "timeout", "error", "manual"];
const RESULTS: &[&str] = &["approved", "rejected"];

/// The type of a value.
#[derive(Clone, Copy)]
enum JsonType {
    Text,
    /// A text that is an id or a name: not empty, and no longer than [`MAX_ID_CHARS`].
    Id,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words in any case, as [`Vote::read`] reads them.
    Word(&'static [&'static str]),
    /// A number that is not negative.
    Count,
    Flag,
    Object,
    /// A list of texts.
    Texts,
    TextOrObject,
    /// Milliseconds, or a text of ISO 8601.
    Time,
}

/// Optional fields of every message.
const COMMON_FIELDS: &[(&str, JsonType)] = &[
    ("id", JsonType::Id),
    ("agent", JsonType::Id),
    ("from", JsonType::Id),
    ("sessionId", JsonType::Id),
    ("correlationId", JsonType::Id),
    ("timestamp", JsonType::Time),
    ("metadata", JsonType::Object),
    ("metadata.priority", JsonType::OneOf(PRIORITIES)),
    ("metadata.requiresResponse", JsonType::Flag),
    ("metadata.threadId", JsonType::Text),
    ("metadata.parentId", JsonType::Text),
    ("metadata.ttl", JsonType::Count),
    ("metadata.correlationId", JsonType::Id),
    ("content", JsonType::Object),
];

/// Returns the known content fields of a type.
fn field_types(kind: Kind) -> &'static [(&'static str, JsonType)] {
    match kind {
        Kind::Message => &[
            ("content.role", JsonType::OneOf(ROLES)),
            ("content.content", JsonType::TextOrObject),
        ],
        Kind::Status => &[
            ("content.agent", JsonType::Text),
            ("content.status", JsonType::Text),
        ],
        Kind::Error => &[
            ("error", JsonType::Text),
            ("content.error", JsonType::Text),
            ("content.message", JsonType::Text),
            ("content.code", JsonType::Count),
        ],
        Kind::Event => &[("event", JsonType::Text), ("content.event", JsonType::Text)],
        Kind::Handshake => &[
            ("content.action", JsonType::Text),
            ("content.capabilities", JsonType::Object),
            (
                "content.capabilities.supportedMessageTypes",
                JsonType::Texts,
            ),
            ("content.capabilities.supportedAgents", JsonType::Texts),
            ("content.capabilities.version", JsonType::Text),
        ],
        Kind::Discovery | Kind::Workspace => &[("content.action", JsonType::Text)],
        Kind::Subscribe | Kind::Unsubscribe => &[
            ("content.channel", JsonType::Text),
            ("content.agents", JsonType::Texts),
        ],
        Kind::Ping | Kind::Pong => &[],
        Kind::Auth => &[("content.token", JsonType::Text)],
        Kind::AuthResponse => &[("content.status", JsonType::Text)],
        Kind::Disconnect => &[
            ("content.reason", JsonType::OneOf(REASONS)),
            ("content.message", JsonType::Text),
        ],
        Kind::Proposal => &[
            ("content.proposal", JsonType::Text),
            ("content.reasoning", JsonType::Text),
            ("content.deadline", JsonType::Count),
        ],
        Kind::Decision => &[
            ("content.proposalId", JsonType::Id),
            ("content.result", JsonType::Word(RESULTS)),
            ("content.votes", JsonType::Object),
            ("content.consensus", JsonType::Flag),
        ],
        Kind::Vote => &[
            ("content.proposalId", JsonType::Id),
            ("content.vote", JsonType::Word(&Vote::NAMES)),
            ("content.reasoning", JsonType::Text),
        ],
        Kind::Request => &[("content.service", JsonType::Text)],
        Kind::Response => &[],
        Kind::Broadcast => &[("content.message", JsonType::TextOrObject)],
    }
}

/// Returns the fields that a type requires beyond its row in the tables: a message has content (Heretek A2A §4.2).
fn extra_required(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Message => &["content.role", "content.content"],
        _ => &[],
    }
}

/// Checks an envelope: the required fields of its type are present, and known fields have their types.
///
/// # Errors
/// The first fault: 2002 for a missing field, 2003 for a field of another type, 2005 for an unusable value.
pub fn validate(envelope: &Envelope) -> Result<(), EnvelopeError> {
    let known = COMMON_FIELDS.iter().chain(field_types(envelope.kind()));
    known
        .clone()
        .find_map(|(path, shape)| invalid_type(path, *shape, envelope))
        .or_else(|| missing_field(envelope))
        .or_else(|| {
            known
                .clone()
                .find_map(|(path, shape)| invalid_value(path, *shape, envelope))
        })
        .map_or(Ok(()), |(code, message)| {
            Err(EnvelopeError {
                code,
                message,
                correlation_id: envelope.correlation_id().map(str::to_owned),
                id: envelope.id().map(str::to_owned),
            })
        })
}

type Violation = (ErrorCode, String);

fn field_at<'a>(envelope: &'a Envelope, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let field = envelope.field(names.next()?)?;
    let value = names.try_fold(field, |value, name| value.get(name));
    // `null` counts as missing: some writers use it for unknown values.
    value.filter(|value| !value.is_null())
}

fn missing_field(envelope: &Envelope) -> Option<Violation> {
    let kind = envelope.kind();
    let absent = |path: &&&str| {
        // The tables say `error` and `event`, the examples `content.error`: both are accepted.
        let beside = matches!(**path, "content.error" | "content.event")
            .then(|| path.trim_start_matches("content."));
        field_at(envelope, path).is_none()
            && beside.is_none_or(|path| field_at(envelope, path).is_none())
    };
    let required = kind.required().iter().chain(extra_required(kind));
    let violation = |path: &str| {
        let message = format!("`{path}` is missing: a message of the type `{kind}` needs it");
        Some((ErrorCode::MissingField, message))
    };
    if let Some(path) = required.clone().find(absent) {
        return violation(path);
    }
    let nameless =
        field_at(envelope, "content.proposalId").is_none() && envelope.correlation_id().is_none();
    match kind {
        Kind::Vote if nameless => violation("content.proposalId"),
        _ => None,
    }
}

fn invalid_type(path: &str, shape: JsonType, envelope: &Envelope) -> Option<Violation> {
    let value = field_at(envelope, path)?;
    let (fits, what) = match shape {
        JsonType::Text | JsonType::Id | JsonType::OneOf(_) | JsonType::Word(_) => {
            (value.is_string(), "a text")
        }
        JsonType::Count => (value.is_number(), "a number"),
        JsonType::Flag => (value.is_boolean(), "true or false"),
        JsonType::Object => (value.is_object(), "an object"),
        JsonType::Texts => {
            let all = value.as_array();
            (
                all.is_some_and(|all| all.iter().all(Value::is_string)),
                "a list of texts",
            )
        }
        JsonType::TextOrObject => (
            value.is_string() || value.is_object(),
            "a text or an object",
        ),
        JsonType::Time => (
            value.is_number() || value.is_string(),
            "a number of milliseconds",
        ),
    };
    (!fits).then(|| (ErrorCode::InvalidType, format!("`{path}` must be {what}")))
}

fn invalid_value(path: &str, shape: JsonType, envelope: &Envelope) -> Option<Violation> {
    let value = field_at(envelope, path)?;
    let problem = match shape {
        JsonType::Id => {
            let length = value.as_str()?.chars().take(MAX_ID_CHARS + 1).count();
            let fits = (1..=MAX_ID_CHARS).contains(&length);
            (!fits).then(|| format!("must have 1 to {MAX_ID_CHARS} characters"))
        }
        JsonType::OneOf(allowed) => {
            let known = allowed.contains(&value.as_str()?);
            (!known).then(|| format!("must be one of {}", allowed.join(", ")))
        }
        JsonType::Word(allowed) => {
            let word = value.as_str()?;
            let known = allowed.iter().any(|name| is_word(word, name));
            (!known).then(|| format!("must be one of {}", allowed.join(", ")))
        }
        JsonType::Count => (value.as_f64()? < 0.0).then(|| "must not be negative".to_owned()),
        JsonType::Time => time_millis(value)
            .is_none()
            .then(|| "is no time: milliseconds since 1970, or ISO 8601".to_owned()),
        _ => None,
    };
    // An empty proposal is nothing to vote on, and an empty name names nothing.
    let empty = matches!(
        path,
        "content.proposal" | "content.service" | "content.channel" | "content.token"
    ) && value == "";
    let problem = problem.or_else(|| empty.then(|| "must not be empty".to_owned()));
    problem.map(|problem| (ErrorCode::InvalidContent, format!("`{path}` {problem}")))
}

#[cfg(test)]
mod tests;
