//! Converts the parts of a message to the parameters of the gateway's method `agent`.
//!
//! `agent` accepts text and base64 images and refuses other attachments. So data becomes JSON in the text, and the text
//! includes the content of text files. For files that cannot be sent, the text contains their names, so that the agent can
//! report them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use a2a::Part;

/// A message in the gateway's format.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AgentMessage {
    /// The text.
    pub text: String,
    /// The images.
    pub attachments: Vec<Value>,
}

/// Converts parts to the gateway's format, in order. Images larger than `image_bytes` are named but not attached.
pub(super) fn to_agent_message(parts: &[Part], image_bytes: usize) -> AgentMessage {
    let mut carried = AgentMessage::default();
    for part in parts {
        let text = match part.kind() {
            "data" => code_block("json", &pretty(&part.json()["data"])),
            "file" => file(part, image_bytes, &mut carried.attachments),
            _ => part.json()["text"].as_str().unwrap_or_default().to_owned(),
        };
        if !carried.text.is_empty() && !text.is_empty() {
            carried.text.push_str("\n\n");
        }
        carried.text.push_str(&text);
    }
    if carried.text.chars().all(is_space) {
        // The gateway refuses messages without text.
        carried.text = match carried.attachments.len() {
            0 => "(The message is empty.)".into(),
            _ => "(See the attachments.)".into(),
        };
    }
    carried
}

/// Returns whether OpenClaw treats a character as white space: `WhiteSpace` and `LineTerminator` of ECMAScript, as in
/// `trim` and `\s`. Rust differs for `U+FEFF` and `U+0085`.
pub fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// Returns the text that represents a file part.
fn file(part: &Part, image_bytes: usize, attachments: &mut Vec<Value>) -> String {
    let name = part.file_field("name").unwrap_or("without a name");
    if let Some(uri) = part.file_field("uri") {
        return format!("[File {name}: {uri}]");
    }
    let bytes = part.file_field("bytes").unwrap_or_default();
    let mime_type = part
        .file_field("mimeType")
        .map(str::to_owned)
        .or_else(|| mime_guess::from_path(name).first_raw().map(str::to_owned))
        .unwrap_or_else(|| "application/octet-stream".into());
    let Ok(content) = STANDARD.decode(bytes) else {
        return format!(
            "[File {name}, {mime_type}: not attached, because its bytes are not base64.]"
        );
    };
    if mime_type.starts_with("image/") && content.len() <= image_bytes {
        attachments.push(
            json!({ "type": "image", "mimeType": mime_type, "fileName": name, "content": bytes }),
        );
        return format!("[Image {name}, attached]");
    }
    match std::str::from_utf8(&content) {
        Ok(text) if is_text(&mime_type) => {
            format!("[File {name}, {mime_type}]\n{}", code_block("", text))
        }
        _ if image_bytes == 0 => format!(
            "[File {name}, {mime_type}, {} bytes: not attached, because only text can be sent. Ask the sender for its \
             text or a URL.]",
            content.len()
        ),
        _ => format!(
            "[File {name}, {mime_type}, {} bytes: not attached, because the gateway accepts only images of at most {image_bytes} bytes. \
             Ask the sender for its text or a URL.]",
            content.len()
        ),
    }
}

fn is_text(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or(mime_type).trim();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/toml"
                | "application/javascript"
        )
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Returns `text` as a Markdown code block, with a code fence that the text cannot close.
fn code_block(language: &str, text: &str) -> String {
    let mut longest = 2;
    let mut row = 0;
    for c in text.chars() {
        row = if c == '`' { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bytes(name: &str, mime_type: Option<&str>, content: &[u8]) -> Part {
        Part::file(
            None,
            Some(STANDARD.encode(content)),
            Some(name.into()),
            mime_type.map(str::to_owned),
        )
    }

    fn data(value: Value) -> Part {
        Part::data(value.as_object().unwrap().clone())
    }

    #[test]
    fn texts_are_joined_by_a_blank_line() {
        let parts = [Part::text("one".into()), Part::text("two".into())];
        assert_eq!(to_agent_message(&parts, 0).text, "one\n\ntwo");
    }

    #[test]
    fn data_is_json_in_a_code_block() {
        assert_eq!(
            to_agent_message(&[data(json!({"a": 1}))], 0).text,
            "```json\n{\n  \"a\": 1\n}\n```"
        );
    }

    #[test]
    fn fence_is_longer_than_inner_fences() {
        let text = to_agent_message(&[data(json!({"a": "````"}))], 0).text;
        assert!(
            text.starts_with("`````json\n") && text.ends_with("\n`````"),
            "{text}"
        );
    }

    #[test]
    fn image_is_attached_and_named() {
        let message = to_agent_message(&[bytes("dot.png", None, b"png")], 100);
        assert_eq!(message.text, "[Image dot.png, attached]");
        assert_eq!(
            message.attachments,
            [
                json!({"type": "image", "mimeType": "image/png", "fileName": "dot.png", "content": "cG5n"})
            ]
        );
    }

    #[test]
    fn unsupported_part_is_named() {
        for part in [
            bytes("big.png", Some("image/png"), &[0; 11]),
            bytes("a.zip", Some("application/zip"), b"zip"),
            bytes("odd.txt", Some("text/plain"), &[0xff]),
        ] {
            let message = to_agent_message(&[part], 10);
            assert!(
                message.text.contains("not attached") && message.attachments.is_empty(),
                "{message:?}"
            );
        }
    }

    #[test]
    fn text_file_is_inlined() {
        let message = to_agent_message(&[bytes("note.md", Some("text/markdown"), b"hello")], 0);
        assert_eq!(
            message.text,
            "[File note.md, text/markdown]\n```\nhello\n```"
        );
    }

    #[test]
    fn remote_file_is_named_by_its_url() {
        let part = Part::file(
            Some("https://e.com/a.pdf".into()),
            None,
            Some("a.pdf".into()),
            None,
        );
        assert_eq!(
            to_agent_message(&[part], 0).text,
            "[File a.pdf: https://e.com/a.pdf]"
        );
    }

    #[test]
    fn message_always_has_text() {
        assert!(!to_agent_message(&[], 0).text.is_empty());
        assert!(
            !to_agent_message(&[Part::text("  ".into())], 0)
                .text
                .trim()
                .is_empty()
        );
    }
}
