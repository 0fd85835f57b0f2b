//! The canonical forms of an agent card that its signatures cover (A2A 1.0 §8.4).

use serde_json::{Map, Value};

use FieldType::{Message, Messages, Named, Plain};
use Presence::{Explicit, Implicit, Required};

/// A form of a card that may be signed.
#[derive(Debug, Clone)]
pub struct CanonicalCard {
    /// The name of the form.
    pub name: &'static str,
    /// The fields that the signature covers.
    pub card: Value,
    /// The canonical bytes (RFC 8785).
    pub bytes: Vec<u8>,
}

/// Returns the forms that signers use: the unchanged card; that of A2A 1.0 §8.4.1; the same without empty values, as the
/// official Python SDK writes it; that without the security schemes, which the official JavaScript SDK (1.3.0) omits from the
/// signature; and the unchanged card without empty values.
///
/// # Errors
/// The card has no canonical form.
pub fn canonical_cards(card: &Value) -> Result<Vec<CanonicalCard>, String> {
    let whole = without(card, "signatures");
    let specified = select(card, &CARD);
    let cleaned = clean(&specified).unwrap_or_else(|| Value::Object(Map::new()));
    let without_schemes = without(&cleaned, "securitySchemes");
    let whole_cleaned = clean(&whole).unwrap_or_else(|| Value::Object(Map::new()));
    let mut canonical_cards: Vec<CanonicalCard> = Vec::with_capacity(5);
    for (name, card) in [
        ("unchanged", whole),
        ("§8.4.1", specified),
        ("§8.4.1 without empties", cleaned),
        (
            "§8.4.1 without empties and security schemes",
            without_schemes,
        ),
        ("unchanged without empties", whole_cleaned),
    ] {
        let bytes = serde_jcs::to_vec(&card)
            .map_err(|e| format!("the agent card has no canonical form: {e}"))?;
        if canonical_cards.iter().all(|form| form.bytes != bytes) {
            canonical_cards.push(CanonicalCard { name, card, bytes });
        }
    }
    Ok(canonical_cards)
}

fn without(card: &Value, field: &str) -> Value {
    let mut card = card.clone();
    if let Some(fields) = card.as_object_mut() {
        fields.remove(field);
    }
    card
}

/// Removes texts, lists and objects that are empty, or become so.
fn clean(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        Value::Array(list) => {
            let cleaned: Vec<Value> = list.iter().filter_map(clean).collect();
            (!cleaned.is_empty()).then_some(Value::Array(cleaned))
        }
        Value::Object(map) => {
            let cleaned: Map<String, Value> = map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), clean(value)?)))
                .collect();
            (!cleaned.is_empty()).then_some(Value::Object(cleaned))
        }
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
    }
}

/// Whether a field with the default of its type (empty, false) is part of the signed content (A2A 1.0 §8.4.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Always.
    Required,
    /// Where it was set.
    Explicit,
    /// Never.
    Implicit,
}

