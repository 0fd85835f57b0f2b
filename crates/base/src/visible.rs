//! What a reader sees of a text: the one definition of what is hidden.
//!
//! Terminals and models show neither control characters nor control sequences (ECMA-48) nor the characters that Unicode
//! calls ignorable. Whatever removes them, and whatever looks for a text behind them, uses this module: a secret that is
//! interrupted by hidden characters is shown whole once something removes them.

use std::borrow::Cow;

use crate::confusables::is_ignorable;

/// The longest parameters of a control sequence and the longest control string, in bytes. What is longer is text, which
/// bounds the work on a text that only resembles one.
const MAX_PARAMETER_BYTES: usize = 64;
const MAX_STRING_BYTES: usize = 1024;

/// What a text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A character that a reader sees.
    Visible,
    /// The end of a line that is not written as a line feed.
    LineEnd,
    /// A control character, a control sequence or an ignorable character.
    Hidden,
}

/// The beginning of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// The length in bytes.
    pub(crate) len: usize,
    /// Whether more text could make this a longer control sequence.
    pub(crate) is_unfinished: bool,
}

/// Returns the character or the sequence that `text` begins with; `None` if it is empty.
pub(crate) fn step(text: &str) -> Option<Step> {
    let character = character(text)?;
    let after = &text[character.len..];
    let sequence = match text.chars().next()? {
        '\u{1b}' => after_escape(after),
        '\u{9b}' => after_parameters(after),
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => after_string(after),
        _ => End::At(0),
    };
    let (more, is_unfinished) = match sequence {
        End::At(bytes) => (bytes, false),
        End::Unknown(bytes) => (bytes, true),
    };
    Some(Step {
        len: character.len + more,
        is_unfinished,
        ..character
    })
}

/// Returns the character that `text` begins with, as programs show it that remove control characters and know no sequences.
pub(crate) fn character(text: &str) -> Option<Step> {
    let c = text.chars().next()?;
    let kind = match c {
        '\r' if text[1..].starts_with('\n') => Kind::Hidden,
        '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => Kind::LineEnd,
        '\n' | '\t' => Kind::Visible,
        _ if c.is_control() || is_hidden(c) => Kind::Hidden,
        _ => Kind::Visible,
    };
    Some(Step {
        kind,
        len: c.len_utf8(),
        is_unfinished: false,
    })
}

/// Removes what is hidden. Line ends become line feeds; tabs stay.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::visible::visible;
///
/// assert_eq!(visible("a\u{1b}[31mred\u{1b}[0m\u{200b}\r\nb"), "ared\nb");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_all_visible(text) && !text.contains(['\r', '\u{2028}', '\u{2029}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for (kind, piece) in pieces(text) {
        match kind {
            Kind::Visible => out.push_str(piece),
            Kind::LineEnd => out.push('\n'),
            Kind::Hidden => {}
        }
    }
    Cow::Owned(out)
}

/// Returns whether a character, which is no ASCII, is hidden or ends a line.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::visible::is_unseen;
///
/// assert!(is_unseen('\u{2028}') && is_unseen('\u{202e}') && !is_unseen('é'));
/// ```
#[must_use]
pub fn is_unseen(c: char) -> bool {
    !c.is_ascii() && (matches!(c, '\u{2028}' | '\u{2029}') || is_hidden(c))
}

fn is_hidden(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{fff9}'..='\u{fffb}') || is_ignorable(c)
}

/// Returns whether nothing in the text is hidden. Takes a carriage return for a line end.
pub(crate) fn is_all_visible(text: &str) -> bool {
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f);
    // Without a branch for each byte: redaction looks at every text of an event.
    let has_control = |chunk: &[u8]| chunk.iter().fold(false, |any, byte| any | is_control(byte));
    if text.as_bytes().chunks(64).any(has_control) {
        return false;
    }
    text.is_ascii() || !text.contains(is_hidden)
}

/// Returns the text in pieces of one kind each, a character or a sequence.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = (Kind, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let step = step(rest)?;
        let (piece, after) = rest.split_at(step.len);
        rest = after;
        Some((step.kind, piece))
    })
}

/// The end of a control sequence after its introducer, in bytes that belong to it.
enum End {
    /// The sequence is complete, or the text is none: then only the introducer is hidden.
    At(usize),
    /// The text ends before the sequence does. Without more text, only the introducer is hidden, with these bytes.
    Unknown(usize),
}

impl End {
    fn after(self, introducer: usize) -> Self {
        match self {
            Self::At(bytes) => Self::At(bytes + introducer),
            Self::Unknown(bytes) => Self::Unknown(bytes + introducer),
        }
    }
}

