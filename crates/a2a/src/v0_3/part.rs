use crate::v1_0::{Part, PartContent};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::HashMap;

use super::{Dialect, V03, WRAPPED};

impl Serialize for V03<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = self.value;
        let mut map = serializer.serialize_map(None)?;
        if self.dialect == Dialect::Rpc {
            let kind = match part.content {
                PartContent::Text(_) => "text",
                PartContent::Raw(_) | PartContent::Url(_) => "file",
                PartContent::Data(_) => "data",
            };
            map.serialize_entry("kind", kind)?;
        }
        let mut wrapped = false;
        match &part.content {
            PartContent::Text(text) => map.serialize_entry("text", text)?,
            PartContent::Raw(_) | PartContent::Url(_) => {
                map.serialize_entry("file", &File(part, self.dialect))?;
            }
            PartContent::Data(data) => {
                wrapped = !data.is_object();
                let data = Data { data, wrapped };
                match self.dialect {
                    Dialect::Rpc => map.serialize_entry("data", &data)?,
                    Dialect::Rest => map.serialize_entry("data", &Inner { data })?,
                }
            }
        }
        let metadata = part
            .metadata
            .as_ref()
            .filter(|metadata| !metadata.is_empty());
        if wrapped || metadata.is_some() {
            map.serialize_entry("metadata", &Metadata(metadata, wrapped))?;
        }
        map.end()
    }
}

struct File<'a>(&'a Part, Dialect);

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(part, dialect) = self;
        let rpc = *dialect == Dialect::Rpc;
        let mut map = serializer.serialize_map(None)?;
        match &part.content {
            PartContent::Raw(bytes) => {
                let name = if rpc { "bytes" } else { "fileWithBytes" };
                map.serialize_entry(name, &Text(Base64Display::new(bytes, &STANDARD)))?;
            }
            PartContent::Url(url) => {
                map.serialize_entry(if rpc { "uri" } else { "fileWithUri" }, url)?;
            }
            PartContent::Text(_) | PartContent::Data(_) => {}
        }
        if let Some(name) = &part.filename {
            map.serialize_entry("name", name)?;
        }
        if let Some(media_type) = &part.media_type {
            map.serialize_entry("mimeType", media_type)?;
        }
        map.end()
    }
}

/// Serializes a displayable value as a string.
struct Text<T>(T);

impl<T: std::fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct Inner<'a> {
    data: Data<'a>,
}

struct Data<'a> {
    data: &'a Value,
    wrapped: bool,
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.wrapped {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry("value", self.data)?;
            map.end()
        } else {
            self.data.serialize(serializer)
        }
    }
}

struct Metadata<'a>(Option<&'a HashMap<String, Value>>, bool);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.into_iter().flatten() {
            if !(self.1 && name == WRAPPED) {
                map.serialize_entry(name, value)?;
            }
        }
        if self.1 {
            map.serialize_entry(WRAPPED, &true)?;
        }
        map.end()
    }
}
