//! Sanitizes text of agents for a terminal. Such text must not move the cursor, change colors or hide other text.

pub(super) use base::visible::visible as block;

/// Removes what is hidden like [`block`], and replaces each run of white space with a space.
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

#[cfg(test)]
mod tests {
    use super::*;

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
