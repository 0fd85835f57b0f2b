//! The built-in profiles.

use std::io;

use serde_json::Value;

/// The names and scripts of the profiles: real gateways, and one that violates the protocol everywhere.
pub const PROFILES: &[(&str, &str)] = &[
    (
        "reference-11.2",
        include_str!("../../../../fixtures/gateway/reference-11.2.json"),
    ),
    (
        "heretek-js",
        include_str!("../../../../fixtures/gateway/heretek-js.json"),
    ),
    (
        "openclaw",
        include_str!("../../../../fixtures/gateway/openclaw.json"),
    ),
    (
        "hostile",
        include_str!("../../../../fixtures/gateway/hostile.json"),
    ),
];

/// Returns the profile of this name.
///
/// # Errors
/// `NotFound` for an unknown name; the message lists the known ones.
pub fn profile(name: &str) -> io::Result<Value> {
    let profile = PROFILES
        .iter()
        .find(|(profile_name, _)| *profile_name == name);
    let Some((_, text)) = profile else {
        let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("unknown profile `{name}`; use one of {}", names.join(", ")),
        ));
    };
    serde_json::from_str(text).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("profile {name}: {error}"),
        )
    })
}
