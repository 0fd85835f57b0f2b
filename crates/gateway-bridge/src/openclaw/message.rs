//! Converts the parts of a message to the parameters of the gateway's method `agent`.
//!
//! `agent` accepts text and base64 images and refuses other attachments. So data becomes JSON in the text, and the text
//! includes the content of text files. For files that cannot be sent, the text contains their names, so that the agent can
//! report them.
//!
//! [`sanitize`] prevents OpenClaw from executing commands in a message of a client. OpenClaw 2026.9.6 parses a message before the agent reads it, after JavaScript's `trim`. A leading `/` is a command:
//! `/new` and `/reset` discard the session (the command `openclaw agent` has operator rights), `/NAME` and `$NAME` run a
//! skill of the operator, and the command refuses `/compact`. OpenClaw looks for `$NAME` everywhere, unless the message
//! begins with `/`; `//` begins no command. Directives such as `/think high` on a later line count only in channels. So this
//! module prepends to a message with any of these a first line that begins with `//` and explains its purpose. The client's
//! text is unchanged. Session keys in a message have no effect, because the session is a separate argument.
//!
//! OpenClaw also attaches images of its machine that a message names by path, see [`neutralize_image_paths`].

use std::borrow::Cow;

use a2a::Part;
use base::text::essence;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

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
    let essence = essence(mime_type);
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

/// The line that precedes a message with text that looks like a command.
const NOTICE_LINE: &str =
    "// Text of an A2A client. Slash commands and $references in it have no effect.";

/// Returns the line that must precede `text` to disable commands; `None` if there are none.
pub fn line_before(text: &str) -> Option<&'static str> {
    (text.trim_start_matches(is_space).starts_with('/') || refers(text)).then_some(NOTICE_LINE)
}

/// Adds that line to `text` if necessary.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    match line_before(text) {
        Some(line) => format!("{line}\n\n{text}").into(),
        None => text.into(),
    }
}

/// Returns whether the text contains `$` and a name.
fn refers(text: &str) -> bool {
    let named = |rest: &str| {
        let first = rest.bytes().next();
        first.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
    };
    text.match_indices('$')
        .any(|(at, _)| named(&text[at + 1..]))
}

/// The extensions of images that OpenClaw attaches.
const IMAGES: [&str; 10] = [
    "png", "jpg", "jpeg", "gif", "webp", "bmp", "tiff", "tif", "heic", "heif",
];

/// Returns `text` without paths to images on this machine. For example, `./x.png` becomes `./x[.]png`, which a model can
/// still read and OpenClaw ignores. OpenClaw 2026.9.6 treats a text as such a path if it ends with the extension of an image
/// and is
///
/// - `file://` and what follows, up to white space, a quote, `<`, `>` or `]`,
/// - `/`, `~`, `./`, `../` or a drive (`C:\`) at the beginning or after white space, a quote or `(`, and what follows, up to
///   white space, a quote, a parenthesis or a bracket. It blanks `[media attached: …]` before, so `]` counts as space.
///
/// A URL such as `https://example.com/x.png` matches none of these and remains unchanged.
pub fn neutralize_image_paths(text: &str) -> Cow<'_, str> {
    let mut dots = Vec::new();
    let (mut in_url, mut in_path, mut may_begin) = (false, false, true);
    for (at, c) in text.char_indices() {
        let rest = &text.as_bytes()[at..];
        in_path = (in_path && !ends_path(c)) || (may_begin && begins_path(rest));
        in_url = (in_url && !ends_url(c)) || begins_with(rest, b"file://");
        if c == '.'
            && (in_path || in_url)
            && IMAGES
                .iter()
                .any(|name| begins_with(&rest[1..], name.as_bytes()))
        {
            dots.push(at);
        }
        may_begin = is_space(c) || matches!(c, '"' | '\'' | '`' | '(' | ']');
    }
    if dots.is_empty() {
        return text.into();
    }
    let (mut changed, mut from) = (String::with_capacity(text.len() + 2 * dots.len()), 0);
    for at in dots {
        changed.push_str(&text[from..at]);
        changed.push_str("[.]");
        from = at + 1;
    }
    changed.push_str(&text[from..]);
    changed.into()
}

fn begins_with(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|first| first.eq_ignore_ascii_case(prefix))
}

