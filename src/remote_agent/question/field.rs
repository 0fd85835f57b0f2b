//! The fields of a question: how they are read from an agent's form, and how a value for one is checked.

use std::collections::HashSet;

use base::field_order::FieldOrder;
use base::text::{first_chars, shortened};
use base::validation::compile_value;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::remote_agent::render::line;

/// How much of an agent's text is sanitized for a question, in characters: invisible ones must not crowd out the rest.
pub(super) const MAX_READ_CHARS: usize = 40_000;

/// The longest title of a field or a choice, name of a field, and value of a choice, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// The longest answer in one field, in characters.
const MAX_ANSWER_CHARS: usize = 16_000;

const MAX_FIELDS: usize = 12;
const MAX_CHOICES: usize = 40;

/// The name of the only field of a question without a form.
const ANSWER: &str = "answer";

/// A field of a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// Its name for the person.
    pub title: String,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: FieldKind,
    /// Its values, for a choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// Whether it must be filled in.
    pub required: bool,
    /// The value that the agent proposes, if it fits and the person sees it whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What else the agent's schema says about a value. The description says it to the person.
    #[serde(skip)]
    limits: Vec<Limit>,
}

/// A limit of a value.
#[derive(Debug, Clone, PartialEq)]
struct Limit {
    /// A schema with one keyword.
    schema: Value,
    /// What a value has to be, for the person.
    words: String,
}

/// The keywords that limit a value.
const LIMITS: [&str; 8] = [
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
];

impl Limit {
    /// Reads a keyword of an agent's schema; `None` if nothing can be checked with it.
    fn read(keyword: &str, value: &Value) -> Option<Self> {
        let words = match (keyword, value) {
            ("format", Value::String(format)) => match &**format {
                "email" => "an e-mail address".to_owned(),
                "uri" => "an address such as https://example.com".to_owned(),
                "date" => "a date such as 2026-01-31".to_owned(),
                "date-time" => "a time such as 2026-01-31T12:00:00Z".to_owned(),
                _ => return None,
            },
            // A longer one could not be shown whole, and takes memory to compile.
            ("pattern", Value::String(pattern)) if is_short(pattern) => {
                format!("of the form {}", shown(pattern)?)
            }
            ("minimum", Value::Number(least)) => format!("at least {least}"),
            ("exclusiveMinimum", Value::Number(less)) => format!("more than {less}"),
            ("maximum", Value::Number(most)) => format!("at most {most}"),
            ("exclusiveMaximum", Value::Number(more)) => format!("less than {more}"),
            ("minLength", Value::Number(least)) => format!("at least {least} characters long"),
            ("maxLength", Value::Number(most)) => format!("at most {most} characters long"),
            _ => return None,
        };
        let schema = Value::Object(Map::from_iter([(keyword.to_owned(), value.clone())]));
        compile_value(&schema).ok()?;
        Some(Self { schema, words })
    }

    fn allows(&self, value: &Value) -> bool {
        // It compiled before.
        compile_value(&self.schema).is_ok_and(|limit| limit.is_valid(value))
    }
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// Any text.
    Text,
    /// One of the field's choices.
    Choice,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Yes or no.
    Boolean,
}

/// One value of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The value that the agent receives.
    pub value: Value,
    /// Its name for the person.
    pub title: String,
}
/// A form that the agent sent: its fields, or `None` where a person cannot be shown it.
pub(super) type Form = Option<Vec<Field>>;

impl Field {
    /// Returns the field of a question without a form.
    pub(in crate::remote_agent) fn any_text() -> Self {
        field(ANSWER, "Answer", FieldKind::Text)
    }

    /// Returns everything that the person sees of it.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let choices = self.choices.iter().map(|choice| &*choice.title);
        let description = self.description.as_deref();
        choices.chain(description).chain([&*self.title])
    }

    /// Returns whether it is the field of a question without a form.
    pub(super) fn is_any_text(&self) -> bool {
        self.kind == FieldKind::Text && self.name == ANSWER
    }
}

fn field(name: &str, title: &str, kind: FieldKind) -> Field {
    Field {
        name: name.to_owned(),
        title: title.to_owned(),
        description: None,
        kind,
        choices: Vec::new(),
        required: true,
        default: None,
        limits: Vec::new(),
    }
}

