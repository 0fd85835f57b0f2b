//! Excerpts of the text of a peer, for error messages.

/// The maximum length of an excerpt, in characters.
const MAX_EXCERPT_CHARS: usize = 300;

/// Returns the beginning of a peer's text, on one line.
pub fn excerpt(text: &str) -> String {
    let clean = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(MAX_EXCERPT_CHARS + 1).collect();
    if let Some((end, _)) = short.char_indices().nth(MAX_EXCERPT_CHARS) {
        short.truncate(end);
        short.push('…');
    }
    short
}
