//! A question of an agent for a person: what the host shows, and the check of the answer.
//!
//! Everything in it that the agent wrote is bounded and sanitized, except for the values of choices and the names of fields,
//! which go back to the agent as it wrote them.

mod field;

use a2a::{Part, TaskState, text_part};
use base::confusables::glyphs;
use base::field_order::FieldOrder;
use base::json;
use base::named;
use base::text::{first_chars, hex, shortened};
use peer::BoxFuture;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::render::sanitize;
use field::{MAX_READ_CHARS, form};

pub(super) use field::shown;
pub use field::{Choice, Field, FieldKind};

/// The longest question, in characters.
const MAX_TEXT_CHARS: usize = 4000;

/// The longest link, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// The limits of a host's answer.
const ANSWER_LIMITS: json::Limits = json::Limits {
    depth: 8,
    values: 1000,
    memory: 1 << 20,
};

/// A person that a host can reach.
pub trait Person: Send + Sync {
    /// Asks the person. The call stops waiting after `timeout_ms` of the question, and when it is cancelled; then the future
    /// is dropped.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;

    /// Closes the question of a sign-in, which is over. A host that sees the drop of the future needs nothing else.
    fn withdraw(&self, _id: &str) {}
}

/// A question of an agent for a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    /// Identifies the target, the task and the words: it changes when the agent changes its question.
    pub id: String,
    /// What the agent waits for.
    pub kind: QuestionKind,
    /// The target's alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The name in the agent's card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Scheme, host and port of the target.
    pub origin: String,
    /// Who passed the work on, the first first.
    pub chain: Vec<String>,
    /// The beginning of the work that the agent has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The agent's words. Untrusted.
    pub text: String,
    /// What to fill in.
    pub fields: Vec<Field>,
    /// A link of the agent for a sign-in. Untrusted, unless `sign_in` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A sign-in at the target's authorization server. `text` and `url` are then not the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInPrompt>,
    /// What the person should know first: `asks_for_secret`, `form_not_shown`.
    pub warnings: Vec<&'static str>,
    /// Whether the person may leave the answer to the model.
    pub may_pass_to_model: bool,
    /// How long the call waits.
    pub timeout_ms: u64,
    /// How to continue the task, as `summary.continuation` of a result says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Value>,
    /// Why the answer before this one was not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The fields whose values did not fit in that answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misfits: Vec<String>,
}

/// Values of an answer that do not fit.
pub(super) struct Misfits {
    /// A sentence for the person about each of them.
    pub(super) error: String,
    /// The names of their fields.
    pub(super) fields: Vec<String>,
}

/// A sign-in of the person at the authorization server that the operator configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignInPrompt {
    /// The server's origin.
    pub server: String,
    /// The code to enter at the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether an answer may be the address at which the browser ended.
    pub takes_address: bool,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// An answer.
    Input,
    /// A sign-in.
    Auth,
    /// A permission.
    Permission,
}

/// What became of a question. `Debug` omits the words.
#[derive(Clone, Deserialize)]
pub struct Answer {
    /// What the person did.
    pub action: AnswerAction,
    /// The values by field.
    #[serde(default)]
    pub content: Map<String, Value>,
    /// Who answered, as far as the host says.
    #[serde(default)]
    pub by: Option<String>,
}

named! {
    /// What a person did with a question.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AnswerAction {
        /// Answered.
        Answer = "answer",
        /// Refused to answer.
        Decline = "decline",
        /// Left the answer to the model.
        Model = "model",
        /// Nothing in time.
        Timeout = "timeout",
        /// No person could be asked.
        Unreachable = "unreachable",
        /// The host ends the call with the question of a sign-in, and repeats the call with the answer.
        Later = "later",
    }
}

impl Answer {
    /// Returns an answer without words.
    #[must_use]
    pub fn without_words(action: AnswerAction) -> Self {
        Self {
            action,
            content: Map::new(),
            by: None,
        }
    }

    /// Reads the answer of a host. One that cannot be read is [`AnswerAction::Unreachable`].
    #[must_use]
    pub fn read(text: &str) -> Self {
        json::from_str(text, ANSWER_LIMITS)
            .unwrap_or_else(|_| Self::without_words(AnswerAction::Unreachable))
    }
}

base::debug_fields!(self: Answer { action, by });

/// What an agent wrote: the parts of the status message, or else its last text.
pub(super) struct Wording {
    /// The answer goes to this question only.
    pub(super) id: String,
    /// Whether the status message has no parts.
    is_empty: bool,
    pub(super) kind: QuestionKind,
    pub(super) text: String,
    pub(super) fields: Vec<Field>,
    pub(super) url: Option<String>,
    pub(super) warnings: Vec<&'static str>,
}