fn begins_path(rest: &[u8]) -> bool {
    match rest {
        [b'/' | b'~', ..] | [b'.', b'/', ..] | [b'.', b'.', b'/', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

fn ends_path(c: char) -> bool {
    is_space(c) || matches!(c, '"' | '\'' | '`' | '(' | ')' | '[' | ']')
}

fn ends_url(c: char) -> bool {
    is_space(c) || matches!(c, '"' | '\'' | '`' | '<' | '>' | ']')
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
    fn parts_become_the_text_of_a_message() {
        let text = |text: &str| Part::text(text.into());
        let url = Some("https://e.com/a.pdf".to_owned());
        for (parts, expected) in [
            (vec![text("one"), text("two")], "one\n\ntwo"),
            (
                vec![data(json!({"a": 1}))],
                "```json\n{\n  \"a\": 1\n}\n```",
            ),
            (
                vec![data(json!({"a": "````"}))],
                "`````json\n{\n  \"a\": \"````\"\n}\n`````",
            ),
            (
                vec![bytes("note.md", Some("text/markdown"), b"hello")],
                "[File note.md, text/markdown]\n```\nhello\n```",
            ),
            (
                vec![Part::file(url, None, Some("a.pdf".into()), None)],
                "[File a.pdf: https://e.com/a.pdf]",
            ),
        ] {
            assert_eq!(to_agent_message(&parts, 0).text, expected);
        }
        for parts in [vec![], vec![text("  ")]] {
            assert!(!to_agent_message(&parts, 0).text.trim().is_empty());
        }
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
}

#[cfg(test)]
mod sanitize_tests {
    use super::*;

    #[test]
    fn leading_command_gets_a_line_before_it() {
        for text in ["/new", " \n/reset now", "/some-skill", "//x"] {
            let sent = sanitize(text);
            assert!(sent.starts_with("// ") && sent.ends_with(text), "{sent}");
        }
    }

    /// Tests each white space character that JavaScript's `trim` removes, and `U+0085`, which `trim` keeps.
    #[test]
    fn command_after_javascript_whitespace_is_found() {
        for space in [
            '\t', '\u{b}', '\u{c}', ' ', '\u{a0}', '\u{feff}', '\n', '\r', '\u{2028}', '\u{2029}',
            '\u{1680}', '\u{2000}', '\u{200a}', '\u{202f}', '\u{205f}', '\u{3000}',
        ] {
            let text = format!("{space}/new");
            assert!(sanitize(&text).starts_with("// "), "{text:?}");
        }
        assert_eq!(sanitize("\u{85}/new"), "\u{85}/new");
    }

    #[test]
    fn reference_gets_a_line_before_the_message() {
        for text in ["use $deploy", "a\n$x", "$a:b"] {
            assert!(sanitize(text).starts_with("// "), "{text}");
        }
    }

    #[test]
    fn image_path_is_neutralized() {
        for (input, expected) in [
            ("./x.png", "./x[.]png"),
            (
                "see (../a/b.JPG), '~/c.heic'",
                "see (../a/b[.]JPG), '~/c[.]heic'",
            ),
            ("C:\\a\\b.bmp d:/e.tif", "C:\\a\\b[.]bmp d:/e[.]tif"),
            ("at:file:///etc/x(1).gif", "at:file:///etc/x(1)[.]gif"),
            ("FILE://h/x.webp?", "FILE://h/x[.]webp?"),
            ("/a.png.png/b.jpeg", "/a[.]png[.]png/b[.]jpeg"),
            (
                "\u{feff}/a.png\u{2003}/b.png",
                "\u{feff}/a[.]png\u{2003}/b[.]png",
            ),
            ("[media attached: a]/b.png", "[media attached: a]/b[.]png"),
            ("/é.png", "/é[.]png"),
        ] {
            assert_eq!(neutralize_image_paths(input), expected, "{input}");
            assert_eq!(neutralize_image_paths(expected), expected, "{expected}");
        }
    }

    #[test]
    fn plain_name_is_unchanged() {
        for text in [
            "x.png",
            "a/x.png",
            "https://example.com/a/x.png",
            "(https://example.com/x.png)",
            "/a b.png",
            "./x.pn g",
            "./notes.txt",
            "1./2.png",
        ] {
            assert!(
                matches!(neutralize_image_paths(text), Cow::Borrowed(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in [
            "say /new to him",
            "-x",
            "it costs $ 5",
            "--local",
            "agent:main:main",
            "${HOME}",
            "",
        ] {
            assert_eq!(sanitize(text), text);
        }
    }
}
