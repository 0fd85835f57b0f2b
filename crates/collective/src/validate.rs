//! Whether an envelope keeps to the rules: what its type requires (Heretek A2A §9.1, 001 "Message Types"), and that what is known has its type
//! (Heretek A2A §4). Unknown fields stay.

use serde_json::Value;

use super::{Envelope, ErrorCode, Kind, Malformed, Vote, time};

/// The longest id and name, in characters.
const LONGEST_ID: usize = 128;

const ROLES: &[&str] = &["user", "assistant", "system", "agent"];
const PRIORITIES: &[&str] = &["low", "normal", "high", "critical"];
const REASONS: &[&str] = &["shutdown", "timeout", "error", "manual"];
const RESULTS: &[&str] = &["approved", "rejected"];

/// The type of a value.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    /// A text that is an id or a name: not empty, and no longer than [`LONGEST_ID`].
    Id,
    /// One of these words.
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
const OF_ALL: &[(&str, Shape)] = &[
    ("id", Shape::Id),
    ("agent", Shape::Id),
    ("from", Shape::Id),
    ("sessionId", Shape::Id),
    ("correlationId", Shape::Id),
    ("timestamp", Shape::Time),
    ("metadata", Shape::Object),
    ("metadata.priority", Shape::Word(PRIORITIES)),
    ("metadata.requiresResponse", Shape::Flag),
    ("metadata.threadId", Shape::Text),
    ("metadata.parentId", Shape::Text),
    ("metadata.ttl", Shape::Count),
    ("metadata.correlationId", Shape::Id),
    ("content", Shape::Object),
];

/// Returns the known content fields of a type.
fn of_kind(kind: Kind) -> &'static [(&'static str, Shape)] {
    match kind {
        Kind::Message => &[
            ("content.role", Shape::Word(ROLES)),
            ("content.content", Shape::TextOrObject),
        ],
        Kind::Status => &[
            ("content.agent", Shape::Text),
            ("content.status", Shape::Text),
        ],
        Kind::Error => &[
            ("error", Shape::Text),
            ("content.error", Shape::Text),
            ("content.message", Shape::Text),
            ("content.code", Shape::Count),
        ],
        Kind::Event => &[("event", Shape::Text), ("content.event", Shape::Text)],
        Kind::Handshake => &[
            ("content.action", Shape::Text),
            ("content.capabilities", Shape::Object),
            ("content.capabilities.supportedMessageTypes", Shape::Texts),
            ("content.capabilities.supportedAgents", Shape::Texts),
            ("content.capabilities.version", Shape::Text),
        ],
        Kind::Discovery | Kind::Workspace => &[("content.action", Shape::Text)],
        Kind::Subscribe | Kind::Unsubscribe => &[
            ("content.channel", Shape::Text),
            ("content.agents", Shape::Texts),
        ],
        Kind::Ping | Kind::Pong => &[],
        Kind::Auth => &[("content.token", Shape::Text)],
        Kind::AuthResponse => &[("content.status", Shape::Text)],
        Kind::Disconnect => &[
            ("content.reason", Shape::Word(REASONS)),
            ("content.message", Shape::Text),
        ],
        Kind::Proposal => &[
            ("content.proposal", Shape::Text),
            ("content.reasoning", Shape::Text),
            ("content.deadline", Shape::Count),
        ],
        Kind::Decision => &[
            ("content.proposalId", Shape::Id),
            ("content.result", Shape::Word(RESULTS)),
            ("content.votes", Shape::Object),
            ("content.consensus", Shape::Flag),
        ],
        Kind::Vote => &[
            ("content.proposalId", Shape::Id),
            ("content.vote", Shape::Word(&Vote::WORDS)),
            ("content.reasoning", Shape::Text),
        ],
        Kind::Request => &[("content.service", Shape::Text)],
        Kind::Response => &[],
        Kind::Broadcast => &[("content.message", Shape::TextOrObject)],
    }
}

/// Checks what a type requires beyond its row in the tables: a message has content (Heretek A2A §4.2).
fn beyond_the_tables(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Message => &["content.role", "content.content"],
        _ => &[],
    }
}

