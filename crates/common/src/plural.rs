//! Numbers with their nouns, for messages.

use std::fmt::Display;

/// Returns a number and its noun, in the plural unless the number is 1.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_common::plural::counted;
///
/// assert_eq!(counted(1, "agent", "agents"), "1 agent");
/// assert_eq!(counted(0, "entry", "entries"), "0 entries");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, several: &str) -> String {
    let noun = if count == N::from(1) { one } else { several };
    format!("{count} {noun}")
}
