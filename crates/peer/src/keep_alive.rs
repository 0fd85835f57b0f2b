//! The names under which peers send what only keeps a connection open.

const NAMES: [&str; 5] = ["ping", "pong", "heartbeat", "keepalive", "keep-alive"];

/// Returns whether a frame or an event with this name only keeps the connection open. No protocol defines these names.
#[must_use]
pub fn is_keep_alive(name: &str) -> bool {
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}