/// Checks an envelope: what its type requires is there, and what is known has its type.
///
/// # Errors
/// The first thing that is wrong: 2002 something is missing, 2003 something is of another type, 2005 something cannot be used.
pub fn validate(envelope: &Envelope) -> Result<(), Malformed> {
    let known = OF_ALL.iter().chain(of_kind(envelope.kind()));
    known
        .clone()
        .find_map(|(path, shape)| wrong_type(path, *shape, envelope))
        .or_else(|| missing(envelope))
        .or_else(|| {
            known
                .clone()
                .find_map(|(path, shape)| unusable(path, *shape, envelope))
        })
        .map_or(Ok(()), |(code, message)| {
            Err(Malformed {
                code,
                message,
                correlation_id: envelope.correlation_id().map(str::to_owned),
                id: envelope.id().map(str::to_owned),
            })
        })
}

type Wrong = (ErrorCode, String);

fn at<'a>(envelope: &'a Envelope, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let field = envelope.field(names.next()?)?;
    let value = names.try_fold(field, |value, name| value.get(name));
    // What is null is not there: some writers fill what they do not know with it.
    value.filter(|value| !value.is_null())
}

fn missing(envelope: &Envelope) -> Option<Wrong> {
    let kind = envelope.kind();
    let absent = |path: &&&str| {
        // The tables say `error` and `event`, the examples `content.error`: either will do.
        let beside = matches!(**path, "content.error" | "content.event")
            .then(|| path.trim_start_matches("content."));
        at(envelope, path).is_none() && beside.is_none_or(|path| at(envelope, path).is_none())
    };
    let required = kind.required().iter().chain(beyond_the_tables(kind));
    let missing = |path: &str| {
        let message = format!("`{path}` is missing: a message of the type `{kind}` needs it");
        Some((ErrorCode::MissingField, message))
    };
    if let Some(path) = required.clone().find(absent) {
        return missing(path);
    }
    let nameless =
        at(envelope, "content.proposalId").is_none() && envelope.correlation_id().is_none();
    match kind {
        Kind::Vote if nameless => missing("content.proposalId"),
        _ => None,
    }
}

fn wrong_type(path: &str, shape: Shape, envelope: &Envelope) -> Option<Wrong> {
    let value = at(envelope, path)?;
    let (fits, what) = match shape {
        Shape::Text | Shape::Id | Shape::Word(_) => (value.is_string(), "a text"),
        Shape::Count => (value.is_number(), "a number"),
        Shape::Flag => (value.is_boolean(), "true or false"),
        Shape::Object => (value.is_object(), "an object"),
        Shape::Texts => {
            let all = value.as_array();
            (
                all.is_some_and(|all| all.iter().all(Value::is_string)),
                "a list of texts",
            )
        }
        Shape::TextOrObject => (
            value.is_string() || value.is_object(),
            "a text or an object",
        ),
        Shape::Time => (
            value.is_number() || value.is_string(),
            "a number of milliseconds",
        ),
    };
    (!fits).then(|| (ErrorCode::InvalidType, format!("`{path}` must be {what}")))
}

fn unusable(path: &str, shape: Shape, envelope: &Envelope) -> Option<Wrong> {
    let value = at(envelope, path)?;
    let why = match shape {
        Shape::Id => {
            let length = value.as_str()?.chars().take(LONGEST_ID + 1).count();
            let fits = (1..=LONGEST_ID).contains(&length);
            (!fits).then(|| format!("must have 1 to {LONGEST_ID} characters"))
        }
        Shape::Word(words) => {
            let known = words.contains(&value.as_str()?);
            (!known).then(|| format!("must be one of {}", words.join(", ")))
        }
        Shape::Count => (value.as_f64()? < 0.0).then(|| "must not be negative".to_owned()),
        Shape::Time => time::millis(value)
            .is_none()
            .then(|| "is no time: milliseconds since 1970, or ISO 8601".to_owned()),
        _ => None,
    };
    // An empty proposal is nothing to vote on, and an empty name names nothing.
    let empty = matches!(
        path,
        "content.proposal" | "content.service" | "content.channel" | "content.token"
    ) && value == "";
    let why = why.or_else(|| empty.then(|| "must not be empty".to_owned()));
    why.map(|why| (ErrorCode::InvalidContent, format!("`{path}` {why}")))
}

#[cfg(test)]
mod tests;
