//! Reads JSON objects by the rules of ProtoJSON (A2A 1.0 §5.5 to §5.7): accepts names in camelCase and snake_case, treats
//! `null` as absent, and ignores unknown members. An error names the path of the invalid member. Parts have three forms.

use std::collections::HashMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::decode_response::part::{declared_kind, place_content, unwrapped};
use crate::v0_3::WRAPPED;
use crate::v1_0::{Part, PartContent};
use crate::{A2aError, Dialect, ErrorReason, V03Dialect as V0_3};

/// An object and its path in the request.
#[derive(Debug)]
pub struct Fields {
    fields: Map<String, Value>,
    path: String,
    /// Whether a name has an underscore. Most clients write camelCase, which needs no second look-up.
    has_snake_case: bool,
}

impl Fields {
    /// Wraps the object at `path`.
    ///
    /// # Errors
    /// `value` is not an object.
    pub fn new(value: Value, path: impl Into<String>) -> Result<Self, A2aError> {
        let path = path.into();
        match value {
            Value::Object(fields) => Ok(Self::at_path(fields, path)),
            other => Err(type_error(&path, "an object", &other)),
        }
    }

    fn at_path(fields: Map<String, Value>, path: String) -> Self {
        let has_snake_case = fields.keys().any(|name| name.contains('_'));
        Self {
            fields,
            path,
            has_snake_case,
        }
    }

    /// Parses the parameters of a query.
    pub fn query(query: &str) -> Self {
        let fields = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        Self::at_path(fields, String::new())
    }

    /// Moves the remaining fields out of another object.
    pub fn rest_of(other: &mut Self) -> Self {
        Self {
            fields: std::mem::take(&mut other.fields),
            path: other.path.clone(),
            has_snake_case: other.has_snake_case,
        }
    }

    /// Returns the path of the object.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path of a field.
    pub fn at(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            [&*self.path, ".", name].concat()
        }
    }

    /// Lists up to ten names of the remaining fields, each of at most 40 characters.
    pub fn names(&self) -> String {
        let names: Vec<String> = self
            .fields
            .keys()
            .take(10)
            .map(|name| format!("`{}`", name.chars().take(40).collect::<String>()))
            .collect();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// Removes and returns a field, also if it is `null`.
    pub fn take_null(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).or_else(|| {
            let has_two_names =
                self.has_snake_case && name.contains(|c: char| c.is_ascii_uppercase());
            has_two_names
                .then(|| self.fields.remove(&snake(name)))
                .flatten()
        })
    }

    /// Removes and returns a field that is not `null`.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.take_null(name).filter(|value| !value.is_null())
    }

    /// Removes and returns a string, which may be empty.
    ///
    /// # Errors
    /// The field is not a string.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, A2aError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(type_error(&self.at(name), "a string", &other)),
        }
    }

    /// Removes and returns a string that is not empty.
    ///
    /// # Errors
    /// The field is not a string.
    pub fn name(&mut self, name: &str) -> Result<Option<String>, A2aError> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Removes and returns the name of an enum, or its number as a string.
    ///
    /// # Errors
    /// The field is neither a string nor a number.
    pub fn enum_name(&mut self, name: &str) -> Result<Option<String>, A2aError> {
        match self.take(name) {
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            None => Ok(None),
            Some(other) => Err(type_error(&self.at(name), "a string", &other)),
        }
    }

    /// Removes and returns a required string.
    ///
    /// # Errors
    /// The field is missing, empty, or not a string.
    pub fn required(&mut self, name: &str) -> Result<String, A2aError> {
        self.name(name)?.ok_or_else(|| self.missing(name))
    }

    /// Removes and returns a boolean. A query has it as a string, which Python writes as `True`.
    ///
    /// # Errors
    /// The field is neither `true` nor `false`.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, A2aError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(other) => Err(type_error(&self.at(name), "true or false", &other)),
        }
    }

    /// Removes and returns a whole number from 0. ProtoJSON and queries may have it as a string.
    ///
    /// # Errors
    /// The field is not a whole number from 0 to 2147483647.
    pub fn count(&mut self, name: &str) -> Result<Option<i32>, A2aError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = match &value {
            Value::Number(number) => number.as_i64().or_else(|| {
                let float = number.as_f64()?;
                (float.fract() == 0.0 && float.abs() < 1e9).then_some(float as i64)
            }),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number.and_then(|number| i32::try_from(number).ok()) {
            Some(number) if number >= 0 => Ok(Some(number)),
            _ => Err(invalid_params(
                &self.at(name),
                "must be a whole number from 0 to 2147483647",
            )),
        }
    }

    /// Removes and returns a time (RFC 3339).
    ///
    /// # Errors
    /// The field is not a time.
    pub fn time(&mut self, name: &str) -> Result<Option<DateTime<Utc>>, A2aError> {
        let Some(text) = self.name(name)? else {
            return Ok(None);
        };
        // A plus that a query did not escape has become a space.
        match DateTime::parse_from_rfc3339(&text.replace(' ', "+")) {
            Ok(time) => Ok(Some(time.to_utc())),
            Err(_) => Err(invalid_params(
                &self.at(name),
                "must be a time of RFC 3339, such as `2026-01-31T12:00:00Z`",
            )),
        }
    }

    /// Removes and returns an object.
    ///
    /// # Errors
    /// The field is not an object.
    pub fn object(&mut self, name: &str) -> Result<Option<Self>, A2aError> {
        self.take(name)
            .map(|value| Self::new(value, self.at(name)))
            .transpose()
    }

    /// Removes and returns an object with names of the client's choice; `None` if it is empty.
    ///
    /// # Errors
    /// The field is not an object.
    pub fn map(&mut self, name: &str) -> Result<Option<HashMap<String, Value>>, A2aError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) if map.is_empty() => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map.into_iter().collect())),
            Some(other) => Err(type_error(&self.at(name), "an object", &other)),
        }
    }

    /// Removes and returns a list; a missing one is empty.
    ///
    /// # Errors
    /// The field is not a list.
    pub fn list(&mut self, name: &str) -> Result<Vec<Value>, A2aError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(type_error(&self.at(name), "a list", &other)),
        }
    }

    /// Removes and returns a list of strings; `None` if it is empty or missing.
    ///
    /// # Errors
    /// The field is not a list of strings.
    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, A2aError> {
        let texts: Vec<String> = self
            .list(name)?
            .into_iter()
            .enumerate()
            .map(|(index, value)| match value {
                Value::String(text) => Ok(text),
                other => {
                    let path = format!("{}[{index}]", self.at(name));
                    Err(type_error(&path, "a string", &other))
                }
            })
            .collect::<Result<_, _>>()?;
        Ok((!texts.is_empty()).then_some(texts))
    }

    /// Returns the error for a missing field.
    pub fn missing(&self, name: &str) -> A2aError {
        let path = self.at(name);
        A2aError::new(
            ErrorReason::InvalidParams,
            format!("`{path}` is required, but missing or empty"),
        )
        .at(path)
    }
}

