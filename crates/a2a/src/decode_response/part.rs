//! Reads parts of messages and artifacts into the 0.3 form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{drop_empty, kind, rename, unwrap_case};
use crate::text::spell;
use crate::{Dialect, V03Dialect};

/// The members that can hold a part's content (A2A 0.3 §6.5, 1.0 §4.1.6).
const MEMBERS: [&str; 5] = ["text", "file", "raw", "url", "data"];

/// The members of a file (A2A 0.3 §6.6), with their names of either dialect, the content first. Some servers write them
/// into the part itself.
const FILE_MEMBERS: [&str; 11] = [
    "bytes",
    "uri",
    "fileWithBytes",
    "file_with_bytes",
    "fileWithUri",
    "file_with_uri",
    "name",
    "filename",
    "mimeType",
    "mime_type",
    "mediaType",
];

/// Converts a part to the 0.3 form: `kind` follows from the member with the content. Some servers name the kind `type`, or
/// write the content of a text into `content`.
pub(super) fn read(mut part: Map<String, Value>, dialect: Dialect) -> Value {
    let has_text = part.get("text").is_some_and(Value::is_string);
    // A part that is canonical already is the frequent one.
    if has_text && part.get("kind").is_some_and(|kind| kind == "text") {
        return Value::Object(part);
    }
    // The frequent part of 1.0.
    if has_text && part.len() == 1 {
        part.insert("kind".into(), "text".into());
        return Value::Object(part);
    }
    part = unwrapped(part);
    let has_text = part.get("text").is_some_and(Value::is_string);
    let named = ["kind", "type"]
        .into_iter()
        .find_map(|member| part.get(member)?.as_str());
    let mut declared = named.and_then(declared_kind);
    if named.is_some() && declared.is_none() && part.contains_key("kind") {
        let others = MEMBERS.iter().filter(|member| part.contains_key(**member));
        if !has_text || others.count() > 1 {
            return Value::Object(part);
        }
        declared = Some("text");
    }
    place_content(&mut part, declared);
    rename(&mut part, "media_type", "mediaType");
    let found = content(&part);
    let Some(found) = declared.filter(|kind| part.contains_key(*kind)).or(found) else {
        return Value::Object(part);
    };
    if declared.is_some() {
        part.remove("type");
        part.remove("kind");
    } else {
        drop_empty(&mut part, "filename");
        drop_empty(&mut part, "mediaType");
        for member in MEMBERS {
            if member != found && part.get(member).is_some_and(|value| !is_set(value)) {
                part.remove(member);
            }
        }
    }
    match found {
        "text" => kind(part, "text"),
        "data" => {
            let value = part.remove("data").unwrap_or_default();
            part.insert("data".into(), data(value, declared.is_some(), dialect));
            kind(part, "data")
        }
        "file" => {
            if let Some(Value::Object(file)) = part.get_mut("file") {
                file_members(file);
            }
            kind(part, "file")
        }
        content => {
            let mut file = Map::new();
            for (name, canonical) in [
                (content, if content == "raw" { "bytes" } else { "uri" }),
                ("filename", "name"),
                ("name", "name"),
                ("mediaType", "mimeType"),
                ("mimeType", "mimeType"),
                ("mime_type", "mimeType"),
            ] {
                if let Some(value) = part.remove(name).filter(|value| !value.is_null()) {
                    file.entry(canonical).or_insert(value);
                }
            }
            file_members(&mut file);
            part.insert("file".into(), Value::Object(file));
            kind(part, "file")
        }
    }
}

/// Returns the part without what some peers wrap around it: `root`, `textPart` and its like, and the form that a TypeScript
/// type of the proto has.
pub(crate) fn unwrapped(mut part: Map<String, Value>) -> Map<String, Value> {
    while let Some(inner) = take_inner(&mut part) {
        part = inner;
    }
    unwrap_case(&mut part, "content");
    unwrap_case(&mut part, "part");
    if let Some(Value::Object(file)) = part.get_mut("file") {
        unwrap_case(file, "file");
    }
    drop_empty(&mut part, "kind");
    part
}

/// Removes and returns the part that the only member of `part` holds.
fn take_inner(part: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let mut members = part.iter_mut().filter(|(_, value)| !value.is_null());
    let (Some((name, Value::Object(inner))), None) = (members.next(), members.next()) else {
        return None;
    };
    if name != "root" {
        let kind = declared_kind(name).filter(|_| spell(name).ends_with("part"))?;
        inner.entry("kind").or_insert_with(|| json!(kind));
    }
    Some(std::mem::take(inner))
}

/// Moves the content of a part of this kind to the member of the kind: some peers write a text into `content`, and the
/// members of a file into the part.
pub(crate) fn place_content(part: &mut Map<String, Value>, kind: Option<&str>) {
    match kind {
        Some("text")
            if !part.get("text").is_some_and(Value::is_string)
                && part.get("content").is_some_and(Value::is_string) =>
        {
            part.remove("text");
            rename(part, "content", "text");
        }
        Some("file") if content(part).is_none() => {
            let is_content = |name: &&str| part.get(*name).is_some_and(is_set);
            if FILE_MEMBERS[..6].iter().any(is_content) {
                let members = FILE_MEMBERS
                    .iter()
                    .filter_map(|name| Some(((*name).to_owned(), part.remove(*name)?)));
                let file: Map<_, _> = members.collect();
                part.insert("file".into(), Value::Object(file));
            }
        }
        _ => {}
    }
}

