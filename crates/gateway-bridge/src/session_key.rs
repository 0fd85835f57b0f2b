//! Maps the context id of an A2A conversation to a session id of OpenClaw.
//!
//! OpenClaw accepts session ids of the form `[a-z0-9][a-z0-9_-]{0,63}`; a context id is any text. The session id is
//! `a2a-` and the context id, with `:` and `/` replaced by `-`:
//!
//! | context id | session id |
//! |---|---|
//! | `550e8400-e29b-41d4-a716-446655440000` | `a2a-550e8400-e29b-41d4-a716-446655440000` |
//! | `user:123/session:456` | `a2a-user-123-session-456` |
//! | `my_context_123` | `a2a-my_context_123` |
//! | `My context` | `a2a-my-context-` and 20 hexadecimal digits |
//!
//! A context id that needs other changes ends with a hash of the whole id, so that two such ids never share a session.
//! Such changes are capitals, other characters, repeated or outer hyphens, and more than 60 characters. Nothing is
//! stored: the same context id always maps to the same session.

use base::text::hex;
use ring::digest::{Context, SHA256};

/// The prefix of the session ids of conversations.
pub const PREFIX: &str = "a2a-";

/// The maximum length of a session id without the prefix.
const MAX_SLUG_CHARS: usize = 60;

/// The number of hexadecimal digits of the hash: 80 bits.
const HASH_HEX_DIGITS: usize = 20;

/// Returns the session id of a context id.
pub fn session_id(context_id: &str) -> String {
    let slug = slug_of(context_id);
    if slug.len() <= MAX_SLUG_CHARS && differs_only_in_separators(context_id, &slug) {
        return format!("{PREFIX}{slug}");
    }
    with_hash(&slug, &[context_id])
}

/// Returns the session id of a context id that a client chose. The hash covers the client's name and the context id,
/// each with its length. So no context id leads to a session of another client.
pub fn session_id_of_client(client: &str, context_id: &str) -> String {
    let slug = slug_of(&format!("{client}-{context_id}"));
    with_hash(&slug, &[client, context_id])
}

/// Returns the session key: the agent's name and the session id.
pub fn session_key(agent: &str, session_id: &str) -> String {
    format!("agent:{agent}:{session_id}")
}

/// Returns the key of a session that `openclaw agent --session-id` starts or continues.
pub fn explicit_key(agent: &str, session_id: &str) -> String {
    format!("agent:{agent}:explicit:{session_id}")
}

/// Returns a context id that leads to the given session. It may be spelled differently from the first one.
/// `None` for a session that is not an A2A conversation.
pub fn context_id(session_key: &str) -> Option<&str> {
    let (_agent, session_id) = session_key.strip_prefix("agent:")?.split_once(':')?;
    let slug = session_id.strip_prefix(PREFIX)?;
    (self::session_id(slug) == session_id).then_some(slug)
}

/// Returns the text in lower case, with `-` for each run of other characters and none at the ends.
fn slug_of(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    let mut replaced = false;
    let mut add = |c: char| {
        let allowed = c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        match (allowed, replaced) {
            (true, _) => slug.push(c),
            (false, false) => slug.push('-'),
            (false, true) => {}
        }
        replaced = !allowed;
    };
    for c in text.chars() {
        match c.is_ascii() {
            true => add(c.to_ascii_lowercase()),
            false => c.to_lowercase().for_each(&mut add),
        }
    }
    slug.trim_matches('-').to_owned()
}

/// Returns whether only single `:` and `/` were replaced.
fn differs_only_in_separators(text: &str, slug: &str) -> bool {
    !slug.is_empty()
        && text.len() == slug.len()
        && text
            .bytes()
            .zip(slug.bytes())
            .all(|(was, is)| was == is || (matches!(was, b':' | b'/') && is == b'-'))
}

fn with_hash(slug: &str, hashed: &[&str]) -> String {
    let mut context = Context::new(&SHA256);
    for text in hashed {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    let hash = hex(&context.finish().as_ref()[..HASH_HEX_DIGITS / 2]);
    // The slug is ASCII, so every byte is a character boundary.
    let room = slug.len().min(MAX_SLUG_CHARS - HASH_HEX_DIGITS - 1);
    match slug[..room].trim_end_matches('-') {
        "" => format!("{PREFIX}{hash}"),
        readable => format!("{PREFIX}{readable}-{hash}"),
    }
}

#[cfg(test)]
mod tests;
