//! What somebody else wrote, inside a message of ours.

/// The most of it that is repeated, in characters.
const QUOTED: usize = 300;

/// The beginning of what somebody else wrote, on one line.
pub fn quoted(text: &str) -> String {
    let clean = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(QUOTED + 1).collect();
    if let Some((end, _)) = short.char_indices().nth(QUOTED) {
        short.truncate(end);
        short.push('…');
    }
    short
}
