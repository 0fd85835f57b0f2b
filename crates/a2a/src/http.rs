//! Headers, media types and well-known paths of A2A over HTTP (A2A 1.0 §3.6, §8.2, §11.1, §14.2).

use http::HeaderName;

/// The header that names the version of a request; a request without it is one of 0.3.
pub const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");

/// The header with the extensions that a client activates, and in a response those that are active (A2A 1.0 §3.2.6).
pub const EXTENSIONS_HEADER: HeaderName = HeaderName::from_static("a2a-extensions");

/// The name of [`EXTENSIONS_HEADER`] in 0.3.
pub const OLD_EXTENSIONS_HEADER: HeaderName = HeaderName::from_static("x-a2a-extensions");

/// The header of a push notification with the token that its webhook was registered with.
pub const NOTIFICATION_TOKEN_HEADER: HeaderName =
    HeaderName::from_static("x-a2a-notification-token");

/// The media type of JSON-RPC, and of HTTP+JSON in 0.3.
pub const JSON: &str = "application/json";

/// The media type of HTTP+JSON in 1.0.
pub const A2A_JSON: &str = "application/a2a+json";

/// The path of an agent card below the URL of its agent.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";

/// The path of an agent card before 0.3.0.
pub const OLD_CARD_PATH: &str = "/.well-known/agent.json";
