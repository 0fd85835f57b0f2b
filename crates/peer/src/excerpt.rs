//! What somebody else wrote, inside a message of ours.

/// The most of it that is repeated.
const MAX_EXCERPT_CHARS: usize = 300;

/// The beginning of what somebody else wrote, on one line.
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