/// Returns the error for a value of another type.
pub(super) fn type_error(path: &str, expected: &str, found: &Value) -> A2aError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    invalid_params(path, format!("must be {expected}, but is {found}"))
}

/// Returns the error for an invalid value.
pub fn invalid_params(path: &str, reason: impl std::fmt::Display) -> A2aError {
    let name = if path.is_empty() { "params" } else { path };
    let error = A2aError::new(ErrorReason::InvalidParams, format!("`{name}` {reason}"));
    error.at(name)
}

fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
            snake.push(letter.to_ascii_lowercase());
        } else {
            snake.push(letter);
        }
    }
    snake
}

/// Accepts base64 with or without padding, and any trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses a part, in every spelling that the client reads in an answer. A part without known content is an error.
pub(super) fn part(dialect: Dialect, mut fields: Fields) -> Result<Part, A2aError> {
    fields = Fields::at_path(unwrapped(fields.fields), fields.path);
    // The member is `kind` in 0.3 and `type` in earlier versions. 1.0 has neither.
    let kind = match fields.name("kind")? {
        Some(kind) => Some(kind),
        None => fields.name("type")?,
    };
    let declared = kind.as_deref().and_then(declared_kind);
    if let Some(kind) = kind.filter(|_| declared.is_none()) {
        return Err(unknown(
            &fields,
            &format!("is of the kind `{}`", short(&kind)),
        ));
    }
    let mut filename = fields.name("filename")?;
    let mut media_type = fields.name("mediaType")?;
    let mut metadata = fields.map("metadata")?;
    place_content(&mut fields.fields, declared);
    let mut found: Vec<PartContent> = Vec::with_capacity(1);
    if let Some(text) = fields.text("text")? {
        found.push(PartContent::Text(text));
    }
    if let Some(raw) = fields.text("raw")? {
        found.push(PartContent::Raw(decode(&raw, &fields.at("raw"))?));
    }
    if let Some(url) = fields.text("url")? {
        found.push(PartContent::Url(url));
    }
    if let Some(mut file) = fields.object("file")? {
        filename = filename.or(file.name("name")?);
        media_type = media_type.or(file.name("mimeType")?);
        found.push(self::file(&mut file)?);
    }
    if let Some(data) = fields.take_null("data") {
        // Only 1.0 has `null` as data.
        if !data.is_null() || (dialect == Dialect::V1_0 && found.is_empty()) {
            let path = fields.at("data");
            found.push(PartContent::Data(self::data(dialect, data, path)?));
        }
    }
    // Clients of ProtoJSON may write every member, all empty except one.
    if found.len() > 1 {
        let is_empty = |content: &PartContent| match content {
            PartContent::Text(text) | PartContent::Url(text) => text.is_empty(),
            PartContent::Raw(bytes) => bytes.is_empty(),
            PartContent::Data(data) => data.is_null(),
        };
        let first = found.first().cloned();
        found.retain(|content| !is_empty(content));
        if found.is_empty() {
            found.extend(first);
        }
    }
    let content = match (found.pop(), found.pop()) {
        (Some(content), None) => content,
        (None, _) => return Err(unknown(&fields, &format!("has {}", fields.names()))),
        (Some(_), Some(_)) => {
            return Err(invalid_params(
                fields.path(),
                "has several contents; send one part for each",
            ));
        }
    };
    let content = match content {
        PartContent::Data(data) if matches!(dialect, Dialect::V0_3(_)) => {
            PartContent::Data(unwrap(data, &mut metadata))
        }
        content => content,
    };
    Ok(Part {
        content,
        filename,
        media_type,
        metadata,
    })
}

