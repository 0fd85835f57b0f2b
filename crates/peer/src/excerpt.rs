//! Excerpts of the text of a peer, for error messages.

/// The most of it that is repeated.
const MAX_EXCERPT_CHARS: usize = 300;

/// Returns the beginning of a text of a peer, on one line.
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
