//! Sanitizes text of agents for a terminal. Such text must not move the cursor, change colors or hide other text.

use std::borrow::Cow;

use common::confusables::is_ignorable;

/// Removes escape sequences and control characters, except line ends and tabs.
pub(super) fn block(text: &str) -> Cow<'_, str> {
    if !text
        .chars()
        .any(|c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\u{1b}' => after_escape(after),
            '\u{9b}' => after_control_sequence(after),
            '\u{2028}' | '\u{2029}' => {
                out.push('\n');
                after
            }
            _ => {
                if !is_unsafe(c) || matches!(c, '\n' | '\t') {
                    out.push(c);
                }
                after
            }
        };
    }
    Cow::Owned(out)
}

/// Sanitizes like [`block`], and replaces each run of white space with a space.
pub(super) fn line(text: &str) -> String {
    block(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell. Suggested commands contain ids that agents chose.
pub(super) fn shell(word: &str) -> String {
    let word = block(word);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns whether a character is a control character, is invisible, reorders text, or breaks lines in some programs.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || is_ignorable(c)
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns the text after an escape sequence, given the text after its escape character (ECMA-48 §5.3 and §8.3).
fn after_escape(rest: &str) -> &str {
    let Some(kind) = rest.chars().next() else {
        return rest;
    };
    let after = &rest[kind.len_utf8()..];
    match kind {
        '[' => after_control_sequence(after),
        ']' | 'P' | 'X' | '^' | '_' => after_string(after),
        '\u{20}'..='\u{2f}' => {
            let end = after.trim_start_matches(|c| matches!(c, '\u{20}'..='\u{2f}'));
            end.strip_prefix(|c| matches!(c, '\u{30}'..='\u{7e}'))
                .unwrap_or(end)
        }
        '\u{30}'..='\u{7e}' => after,
        _ => rest,
    }
}

fn after_control_sequence(rest: &str) -> &str {
    let end = rest.trim_start_matches(|c| matches!(c, '\u{20}'..='\u{3f}'));
    end.strip_prefix(|c| matches!(c, '\u{40}'..='\u{7e}'))
        .unwrap_or(end)
}

/// Skips a command string. Without a terminator on the same line it is plain text, so that no text of an agent is lost.
fn after_string(rest: &str) -> &str {
    let line_end = rest.find('\n').unwrap_or(rest.len());
    let bell = rest.find('\u{7}').map(|at| (at, 1));
    let terminator = rest.find("\u{1b}\\").map(|at| (at, 2));
    let end = [bell, terminator].into_iter().flatten().min();
    match end {
        Some((at, length)) if at < line_end => &rest[at + length..],
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_cursor_movements_go() {
        let text = "a\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]8;;http://x\u{1b}\\c\u{1b}cd\u{9b}2Je\u{1b}(0f";
        assert_eq!(block(text), "ared bcdef");
    }

    #[test]
    fn control_characters_are_removed_and_line_ends_stay() {
        assert_eq!(
            block("one\r\ntwo\rthree\u{8}\u{7}\n\tfour"),
            "one\ntwothree\n\tfour"
        );
    }

    #[test]
    fn text_is_not_reordered() {
        assert_eq!(block("user\u{202e}nimda\u{2066}!"), "usernimda!");
    }

    #[test]
    fn characters_that_are_not_shown_are_removed() {
        let text = "pay \u{61c}A\u{200b}\u{2060}\u{e0041}\u{3164}\u{fe0f}\u{fff9}B";
        assert_eq!(block(text), "pay AB");
    }

    #[test]
    fn unfinished_escape_sequence_hides_no_text() {
        assert_eq!(block("a\u{1b}]0;the rest\nb"), "a0;the rest\nb");
        assert_eq!(block("a\u{1b}"), "a");
        assert_eq!(block("a\u{1b}[31"), "a");
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(block("Grüße\n\t日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_has_single_spaces() {
        assert_eq!(line(" a\n\n b\u{2028}c\t d "), "a b c d");
    }

    #[test]
    fn ids_cannot_leave_their_quotes() {
        assert_eq!(shell("task-1"), "task-1");
        assert_eq!(shell("$(reboot)"), "'$(reboot)'");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell(""), "''");
    }
}