/// Parses a file of A2A 0.3, of either dialect.
fn file(file: &mut Fields) -> Result<PartContent, A2aError> {
    let mut bytes = None;
    for name in ["bytes", "fileWithBytes"] {
        if let Some(text) = file.text(name)? {
            bytes = Some((text, file.at(name)));
        }
    }
    let uri = match file.name("uri")? {
        Some(uri) => Some(uri),
        None => file.name("fileWithUri")?,
    };
    match (bytes, uri) {
        (Some((text, path)), None) => Ok(PartContent::Raw(decode(&text, &path)?)),
        (None, Some(uri)) => Ok(PartContent::Url(uri)),
        (Some(_), Some(_)) => Err(invalid_params(file.path(), "has both bytes and a URL")),
        (None, None) => Err(invalid_params(file.path(), "has neither bytes nor a URL")),
    }
}

fn data(dialect: Dialect, data: Value, path: String) -> Result<Value, A2aError> {
    match dialect {
        Dialect::V1_0 => Ok(data),
        Dialect::V0_3(V0_3::Rpc) => match data {
            data @ Value::Object(_) => Ok(data),
            other => Err(type_error(&path, "an object", &other)),
        },
        // The proto wraps data in a message. The parser accepts a bare object too.
        Dialect::V0_3(V0_3::Rest) => match data {
            Value::Object(mut outer) => match outer.remove("data") {
                Some(inner @ Value::Object(_)) if outer.is_empty() => Ok(inner),
                Some(inner) => {
                    outer.insert("data".to_owned(), inner);
                    Ok(Value::Object(outer))
                }
                None => Ok(Value::Object(outer)),
            },
            other => Err(type_error(&path, "an object", &other)),
        },
    }
}

/// Unwraps data that is not an object. The official SDKs wrap it for A2A 0.3.
fn unwrap(data: Value, metadata: &mut Option<std::collections::HashMap<String, Value>>) -> Value {
    let wrapped = metadata
        .as_mut()
        .and_then(|metadata| metadata.remove(WRAPPED))
        .is_some_and(|mark| mark == Value::Bool(true));
    if metadata
        .as_ref()
        .is_some_and(|metadata| metadata.is_empty())
    {
        *metadata = None;
    }
    match data {
        Value::Object(mut outer) if wrapped => match outer.remove("value") {
            Some(value) => value,
            None => Value::Object(outer),
        },
        data => data,
    }
}

/// Decodes base64 of either alphabet, with or without padding and line breaks.
fn decode(text: &str, path: &str) -> Result<Vec<u8>, A2aError> {
    let is_plain = |c: char| !matches!(c, '-' | '_') && !c.is_ascii_whitespace();
    let decoded = if !text.chars().all(is_plain) {
        let letters = text.chars().filter(|c| !c.is_ascii_whitespace());
        let standard = letters.map(|c| match c {
            '-' => '+',
            '_' => '/',
            c => c,
        });
        BASE64.decode(standard.collect::<String>())
    } else {
        BASE64.decode(text)
    };
    decoded.map_err(|error| invalid_params(path, format!("is not base64: {error}")))
}

fn unknown(fields: &Fields, what: &str) -> A2aError {
    A2aError::new(
        ErrorReason::ContentTypeNotSupported,
        format!(
            "`{}` {what}; parts must be text, data, or files with bytes or a URL",
            fields.path()
        ),
    )
    .at(fields.path())
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
