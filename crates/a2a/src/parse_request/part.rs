//! Parses parts in all three forms.

use crate::v1_0::{Part, PartContent};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::fields::{Fields, invalid_params, type_error};
use crate::v0_3::WRAPPED;
use crate::{A2aError, ErrorReason};
use crate::{Dialect, V03Dialect as V0_3};

/// Accepts base64 with or without padding, and any trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses a part. A part without known content is an error.
pub(super) fn part(dialect: Dialect, mut fields: Fields) -> Result<Part, A2aError> {
    // The member is `kind` in 0.3 and `type` in earlier versions. 1.0 has neither.
    let kind = match fields.name("kind")? {
        Some(kind) => Some(kind),
        None => fields.name("type")?,
    };
    if let Some(kind) = kind.filter(|kind| !matches!(kind.as_str(), "text" | "file" | "data")) {
        return Err(unknown(
            &fields,
            &format!("is of the kind `{}`", short(&kind)),
        ));
    }
    let mut filename = fields.name("filename")?;
    let mut media_type = fields.name("mediaType")?;
    let mut metadata = fields.map("metadata")?;
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

/// Decodes base64 of either alphabet, with or without padding.
fn decode(text: &str, path: &str) -> Result<Vec<u8>, A2aError> {
    let decoded = if text.contains(['-', '_']) {
        BASE64.decode(text.replace('-', "+").replace('_', "/"))
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