/// Finds the end of an escape sequence (ECMA-48, sections 5.3 and 8.3).
fn after_escape(rest: &str) -> End {
    let Some(&kind) = rest.as_bytes().first() else {
        return End::Unknown(0);
    };
    match kind {
        b'[' => after_parameters(&rest[1..]).after(1),
        b']' | b'P' | b'X' | b'^' | b'_' => after_string(&rest[1..]).after(1),
        0x20..=0x2f => {
            let intermediate = rest.bytes().take(MAX_PARAMETER_BYTES);
            let intermediate = intermediate.take_while(|byte| matches!(byte, 0x20..=0x2f));
            let end = intermediate.count();
            match rest.as_bytes().get(end) {
                Some(0x30..=0x7e) => End::At(end + 1),
                Some(_) => End::At(0),
                None => End::Unknown(0),
            }
        }
        0x30..=0x7e => End::At(1),
        _ => End::At(0),
    }
}

/// Finds the end of a control sequence (ECMA-48, section 5.4).
fn after_parameters(rest: &str) -> End {
    let parameters = rest.bytes().take(MAX_PARAMETER_BYTES);
    let end = parameters
        .take_while(|byte| matches!(byte, 0x20..=0x3f))
        .count();
    match rest.as_bytes().get(end) {
        Some(0x40..=0x7e) => End::At(end + 1),
        None if end < MAX_PARAMETER_BYTES => End::Unknown(0),
        _ => End::At(0),
    }
}

/// Finds the end of a control string. Without a terminator on the same line it is plain text, so that no text is lost.
fn after_string(rest: &str) -> End {
    let bytes = rest.as_bytes();
    let window = &bytes[..bytes.len().min(MAX_STRING_BYTES)];
    for (at, byte) in window.iter().enumerate() {
        match byte {
            b'\n' => return End::At(0),
            0x07 => return End::At(at + 1),
            0x1b if bytes.get(at + 1) == Some(&b'\\') => return End::At(at + 2),
            // U+009C in UTF-8.
            0x9c if at > 0 && bytes[at - 1] == 0xc2 => return End::At(at + 1),
            _ => {}
        }
    }
    match window.len() == bytes.len() && bytes.len() < MAX_STRING_BYTES {
        true => End::Unknown(0),
        false => End::At(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequences_and_strings_are_hidden() {
        let text = "a\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]8;;http://x\u{1b}\\c\u{1b}cd\u{9b}2Je\u{1b}(0f\u{9d}t\u{9c}g\u{1b}P1$r\u{1b}\\h";
        assert_eq!(visible(text), "ared bcdefgh");
    }

    #[test]
    fn line_ends_become_line_feeds() {
        assert_eq!(
            visible("one\r\ntwo\rthree\u{8}\u{7}\n\tfour\u{85}five\u{2028}six\u{2029}"),
            "one\ntwo\nthree\n\tfour\nfive\nsix\n"
        );
    }

    #[test]
    fn ignorable_and_reordering_characters_are_hidden() {
        assert_eq!(visible("user\u{202e}nimda\u{2066}!"), "usernimda!");
        let text = "pay \u{61c}A\u{200b}\u{2060}\u{e0041}\u{3164}\u{fe0f}\u{fff9}B\u{0}\u{7f}";
        assert_eq!(visible(text), "pay AB");
    }

    #[test]
    fn unfinished_sequence_hides_no_text() {
        for (text, expected) in [
            ("a\u{1b}]0;the rest\nb\u{7}", "a0;the rest\nb"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[31", "a31"),
            ("a\u{1b}[日", "a日"),
            ("a\u{1b}日", "a日"),
            ("a\u{1b}(日", "a(日"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
        let long = format!("\u{1b}]{}\u{7}", "x".repeat(MAX_STRING_BYTES));
        assert_eq!(visible(&long).len(), MAX_STRING_BYTES);
        let long = format!("\u{1b}[{}m", "1".repeat(MAX_PARAMETER_BYTES + 1));
        assert_eq!(visible(&long).len(), MAX_PARAMETER_BYTES + 2);
    }

    #[test]
    fn visible_text_is_borrowed() {
        assert!(matches!(
            visible("Grüße\n\t日本 e\u{301}"),
            Cow::Borrowed(_)
        ));
    }

    proptest! {
        #[test]
        fn nothing_hidden_remains_but_what_a_removal_joins(text in any::<String>()) {
            let shown = visible(&text);
            prop_assert!(is_all_visible(&shown), "{:?}", shown);
            prop_assert!(shown.len() <= text.len());
            prop_assert_eq!(pieces(&text).map(|(_, piece)| piece).collect::<String>(), text.clone());
        }

        #[test]
        fn fast_check_agrees_with_the_pieces(text in "[a\u{0}\r\n\t\u{1b}\\[m\u{200b}\u{85}\u{9b}é]{0,8}") {
            let hidden = pieces(&text).any(|(kind, piece)| kind == Kind::Hidden && piece != "\r");
            let line_end = text.contains('\u{85}');
            prop_assert_eq!(is_all_visible(&text), !hidden && !line_end);
        }
    }
}
