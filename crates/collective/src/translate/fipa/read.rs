//! Converts ACL to envelopes.

use serde_json::{Map, Value, json};

use super::{
    ADDED_FIELDS, BARE_CONTENT_FIELD, EXTENSION_FIELD, LANGUAGE, METADATA_FIELD, ONTOLOGY,
    performative,
};
use crate::{
    Envelope, EnvelopeError, ErrorCode, Kind, Vote,
    tally::is_word,
    translate::{refused, without_credential},
    validate,
};

/// The meaning of a performative (Heretek A2A §12.3).
#[derive(Clone, Copy)]
enum Intent {
    Message,
    Request,
    Proposal,
    Vote(Vote),
    /// A vote that names no proposal: it answers a request.
    Response(Vote),
    Decision(&'static str),
    Error(ErrorCode),
}

/// The performatives with an envelope type; every other one is a message.
const INTENTS: &[(&str, Intent)] = &[
    ("inform", Intent::Message),
    ("request", Intent::Request),
    ("agree", Intent::Vote(Vote::Approve)),
    ("refuse", Intent::Vote(Vote::Reject)),
    ("propose", Intent::Proposal),
    ("accept-proposal", Intent::Decision("approved")),
    ("reject-proposal", Intent::Decision("rejected")),
    ("failure", Intent::Error(ErrorCode::AgentError)),
    ("not-understood", Intent::Error(ErrorCode::InvalidContent)),
];

/// Returns whether a performative has no envelope type.
pub(super) fn is_unmapped(performative: &str) -> bool {
    let known = |(known, _): &(&str, _)| performative.eq_ignore_ascii_case(known);
    !INTENTS.iter().any(known)
}

/// The parameters that envelopes have fields for.
const MAPPED_PARAMETERS: &[&str] = &[
    "performative",
    "sender",
    "receiver",
    "content",
    "reply-with",
    "in-reply-to",
    "conversation-id",
    EXTENSION_FIELD,
];

/// Converts the ACL message to envelopes: one for each receiver, or a single one where the gateway determines the
/// receivers (proposals, votes, decisions). `now`, in milliseconds since 1970, is the timestamp, unless the message comes
/// from an envelope.
///
/// # Errors
/// The fault, with a code of the registry.
pub fn from_fipa(acl: &Value, now: u64) -> Result<Vec<Envelope>, EnvelopeError> {
    let Some(acl) = acl.as_object() else {
        return refused(ErrorCode::InvalidType, "an ACL message must be an object");
    };
    let performative = match acl.get("performative") {
        Some(Value::String(performative)) => performative.as_str(),
        Some(_) => return refused(ErrorCode::InvalidType, "`performative` must be a text"),
        None => return refused(ErrorCode::MissingField, "`performative` is missing"),
    };
    let sender = match acl.get("sender") {
        None | Some(Value::Null) => None,
        Some(sender) => Some(agent_name(sender, "sender")?),
    };
    let receivers = match acl.get("receiver") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(all)) => all
            .iter()
            .map(|one| agent_name(one, "receiver"))
            .collect::<Result<_, _>>()?,
        Some(one) => vec![agent_name(one, "receiver")?],
    };
    let message = FipaMessage {
        acl,
        performative,
        sender,
        receivers,
    };
    if let Some(envelope) = message.original_envelope() {
        without_credential(&envelope)?;
        return Ok(vec![envelope]);
    }
    message.new_envelopes(now)
}

/// Returns the name of an agent: a text, or an agent identifier with a `name`.
fn agent_name<'a>(agent: &'a Value, parameter: &str) -> Result<&'a str, EnvelopeError> {
    let name = agent.as_str().or_else(|| agent.get("name")?.as_str());
    name.map_or_else(
        || {
            let message =
                format!("`{parameter}` must be the name of an agent, or an object with its `name`");
            refused(ErrorCode::InvalidType, message)
        },
        Ok,
    )
}

/// An ACL message with its sender and receivers.
struct FipaMessage<'a> {
    acl: &'a Map<String, Value>,
    performative: &'a str,
    sender: Option<&'a str>,
    receivers: Vec<&'a str>,
}

/// Content for an envelope, and the data that restores the original.
struct Content {
    fields: Map<String, Value>,
    bare: Option<&'static str>,
    added: Vec<&'static str>,
}