/// Returns the identity of a question: of the target and task in `about`, and of the words.
pub(super) fn question_id(about: &[&str], parts: &[Value]) -> String {
    let mut hashed = String::new();
    for text in about {
        hashed += &format!("{}:{text}", text.len());
    }
    for part in parts {
        // Metadata may differ from one answer of the agent to the next.
        for member in ["kind", "text", "data", "file"] {
            hashed += &part.get(member).map(Value::to_string).unwrap_or_default();
            hashed.push('\n');
        }
    }
    let hash = digest(&SHA256, hashed.as_bytes());
    hex(&hash.as_ref()[..16])
}

impl Wording {
    /// Reads the question of a task in `state` from the parts of its status message. Without any it is `text`, what the agent said
    /// last: some ask in a message of their own.
    pub(super) fn read(
        about: &[&str],
        state: &TaskState,
        status_parts: &[Value],
        text: Option<&str>,
        order: &FieldOrder,
    ) -> Self {
        let mut parts = status_parts.to_vec();
        if parts.is_empty() {
            parts.extend(text.map(text_part));
        }
        let data: Vec<_> = parts
            .iter()
            .filter_map(|part| part.get("data")?.as_object())
            .collect();
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
        let text = texts.collect::<Vec<_>>().join("\n\n");
        let kind = match state {
            TaskState::AuthRequired => QuestionKind::Auth,
            _ if data.iter().any(|data| asks_permission(data)) => QuestionKind::Permission,
            _ => QuestionKind::Input,
        };
        let mut warnings = Vec::new();
        let form = data.iter().find_map(|data| form(data, order));
        if form == Some(None) {
            warnings.push("form_not_shown");
        }
        let fields = form.flatten().unwrap_or_else(|| vec![Field::any_text()]);
        let shown = shortened(
            &sanitize(first_chars(&text, MAX_READ_CHARS)),
            MAX_TEXT_CHARS,
        );
        // Each by itself: a long one must not crowd out the others.
        if asks_for_secret(&shown) || fields.iter().flat_map(Field::texts).any(asks_for_secret) {
            warnings.insert(0, "asks_for_secret");
        }
        let url = (kind == QuestionKind::Auth)
            .then(|| sign_in_url(&data, &text))
            .flatten();
        Self {
            id: question_id(about, &parts),
            is_empty: status_parts.is_empty(),
            kind,
            text: shown,
            fields,
            url,
            warnings,
        }
    }

    /// Returns whether a person who declined the question `declined` refuses this one too: the same one, one without a
    /// status message, which may be the same one, or any permission or sign-in, for each of which they are asked.
    pub(super) fn is_refused(&self, declined: &str) -> bool {
        self.kind != QuestionKind::Input || self.is_empty || self.id == declined
    }
}

/// Returns whether a data part asks for a permission: by its type, or by options as the Agent Client Protocol has them.
fn asks_permission(data: &Map<String, Value>) -> bool {
    let named = ["type", "kind"].iter().any(|member| {
        let name = data
            .get(*member)
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = name.to_ascii_lowercase();
        name.contains("permission") || name.contains("approval")
    });
    let options = data.get("options").and_then(Value::as_array);
    named
        || options.into_iter().flatten().any(|option| {
            let kind = option.get("kind").and_then(Value::as_str);
            kind.is_some_and(|kind| kind.starts_with("allow_") || kind.starts_with("reject_"))
        })
}

/// Returns whether a text speaks of something that no agent needs from a person, in whatever letters it is written, in the ten
/// languages with the most speakers and in German.
fn asks_for_secret(text: &str) -> bool {
    const PARTS: [&str; 8] = [
        "PASSCODE",
        "KENNWORT",
        "CREDENTIAL",
        "SECRET",
        "TOKEN",
        "APIKEY",
        "SENHA",
        "CONTRASEN",
    ];
    // Mandarin, Hindi, Spanish, Arabic, French, Bengali, Portuguese, Russian and Urdu, as they are written.
    const WRITTEN: [&str; 18] = [
        "密码",
        "密碼",
        "口令",
        "密钥",
        "密鑰",
        "验证码",
        "驗證碼",
        "पासवर्ड",
        "كلمة المرور",
        "كلمة السر",
        "رمز التحقق",
        "mot de passe",
        "পাসওয়ার্ড",
        "clave",
        "парол",
        "ключ",
        "پاس ورڈ",
        "palavra-passe",
    ];
    const SPACED: [&str; 2] = ["PASSWOR", "PASSPHRASE"];
    const WORDS: [&str; 8] = ["KEY", "KEYS", "CODE", "CODES", "PIN", "OTP", "CVC", "CVV"];
    let lower = text.to_lowercase();
    let glyphs = glyphs(text);
    let letters = glyphs.iter().map(|glyph| match glyph.c {
        '0' => 'O',
        '1' => 'I',
        '3' => 'E',
        '@' | '4' => 'A',
        '$' | '5' => 'S',
        c => c,
    });
    let text: String = letters.collect();
    let joined: String = text.chars().filter(char::is_ascii_alphabetic).collect();
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    WRITTEN.iter().any(|part| lower.contains(part))
        || PARTS.iter().any(|part| text.contains(part))
        || SPACED.iter().any(|part| joined.contains(part))
        || words.any(|word| WORDS.contains(&word))
}