/// Returns the form of a data part: a JSON Schema of flat fields, or options. `None` if it has neither.
pub(super) fn form(data: &Map<String, Value>, order: &FieldOrder) -> Option<Form> {
    const SCHEMAS: [&str; 6] = [
        "schema",
        "requestedSchema",
        "requested_schema",
        "inputSchema",
        "input_schema",
        "form",
    ];
    let schemas = SCHEMAS
        .iter()
        .filter_map(|name| data.get(*name)?.as_object());
    let schema = schemas
        .chain([data])
        .find(|schema| schema.get("properties").is_some_and(Value::is_object));
    if let Some(schema) = schema {
        return Some(fields_of(schema, order));
    }
    let options = ["options", "choices"]
        .iter()
        .find_map(|name| data.get(*name)?.as_array());
    let options = options.filter(|options| !options.is_empty())?;
    let choices = choices(options.iter());
    Some(choices.map(|choices| {
        let choice = field(ANSWER, "Answer", FieldKind::Choice);
        vec![Field { choices, ..choice }]
    }))
}

/// Returns the fields in the agent's order. Where that is unknown, those that must be filled in come first.
fn fields_of(schema: &Map<String, Value>, order: &FieldOrder) -> Form {
    let properties = schema.get("properties")?.as_object()?;
    if properties.is_empty() || properties.len() > MAX_FIELDS {
        return None;
    }
    let required: HashSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names = || properties.keys().map(String::as_str);
    let ordered = order.of(names()).unwrap_or_else(|| {
        let (first, rest): (Vec<_>, Vec<_>) = names().partition(|name| required.contains(name));
        let names = first.into_iter().chain(rest);
        names.map(str::to_owned).collect()
    });
    let fields = ordered.iter().map(|name| {
        let property = properties.get(name)?;
        property_field(name, property, required.contains(&**name))
    });
    fields.collect()
}

fn property_field(name: &str, property: &Value, required: bool) -> Option<Field> {
    let word = |member: &str| property.get(member).and_then(Value::as_str);
    let values = property.get("enum").and_then(Value::as_array);
    let titled = property.get("oneOf").and_then(Value::as_array);
    let mut choices = match (values, titled) {
        (Some(values), _) => choices(values.iter())?,
        (None, Some(titled)) => choices(titled.iter())?,
        (None, None) => Vec::new(),
    };
    let titles = property.get("enumNames").and_then(Value::as_array);
    for (choice, title) in choices.iter_mut().zip(titles.into_iter().flatten()) {
        choice.title = shown(title.as_str()?)?;
    }
    let kind = match word("type") {
        _ if !choices.is_empty() => FieldKind::Choice,
        Some("string") => FieldKind::Text,
        Some("integer") => FieldKind::Integer,
        Some("number") => FieldKind::Number,
        Some("boolean") => FieldKind::Boolean,
        _ => return None,
    };
    let limits: Vec<Limit> = LIMITS
        .iter()
        .filter(|_| kind != FieldKind::Choice)
        .filter_map(|keyword| Limit::read(keyword, property.get(*keyword)?))
        .collect();
    let agents_default = property.get("default");
    let field = Field {
        limits,
        choices,
        required,
        ..field(
            Some(name).filter(|name| is_short(name))?,
            &word("title").and_then(shown).or_else(|| shown(name))?,
            kind,
        )
    };
    let is_shown = |value: &&Value| {
        value
            .as_str()
            .is_none_or(|text| shown(text).as_deref() == Some(text))
    };
    let default = agents_default.filter(is_shown);
    let default = default.and_then(|value| field.convert(value).ok());
    let mut choices = field.choices.iter();
    let chosen = choices.find(|choice| Some(&choice.value) == default.as_ref());
    let words = match (chosen, agents_default) {
        // The person sees the titles and not the values.
        (Some(choice), _) => Some(choice.title.clone()),
        (None, Some(Value::String(text))) => shown(text),
        (None, Some(value @ (Value::Number(_) | Value::Bool(_)))) => Some(value.to_string()),
        _ => None,
    };
    Some(Field {
        description: description(word("description"), &field.limits, words),
        default,
        ..field
    })
}

/// Returns the agent's description with the limits and the default of a value.
fn description(agents: Option<&str>, limits: &[Limit], default: Option<String>) -> Option<String> {
    let limits = limits.iter().map(|limit| limit.words.clone());
    let default = default.map(|default| format!("the default is {default}"));
    let facts: Vec<String> = limits.chain(default).collect();
    let facts = Some(facts.join(", ")).filter(|facts| !facts.is_empty());
    match (agents.and_then(shown), facts) {
        (Some(agents), Some(facts)) => Some(format!("{agents} ({facts})")),
        (agents, facts) => agents.or(facts),
    }
}

/// Returns the choices; `None` if there are too many, or one cannot be shown.
fn choices<'a>(options: impl ExactSizeIterator<Item = &'a Value>) -> Option<Vec<Choice>> {
    if options.len() > MAX_CHOICES {
        return None;
    }
    options.map(choice).collect()
}