impl FipaMessage<'_> {
    fn text(&self, parameter: &str) -> Option<&str> {
        self.acl.get(parameter).and_then(Value::as_str)
    }

    /// Returns the original envelope, if there is one and its performative is unchanged.
    fn original_envelope(&self) -> Option<Envelope> {
        let extension = self.acl.get(EXTENSION_FIELD)?;
        let mut envelope = Envelope::from_value(extension.clone()).ok()?;
        if let Some(content) = self.acl.get("content") {
            // `with` would ignore content that is null.
            let mut fields = envelope.into_json();
            fields["content"] = content.clone();
            envelope = Envelope::from_value(fields).ok()?;
        }
        let agent = self.receivers.first().copied();
        let envelope = self.with_ids(envelope, agent, self.text("reply-with"));
        let expected = performative(&envelope);
        self.performative
            .eq_ignore_ascii_case(expected)
            .then_some(envelope)
    }

    fn new_envelopes(&self, now: u64) -> Result<Vec<Envelope>, EnvelopeError> {
        let lower = self.performative.to_ascii_lowercase();
        let intent = INTENTS
            .iter()
            .find(|(performative, _)| *performative == lower);
        let intent = match intent.map_or(Intent::Message, |(_, intent)| *intent) {
            Intent::Vote(vote) if self.proposal().is_none() => Intent::Response(vote),
            intent => intent,
        };
        let content = self.content(intent)?;
        let kind = match intent {
            Intent::Message => Kind::Message,
            Intent::Request => Kind::Request,
            Intent::Proposal => Kind::Proposal,
            Intent::Vote(_) => Kind::Vote,
            Intent::Response(_) => Kind::Response,
            Intent::Decision(_) => Kind::Decision,
            Intent::Error(_) => Kind::Error,
        };
        let mut unmapped_parameters = self.unmapped_parameters();
        if let Some(bare) = content.bare {
            unmapped_parameters.insert(BARE_CONTENT_FIELD.into(), bare.into());
        }
        if !content.added.is_empty() {
            unmapped_parameters.insert(ADDED_FIELDS.into(), content.added.into());
        }
        let is_for_triad = matches!(kind, Kind::Proposal | Kind::Vote | Kind::Decision);
        if is_for_triad && self.receivers.len() > 1 {
            unmapped_parameters.insert("receiver".into(), self.acl["receiver"].clone());
        }
        let mut envelope = Envelope::new(kind, content.fields.into()).with("timestamp", now);
        if !unmapped_parameters.is_empty() {
            envelope = envelope.with_metadata(METADATA_FIELD, unmapped_parameters);
        }
        let envelope = self.with_extension(envelope);
        let id = self.text("reply-with");
        let all: Vec<Envelope> = match &*self.receivers {
            [] => vec![self.with_ids(envelope, None, id)],
            [one] => vec![self.with_ids(envelope, Some(one), id)],
            _ if is_for_triad => vec![self.with_ids(envelope, None, id)],
            several => several
                .iter()
                .zip(1..)
                // Each envelope needs a unique id.
                .map(|(agent, n)| {
                    let id = id.map(|id| format!("{id}-{n}"));
                    self.with_ids(envelope.clone(), Some(agent), id.as_deref())
                })
                .collect(),
        };
        all.iter().try_for_each(validate)?;
        Ok(all)
    }

    /// Restores the members of the original envelope.
    fn with_extension(&self, envelope: Envelope) -> Envelope {
        let Some(Value::Object(extension)) = self.acl.get(EXTENSION_FIELD) else {
            return envelope;
        };
        if extension.contains_key("type") {
            return envelope;
        }
        extension
            .iter()
            .fold(envelope, |envelope, (field, value)| match value {
                Value::Object(metadata) if field == "metadata" => {
                    metadata.iter().fold(envelope, |envelope, (field, value)| {
                        envelope.with_metadata(field, value.clone())
                    })
                }
                value => envelope.with(field, value.clone()),
            })
    }

    fn with_ids(&self, envelope: Envelope, agent: Option<&str>, id: Option<&str>) -> Envelope {
        let fields = [("id", id), ("from", self.sender), ("agent", agent)];
        let ids = [
            ("correlationId", self.text("conversation-id")),
            ("parentId", self.text("in-reply-to")),
        ];
        let envelope = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field, value?)))
            .fold(envelope, |envelope, (field, value)| {
                envelope.with(field, value)
            });
        ids.into_iter()
            .filter_map(|(field, value)| Some((field, value?)))
            .fold(envelope, |envelope, (field, value)| {
                envelope.with_metadata(field, value)
            })
    }

    /// Returns the parameters without a field in envelopes.
    fn unmapped_parameters(&self) -> Map<String, Value> {
        let own = |parameter: &str, value: &Value| {
            (parameter == "language" && value == LANGUAGE)
                || (parameter == "ontology" && value == ONTOLOGY)
        };
        let mut unmapped_parameters: Map<_, _> = self
            .acl
            .iter()
            .filter(|(parameter, value)| {
                !MAPPED_PARAMETERS.contains(&parameter.as_str()) && !own(parameter, value)
            })
            .map(|(parameter, value)| (parameter.clone(), value.clone()))
            .collect();
        let known = INTENTS
            .iter()
            .any(|(performative, _)| *performative == self.performative);
        if !known {
            unmapped_parameters.insert("performative".into(), self.performative.into());
        }
        for parameter in ["sender", "receiver"] {
            // An agent identifier may have addresses in addition to its name.
            if let Some(whole @ Value::Object(_)) = self.acl.get(parameter) {
                unmapped_parameters.insert(parameter.into(), whole.clone());
            }
        }
        unmapped_parameters
    }

    fn content(&self, intent: Intent) -> Result<Content, EnvelopeError> {
        let content = self.acl.get("content").filter(|value| !value.is_null());
        let has = |names: &[&str]| {
            let fields = content.and_then(Value::as_object);
            fields.is_some_and(|fields| names.iter().all(|name| fields.contains_key(*name)))
        };
        let as_field = |name| Content::as_field(name, content);
        match intent {
            Intent::Message if has(&["role", "content"]) => Ok(Content::whole(content)),
            Intent::Message => Ok(as_field("content").with_default("role", "agent")),
            Intent::Request if has(&["service"]) => Ok(Content::whole(content)),
            // The receiver of a request is the agent that serves it.
            Intent::Request => match self.receivers.first() {
                Some(service) => Ok(as_field("request").with_default("service", *service)),
                None => Ok(Content::whole(content)),
            },
            Intent::Proposal => Ok(Content::text_as_field("proposal", content)),
            Intent::Vote(vote) => {
                let content = Content::text_as_field("reasoning", content);
                self.with_proposal(content, "vote", vote.as_str())
            }
            Intent::Response(vote) => {
                let vote = vote.as_str();
                let vote_field = content.map_or(&Value::Null, |content| &content["vote"]);
                self.check_field(vote_field, "vote", vote)?;
                Ok(match content {
                    None => as_field("reasoning").with_default("result", vote),
                    Some(_) if has(&["result"]) => Content::whole(content),
                    Some(_) => as_field("result"),
                }
                .with_default("vote", vote))
            }
            Intent::Decision(result) => {
                let content = Content::text_as_field("reasoning", content);
                self.with_proposal(content, "result", result)
            }
            Intent::Error(error) => {
                let content = Content::text_as_field("message", content);
                match content.fields.contains_key("error") {
                    true => Ok(content),
                    false => Ok(content
                        .with_default("error", error.name())
                        .with_default("code", error.number())),
                }
            }
        }
    }

    /// Returns the id of its proposal.
    fn proposal(&self) -> Option<&str> {
        let content = self.acl.get("content");
        self.text("conversation-id")
            .or_else(|| self.text("in-reply-to"))
            .or_else(|| content?.get("proposalId")?.as_str())
    }

    /// Refuses content that contradicts the performative.
    fn check_field(
        &self,
        value: &Value,
        field: &str,
        performative: &str,
    ) -> Result<(), EnvelopeError> {
        let is_same = value
            .as_str()
            .is_some_and(|word| is_word(word, performative));
        if value.is_null() || is_same {
            return Ok(());
        }
        let message = format!(
            "`performative` is `{}`, which says `{performative}`, but `content.{field}` is {value}",
            self.performative
        );
        refused(ErrorCode::InvalidContent, message)
    }

    /// Adds the proposal, and the vote of the performative.
    fn with_proposal(
        &self,
        content: Content,
        field: &'static str,
        performative: &'static str,
    ) -> Result<Content, EnvelopeError> {
        let value = content.fields.get(field).unwrap_or(&Value::Null);
        self.check_field(value, field, performative)?;
        let content = content.with_default(field, performative);
        Ok(match self.proposal() {
            Some(proposal) => content.with_default("proposalId", proposal),
            None => content,
        })
    }
}

impl Content {
    /// Returns an object unchanged.
    fn whole(content: Option<&Value>) -> Self {
        let fields = content.and_then(Value::as_object);
        Self {
            fields: fields.cloned().unwrap_or_default(),
            bare: None,
            added: Vec::new(),
        }
    }

    /// Returns the whole content as one field.
    fn as_field(name: &'static str, content: Option<&Value>) -> Self {
        let field = content.map(|content| (name.to_owned(), content.clone()));
        Self {
            fields: field.into_iter().collect(),
            bare: Some(name),
            added: Vec::new(),
        }
    }

    /// Returns an object unchanged, anything else as one field.
    fn text_as_field(name: &'static str, content: Option<&Value>) -> Self {
        match content {
            Some(Value::Object(_)) => Self::whole(content),
            _ => Self::as_field(name, content),
        }
    }

    /// Adds a field, unless there is one with that name.
    fn with_default(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        let field = self.fields.entry(name).or_insert(json!(null));
        if field.is_null() {
            *field = value.into();
            self.added.push(name);
        }
        self
    }
}