/// Returns the agent's link for a sign-in: https, without credentials.
fn sign_in_url(data: &[&Map<String, Value>], text: &str) -> Option<String> {
    const NAMES: [&str; 9] = [
        "url",
        "auth_url",
        "authUrl",
        "authorization_url",
        "authorizationUrl",
        "verification_uri_complete",
        "verificationUriComplete",
        "verification_uri",
        "verificationUri",
    ];
    let named = NAMES
        .iter()
        .flat_map(|name| data.iter().filter_map(|data| data.get(*name)?.as_str()));
    let is_end = |c: char| c.is_whitespace() || "<>\"'`)]}".contains(c);
    let written = text.match_indices("https://").map(|(at, _)| {
        let link = text[at..].split(is_end).next().unwrap_or_default();
        link.trim_end_matches(['.', ',', ';', ':', '!', '?'])
    });
    named.chain(written.take(1)).find_map(|link| {
        let url = Url::parse(link).ok()?;
        let plain =
            url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
        (plain && url.as_str().len() <= MAX_URL_BYTES).then(|| url.into())
    })
}

impl Question {
    /// Returns the question as JSON, for a host.
    #[must_use]
    pub fn to_json(&self) -> String {
        // `serde_json` fails here only on maps with keys that are not strings, and the question has none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks the values of an answer against the fields, and converts those that a person typed as text. Other members are
    /// dropped.
    ///
    /// # Errors
    /// Values are missing or do not fit.
    pub(super) fn check(
        &self,
        content: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Misfits> {
        let (mut checked, mut errors, mut fields) = (Map::new(), Vec::new(), Vec::new());
        for field in &self.fields {
            let given = content.get(&field.name);
            let given = given.filter(|value| !value.is_null() && **value != "");
            let error = match given.map(|value| field.convert(value)) {
                Some(Ok(value)) => {
                    checked.insert(field.name.clone(), value);
                    continue;
                }
                Some(Err(form)) => form,
                None if field.required => "a value is needed".to_owned(),
                None => continue,
            };
            errors.push(format!("{}: {error}", field.title));
            fields.push(field.name.clone());
        }
        match errors.is_empty() {
            true => Ok(checked),
            false => Err(Misfits {
                error: errors.join("; "),
                fields,
            }),
        }
    }

    /// Returns the parts of the message that answers: the text, or the form as data and as text that reads the same.
    pub(super) fn parts(&self, content: Map<String, Value>) -> Vec<Part> {
        let text = self.spoken(&content);
        if self.fields.len() == 1 && self.fields.iter().all(Field::is_any_text) {
            return vec![Part::text(text)];
        }
        let text = Some(text).filter(|text| !text.is_empty()).map(Part::text);
        [Part::data(content)].into_iter().chain(text).collect()
    }

    /// Returns the answer for a model, which must not take the agent's titles for the person's words.
    pub(super) fn words_for_model(&self, content: &Map<String, Value>) -> String {
        let fields = self.fields.len();
        self.lines(
            content,
            |choice, at, of| {
                let title = &choice.title;
                format!("choice {at} of {of}, which the agent calls {title:?}")
            },
            |field, at, words| {
                let title = &field.title;
                format!("field {at} of {fields}, which the agent calls {title:?}: {words}")
            },
        )
    }

    /// Returns the answer as text: the value, or one line for each field.
    fn spoken(&self, content: &Map<String, Value>) -> String {
        self.lines(
            content,
            |choice, _, _| choice.title.clone(),
            |field, _, text| format!("{}: {text}", field.title),
        )
    }

    /// Returns a line for each answered field. `chosen` writes a choice, with its place among how many; `named` writes the line of
    /// one of several fields, with its place.
    fn lines(
        &self,
        content: &Map<String, Value>,
        chosen: impl Fn(&Choice, usize, usize) -> String,
        named: impl Fn(&Field, usize, String) -> String,
    ) -> String {
        let lines = (1..).zip(&self.fields).filter_map(|(at, field)| {
            let value = content.get(&field.name)?;
            let mut choices = (1..).zip(&field.choices);
            let text = match (choices.find(|(_, choice)| choice.value == *value), value) {
                (Some((at, choice)), _) => chosen(choice, at, field.choices.len()),
                (None, Value::String(text)) => text.clone(),
                (None, value) => value.to_string(),
            };
            Some(match self.fields.len() {
                1 => text,
                _ => named(field, at, text),
            })
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