fn choice(option: &Value) -> Option<Choice> {
    let member = |names: &[&str]| names.iter().find_map(|name| option.get(*name));
    let value = match option {
        Value::Object(_) => member(&[
            "value",
            "const",
            "id",
            "optionId",
            "option_id",
            "key",
            "name",
        ])?,
        value => value,
    };
    let text = match value {
        Value::String(text) if is_short(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    let title = member(&["title", "label", "name", "description"]);
    let title = title.and_then(Value::as_str).and_then(shown);
    Some(Choice {
        value: value.clone(),
        title: title.or_else(|| shown(&text))?,
    })
}

fn is_short(text: &str) -> bool {
    !text.is_empty() && first_chars(text, MAX_TITLE_CHARS) == text
}

/// Returns a text of the agent on one line; `None` if nothing of it is visible.
pub(in crate::remote_agent) fn shown(text: &str) -> Option<String> {
    let text = line(first_chars(text, MAX_READ_CHARS));
    Some(shortened(text.trim(), MAX_TITLE_CHARS)).filter(|text| !text.is_empty())
}

impl Field {
    pub(super) fn convert(&self, value: &Value) -> Result<Value, String> {
        let text = value.as_str().map(str::trim);
        let converted = match self.kind {
            FieldKind::Text => text
                .filter(|text| first_chars(text, MAX_ANSWER_CHARS) == *text && !text.is_empty())
                .map(Value::from),
            FieldKind::Choice => {
                let is_title = |choice: &&Choice| {
                    text.is_some_and(|text| text.eq_ignore_ascii_case(&choice.title))
                };
                let exact = self.choices.iter().find(|choice| choice.value == *value);
                let chosen = exact.or_else(|| {
                    // Two choices with one title differ by their values only.
                    let mut titled = self.choices.iter().filter(is_title);
                    titled.next().filter(|_| titled.next().is_none())
                });
                chosen.map(|choice| choice.value.clone())
            }
            FieldKind::Integer => match text {
                Some(text) => text.parse::<i64>().ok().map(Value::from),
                None => value.as_i64().map(Value::from),
            },
            FieldKind::Number => match text {
                Some(text) => text.parse::<f64>().ok(),
                None => value.as_f64(),
            }
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number),
            FieldKind::Boolean => match text.map(str::to_ascii_lowercase).as_deref() {
                Some("yes" | "y" | "true") => Some(true.into()),
                Some("no" | "n" | "false") => Some(false.into()),
                _ => value.as_bool().map(Value::from),
            },
        };
        let converted = converted.ok_or_else(|| match self.kind {
            FieldKind::Text => format!("write at most {MAX_ANSWER_CHARS} characters"),
            FieldKind::Choice => {
                let titles = self.choices.iter().map(|choice| &*choice.title);
                format!("choose one of {}", titles.collect::<Vec<_>>().join(", "))
            }
            FieldKind::Integer => "write a whole number".to_owned(),
            FieldKind::Number => "write a number".to_owned(),
            FieldKind::Boolean => "answer yes or no".to_owned(),
        })?;
        match self.limits.iter().find(|limit| !limit.allows(&converted)) {
            Some(limit) => Err(format!("it has to be {}", limit.words)),
            None => Ok(converted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_checked_against_their_fields() {
        let of = |kind: FieldKind| field("f", "F", kind);
        let choices = ["Yes", "No", "Other", "Other"].iter().enumerate();
        let choice = Field {
            choices: choices
                .map(|(i, title)| Choice {
                    value: i.into(),
                    title: (*title).to_owned(),
                })
                .collect(),
            ..of(FieldKind::Choice)
        };
        for (field, given, expected) in [
            (&of(FieldKind::Integer), json!(" 7 "), Some(json!(7))),
            (&of(FieldKind::Integer), json!(7.5), None),
            (&of(FieldKind::Number), json!("7.5"), Some(json!(7.5))),
            (&of(FieldKind::Number), json!("inf"), None),
            (&of(FieldKind::Boolean), json!("Yes"), Some(json!(true))),
            (&of(FieldKind::Boolean), json!("maybe"), None),
            (&of(FieldKind::Text), json!("x".repeat(16_001)), None),
            (&of(FieldKind::Text), json!(["x"]), None),
            (&choice, json!(1), Some(json!(1))),
            (&choice, json!("no"), Some(json!(1))),
            (&choice, json!("other"), None),
            (&choice, json!("2"), None),
        ] {
            assert_eq!(field.convert(&given).ok(), expected, "{field:?} {given}");
        }
    }
}
