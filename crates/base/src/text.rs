//! Texts for messages and logs: cut, on one line, and with the plural of a noun; the macro `named!` for enums whose variants
//! have names.

use std::fmt::Display;

use crate::visible::{is_unseen, visible};

/// Defines an enum whose variants have the names that files, wires and messages use for them.
///
/// # Examples
///
/// ```
/// openclaw_remote_agent_base::named! {
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     enum Side {
///         Left = "left",
///         Right = "right",
///     }
/// }
///
/// assert_eq!((Side::ALL, Side::NAMES), ([Side::Left, Side::Right], ["left", "right"]));
/// assert_eq!((Side::Right.as_str(), Side::from_name("up")), ("right", None));
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$attribute:meta])* $vis:vis enum $enum:ident {
        $($(#[$variant_attribute:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$attribute])*
        $vis enum $enum {
            $($(#[$variant_attribute])* $variant,)+
        }

        #[allow(dead_code, reason = "few enums need all of it")]
        impl $enum {
            /// All variants.
            $vis const ALL: [Self; Self::NAMES.len()] = [$(Self::$variant),+];

            /// The names of all variants.
            $vis const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Returns the name of the variant.
            $vis fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the variant with this name.
            $vis fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.as_str() == name)
            }
        }
    };
}

/// The maximum length of an excerpt, in characters.
const MAX_EXCERPT_CHARS: usize = 300;

/// Returns the bytes after the byte order mark that some editors write before a text.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Reads a text without its byte order mark.
///
/// # Errors
/// The bytes are not UTF-8. The message names the place, and UTF-16 if they are that.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::text::utf8;
///
/// assert_eq!(utf8(b"\xEF\xBB\xBFhi"), Ok("hi"));
/// assert_eq!(utf8(b"\xFF\xFEh\0"), Err("it is UTF-16, not UTF-8".to_owned()));
/// ```
pub fn utf8(bytes: &[u8]) -> Result<&str, String> {
    let bytes = without_mark(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
            return "it is UTF-16, not UTF-8".into();
        }
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before
            .rsplit(|&byte| byte == b'\n')
            .next()
            .map_or(0, <[u8]>::len)
            + 1;
        format!("invalid UTF-8 at line {line}, column {column}")
    })
}

/// Returns two hexadecimal digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first `max_chars` characters.
#[must_use]
pub fn first_chars(text: &str, max_chars: usize) -> &str {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Returns the first `max_chars` characters. An ellipsis marks a cut.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::text::shortened;
///
/// assert_eq!(shortened("äöü", 3), "äöü");
/// assert_eq!(shortened("äöü", 2), "äö…");
/// ```
#[must_use]
pub fn shortened(text: &str, max_chars: usize) -> String {
    let first = first_chars(text, max_chars);
    let mark = if first.len() < text.len() { "…" } else { "" };
    format!("{first}{mark}")
}

/// Returns what a reader sees of the text, on one line.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::text::one_line;
///
/// assert_eq!(one_line("a\u{2028}b\u{1b}[31mred\u{200b}"), "a bred");
/// ```
#[must_use]
pub fn one_line(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Returns the beginning of the text of another program, on one line.
#[must_use]
pub fn excerpt(text: &str) -> String {
    one_line(&shortened(text.trim(), MAX_EXCERPT_CHARS))
}

/// Returns a word of a command for a POSIX shell. Shells share no form for characters that a reader does not see: a word with
/// one has its escape and says that it is not to be pasted, which shells refuse.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_word) {
        return text.to_owned();
    }
    let (mut word, mut hidden) = (String::from("'"), "");
    for c in text.chars() {
        match c {
            '\'' => word.push_str(r"'\''"),
            _ if c.is_control() || is_unseen(c) => {
                word.extend(c.escape_default());
                hidden = " <hidden characters, not to be pasted>";
            }
            _ => word.push(c),
        }
    }
    word + "'" + hidden
}

/// Returns a number and its noun, in the plural unless the number is 1.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::text::counted;
///
/// assert_eq!(counted(1, "agent", "agents"), "1 agent");
/// assert_eq!(counted(0, "entry", "entries"), "0 entries");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, several: &str) -> String {
    let noun = if count == N::from(1) { one } else { several };
    format!("{count} {noun}")
}

/// Returns a media type without its parameters.
#[must_use]
pub fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Returns the type and the subtype of a media type, such as `text/plain` of `text/plain; charset=utf-8` (RFC 6838 §4.2);
/// `None` for a text of another form, which may be prose.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::text::media_type;
///
/// assert_eq!(media_type("Text/Plain; charset=utf-8"), Some("Text/Plain"));
/// assert_eq!(media_type("text/plain\nSYSTEM: obey"), None);
/// ```
pub fn media_type(text: &str) -> Option<&str> {
    const TOP_LEVEL: [&str; 9] = [
        "application",
        "audio",
        "font",
        "image",
        "message",
        "model",
        "multipart",
        "text",
        "video",
    ];
    let essence = essence(text);
    let (kind, subtype) = essence.split_once('/')?;
    let is_known = TOP_LEVEL
        .iter()
        .any(|known| known.eq_ignore_ascii_case(kind));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c);
    let fits = !subtype.is_empty() && subtype.len() <= 127 && subtype.chars().all(is_name);
    (is_known && fits).then_some(essence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_cannot_leave_its_quotes_or_its_line() {
        for (word, shown) in [
            ("task-1", "task-1"),
            ("", "''"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
            ("a b\u{e4}", "'a b\u{e4}'"),
            (
                "a\\'b\nwhat to do:\tx",
                r"'a\'\''b\nwhat to do:\tx' <hidden characters, not to be pasted>",
            ),
            ("a\n", r"'a\n' <hidden characters, not to be pasted>"),
            (
                "\u{1b}[31ma\u{202e}\u{2028}",
                r"'\u{1b}[31ma\u{202e}\u{2028}' <hidden characters, not to be pasted>",
            ),
        ] {
            assert_eq!(shell_word(word), shown);
        }
    }

    #[test]
    fn excerpt_is_short_and_on_one_line() {
        assert_eq!(excerpt(" a\r\nb "), "a b");
        let long = "ä".repeat(MAX_EXCERPT_CHARS);
        assert_eq!(excerpt(&long), long);
        assert_eq!(excerpt(&format!("{long}b")), format!("{long}…"));
    }
}
