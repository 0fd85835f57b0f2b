//! What a peer writes is for the agent to read, and never a command to OpenClaw.
//!
//! OpenClaw 2026.9.6 looks at a message before the agent does. A `/` in front is a command: `/new` and `/reset` throw the
//! session away (with the rights of an operator, which the command `openclaw agent` takes for itself), `/NAME` and `$NAME`
//! call up a skill of the operator, and the command refuses `/compact`. It looks for `$NAME` everywhere, unless the message
//! begins with a `/`; `//` begins no command. So a message in which it would find any of this gets a line in front that
//! begins with `//` and says what it does; the peer's own words stay as they are. Session keys in a message mean nothing
//! to it: the session is named beside the message.

use std::borrow::Cow;

/// What stands before a message in which something looks like a command.
const LINE: &str = "// Text of an A2A peer. Slash commands and $references in it have no effect.";

/// The line that has to stand before `text` for nothing in it to be a command; `None` where nothing is.
pub(super) fn line_before(text: &str) -> Option<&'static str> {
    (text.trim_start().starts_with('/') || refers(text)).then_some(LINE)
}

/// `text` with that line before it, where it needs one.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    match line_before(text) {
        Some(line) => format!("{line}\n\n{text}").into(),
        None => text.into(),
    }
}

/// `$` and a name stand in it somewhere.
fn refers(text: &str) -> bool {
    let named = |rest: &str| {
        let first = rest.bytes().next();
        first.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
    };
    text.match_indices('$')
        .any(|(at, _)| named(&text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_front_gets_a_line_before_it() {
        for text in ["/new", " \n/reset now", "/some-skill", "//x"] {
            let sent = harmless(text);
            assert!(sent.starts_with("// ") && sent.ends_with(text), "{sent}");
        }
    }

    #[test]
    fn a_reference_anywhere_gets_a_line_before_the_message() {
        for text in ["use $deploy", "a\n$x", "$a:b"] {
            assert!(harmless(text).starts_with("// "), "{text}");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "say /new to him",
            "-x",
            "it costs $ 5",
            "--local",
            "agent:main:main",
            "${HOME}",
            "",
        ] {
            assert_eq!(harmless(text), text);
        }
    }
}