/// Returns the kind of this name, in any spelling.
pub(crate) fn declared_kind(name: &str) -> Option<&'static str> {
    match spell(name).as_str() {
        "text" | "textpart" => Some("text"),
        "file" | "filepart" => Some("file"),
        "data" | "datapart" => Some("data"),
        _ => None,
    }
}

/// Returns the member with a part's content. Some peers write every member, all empty except one.
fn content(part: &Map<String, Value>) -> Option<&'static str> {
    let first = |predicate: fn(&Value) -> bool| {
        MEMBERS
            .into_iter()
            .find(|member| part.get(*member).is_some_and(predicate))
    };
    first(is_set).or_else(|| first(|value| !value.is_null()))
}

fn is_set(value: &Value) -> bool {
    !value.is_null() && value != ""
}

/// Returns the data of a part, which is always an object in 0.3 (§6.5.3). The proto of 0.3 wraps it in another one.
fn data(value: Value, is_declared: bool, dialect: Dialect) -> Value {
    match value {
        Value::Object(mut wrapped)
            if dialect == Dialect::V0_3(V03Dialect::Rest)
                && !is_declared
                && wrapped.len() == 1
                && wrapped.contains_key("data") =>
        {
            wrapped.remove("data").unwrap_or_default()
        }
        object @ Value::Object(_) => object,
        other if is_declared || dialect == Dialect::V0_3(V03Dialect::Rest) => other,
        other => json!({ "value": other }),
    }
}

/// Gives the members of a file their names of 0.3.
fn file_members(file: &mut Map<String, Value>) {
    for (other, canonical) in [
        ("fileWithUri", "uri"),
        ("file_with_uri", "uri"),
        ("url", "uri"),
        ("fileWithBytes", "bytes"),
        ("file_with_bytes", "bytes"),
        ("mime_type", "mimeType"),
        ("mediaType", "mimeType"),
        ("media_type", "mimeType"),
        ("filename", "name"),
    ] {
        let is_empty = canonical != "bytes" && file.get(other).is_some_and(|value| value == "");
        if is_empty {
            file.remove(other);
        }
        rename(file, other, canonical);
    }
    if !file.contains_key("bytes")
        && let Some((media_type, bytes)) =
            file.get("uri").and_then(Value::as_str).and_then(data_url)
    {
        let media_type = media_type.split(';').next().unwrap_or_default().to_owned();
        let bytes = Value::String(bytes.to_owned());
        file.remove("uri");
        file.insert("bytes".into(), bytes);
        if !media_type.is_empty() {
            file.entry("mimeType").or_insert(Value::String(media_type));
        }
    }
    if let Some(Value::String(bytes)) = file.get_mut("bytes") {
        normalize_base64(bytes);
    }
}

/// Returns the media type, which may be empty, and the base64 of a data URL (RFC 2397); `None` of any other URL.
pub fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, bytes) = url.split_once(',')?;
    let scheme = head.get(..5).filter(|s| s.eq_ignore_ascii_case("data:"))?;
    let media_type = head[scheme.len()..].strip_suffix(";base64")?;
    (!bytes.contains('%')).then_some((media_type, bytes))
}

/// Converts base64 to the standard alphabet with padding and without line breaks. ProtoJSON allows the URL alphabet and
/// missing padding, and many encoders break lines (RFC 2045 §6.8).
fn normalize_base64(bytes: &mut String) {
    if bytes.contains(|c: char| c.is_ascii_whitespace()) {
        bytes.retain(|c| !c.is_ascii_whitespace());
    }
    if memchr::memchr2(b'-', b'_', bytes.as_bytes()).is_some() {
        *bytes = bytes.replace('-', "+").replace('_', "/");
    }
    let missing = match bytes.len() % 4 {
        2 => "==",
        3 => "=",
        _ => return,
    };
    // Only base64 without padding gets padding. Other text stays unchanged.
    let tail = &bytes.as_bytes()[bytes.len() / 4 * 4..];
    if STANDARD.decode([tail, missing.as_bytes()].concat()).is_ok() {
        bytes.push_str(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_1_0(part: Value) -> Value {
        read(part.as_object().cloned().unwrap_or_default(), Dialect::V1_0)
    }

    #[test]
    fn part_type_follows_its_only_member() {
        let all = json!({"text": "", "raw": "", "url": "https://f/x", "filename": "", "mediaType": "", "data": null});
        assert_eq!(
            part_1_0(all),
            json!({"kind": "file", "file": {"uri": "https://f/x"}})
        );
        assert_eq!(
            part_1_0(json!({"text": ""})),
            json!({"kind": "text", "text": ""})
        );
        assert_eq!(part_1_0(json!({"odd": 1})), json!({"odd": 1}));
    }

    #[test]
    fn file_of_1_0_is_read_with_the_names_of_0_3() {
        for (part, file) in [
            (
                json!({"raw": "aGk=", "name": "a.txt", "mimeType": "text/plain"}),
                json!({"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}),
            ),
            (
                json!({"url": "https://f/x", "filename": "a", "name": "b", "mime_type": "text/plain"}),
                json!({"uri": "https://f/x", "name": "a", "mimeType": "text/plain"}),
            ),
        ] {
            assert_eq!(part_1_0(part), json!({"kind": "file", "file": file}));
        }
    }
}