/// The type of a field.
enum FieldType {
    /// A scalar, a list or map of texts, or any JSON.
    Plain,
    /// An object with these fields.
    Message(&'static [Field]),
    /// A list of such objects.
    Messages(&'static [Field]),
    /// A map of such objects.
    Named(&'static [Field]),
}

struct Field {
    name: &'static str,
    presence: Presence,
    field_type: FieldType,
}

const fn required(name: &'static str) -> Field {
    field(name, Required, Plain)
}

const fn explicit(name: &'static str) -> Field {
    field(name, Explicit, Plain)
}

const fn implicit(name: &'static str) -> Field {
    field(name, Implicit, Plain)
}

const fn message(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Explicit, Message(fields))
}

const fn field(name: &'static str, presence: Presence, field_type: FieldType) -> Field {
    Field {
        name,
        presence,
        field_type,
    }
}

static CARD: [Field; 13] = [
    required("name"),
    required("description"),
    field("supportedInterfaces", Required, Messages(&INTERFACE)),
    message("provider", &PROVIDER),
    required("version"),
    explicit("documentationUrl"),
    field("capabilities", Required, Message(&CAPABILITIES)),
    field("securitySchemes", Implicit, Named(&SCHEME)),
    REQUIREMENTS,
    required("defaultInputModes"),
    required("defaultOutputModes"),
    field("skills", Required, Messages(&SKILL)),
    explicit("iconUrl"),
];

const REQUIREMENTS: Field = field("securityRequirements", Implicit, Messages(&REQUIREMENT));

static INTERFACE: [Field; 4] = [
    required("url"),
    required("protocolBinding"),
    implicit("tenant"),
    required("protocolVersion"),
];

static PROVIDER: [Field; 2] = [required("url"), required("organization")];

static CAPABILITIES: [Field; 4] = [
    explicit("streaming"),
    explicit("pushNotifications"),
    field("extensions", Implicit, Messages(&EXTENSION)),
    explicit("extendedAgentCard"),
];

static EXTENSION: [Field; 4] = [
    implicit("uri"),
    implicit("description"),
    implicit("required"),
    explicit("params"),
];

static SKILL: [Field; 8] = [
    required("id"),
    required("name"),
    required("description"),
    required("tags"),
    implicit("examples"),
    implicit("inputModes"),
    implicit("outputModes"),
    REQUIREMENTS,
];

static REQUIREMENT: [Field; 1] = [field("schemes", Implicit, Named(&STRING_LIST))];

static STRING_LIST: [Field; 1] = [implicit("list")];

static SCHEME: [Field; 5] = [
    message("apiKeySecurityScheme", &API_KEY),
    message("httpAuthSecurityScheme", &HTTP_AUTH),
    message("oauth2SecurityScheme", &OAUTH2),
    message("openIdConnectSecurityScheme", &OPEN_ID),
    message("mtlsSecurityScheme", &MUTUAL_TLS),
];

static API_KEY: [Field; 3] = [
    implicit("description"),
    required("location"),
    required("name"),
];

static HTTP_AUTH: [Field; 3] = [
    implicit("description"),
    required("scheme"),
    implicit("bearerFormat"),
];

static OAUTH2: [Field; 3] = [
    implicit("description"),
    field("flows", Required, Message(&FLOWS)),
    implicit("oauth2MetadataUrl"),
];

static OPEN_ID: [Field; 2] = [implicit("description"), required("openIdConnectUrl")];

static MUTUAL_TLS: [Field; 1] = [implicit("description")];

static FLOWS: [Field; 5] = [
    message("authorizationCode", &AUTHORIZATION_CODE),
    message("clientCredentials", &CLIENT_CREDENTIALS),
    message("implicit", &IMPLICIT),
    message("password", &PASSWORD),
    message("deviceCode", &DEVICE_CODE),
];

static AUTHORIZATION_CODE: [Field; 5] = [
    required("authorizationUrl"),
    required("tokenUrl"),
    implicit("refreshUrl"),
    required("scopes"),
    implicit("pkceRequired"),
];

static CLIENT_CREDENTIALS: [Field; 3] = [
    required("tokenUrl"),
    implicit("refreshUrl"),
    required("scopes"),
];

static IMPLICIT: [Field; 3] = [
    implicit("authorizationUrl"),
    implicit("refreshUrl"),
    implicit("scopes"),
];

static PASSWORD: [Field; 3] = [
    implicit("tokenUrl"),
    implicit("refreshUrl"),
    implicit("scopes"),
];

static DEVICE_CODE: [Field; 4] = [
    required("deviceAuthorizationUrl"),
    required("tokenUrl"),
    implicit("refreshUrl"),
    required("scopes"),
];

/// Returns only the fields that a signature of A2A 1.0 covers. Returns a value other than an object unchanged: the signer may have signed it, and the card parser reports its error.
fn select(value: &Value, fields: &[Field]) -> Value {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    let mut covered_fields = Map::new();
    for field in fields {
        let value = object.get(field.name).filter(|value| !value.is_null());
        let Some(value) = value.map(|value| field.field_type.select(value)) else {
            continue;
        };
        if field.presence != Presence::Implicit || !is_default(&value) {
            covered_fields.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(covered_fields)
}

impl FieldType {
    fn select(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Message(fields), value) => select(value, fields),
            (Self::Messages(fields), Value::Array(list)) => {
                list.iter().map(|item| select(item, fields)).collect()
            }
            (Self::Named(fields), Value::Object(map)) => map
                .iter()
                .map(|(name, item)| (name.clone(), select(item, fields)))
                .collect::<Map<_, _>>()
                .into(),
            (Self::Plain | Self::Messages(_) | Self::Named(_), value) => value.clone(),
        }
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
