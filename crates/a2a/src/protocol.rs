//! The bindings and versions of A2A.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text::spell;

/// A transport of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// HTTP with JSON bodies.
    HttpJson,
    /// gRPC, which is not supported.
    Grpc,
    /// The local gateway, over WebSocket.
    Gateway,
}

impl Transport {
    /// The supported transports of A2A.
    pub const SUPPORTED: [Self; 2] = [Self::JsonRpc, Self::HttpJson];

    /// Returns its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
            Self::Gateway => "GATEWAY",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Transport {
    type Err = ();

    /// Parses the name in a card, in any spelling.
    fn from_str(name: &str) -> Result<Self, ()> {
        // The names of the specification need no copy.
        if let Some(transport) = Self::SUPPORTED.into_iter().find(|t| t.as_str() == name) {
            return Ok(transport);
        }
        let name = spell(name.trim()).replace('+', "");
        // Python writes the class of an enum before its value.
        match name.strip_prefix("transportprotocol").unwrap_or(&name) {
            "jsonrpc" => Ok(Self::JsonRpc),
            "httpjson" | "rest" => Ok(Self::HttpJson),
            "grpc" => Ok(Self::Grpc),
            "gateway" => Ok(Self::Gateway),
            _ => Err(()),
        }
    }
}

/// A supported version of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    /// A2A 0.3.
    #[serde(rename = "0.3")]
    V0_3,
    /// A2A 1.0.
    #[serde(rename = "1.0")]
    V1_0,
}

impl Version {
    /// Returns the name of the version in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }

    /// Parses the version of a card by its first two numbers (A2A 1.0 §3.6). Returns `None` for an unsupported one. Earlier
    /// versions count as 0.3, because their cards and calls are nearly the same.
    ///
    /// # Errors
    /// The text is not a version.
    pub fn declared(text: &str) -> Result<Option<Self>, NoVersion> {
        let mut numbers = text.trim().trim_start_matches(['v', 'V']).split('.');
        let mut number = || numbers.next().map(str::parse::<u32>);
        let (Some(Ok(major)), None | Some(Ok(_))) = (number(), number()) else {
            return Err(NoVersion);
        };
        Ok(match major {
            0 => Some(Self::V0_3),
            1 => Some(Self::V1_0),
            _ => None,
        })
    }
}

/// The error for a text that is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoVersion;

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A JSON form of A2A. 1.0 has one for all bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The form of 1.0.
    V1_0,
    /// A form of 0.3.
    V0_3(V03Dialect),
}

/// One of the two JSON forms of 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V03Dialect {
    /// The form over JSON-RPC: `kind`, `parts`, `completed`.
    Rpc,
    /// The form over HTTP+JSON, from the protobuf definition: `content`, `TASK_STATE_COMPLETED`.
    Rest,
}

impl Dialect {
    /// Returns the dialect of `version` over `transport`.
    pub fn new(version: Version, transport: Transport) -> Self {
        match (version, transport) {
            (Version::V1_0, _) => Self::V1_0,
            (Version::V0_3, Transport::HttpJson) => Self::V0_3(V03Dialect::Rest),
            (Version::V0_3, _) => Self::V0_3(V03Dialect::Rpc),
        }
    }

    /// Returns its version.
    pub fn version(self) -> Version {
        match self {
            Self::V1_0 => Version::V1_0,
            Self::V0_3(_) => Version::V0_3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_is_read_in_every_spelling() {
        for (name, transport) in [
            ("http_json", Ok(Transport::HttpJson)),
            ("TransportProtocol.jsonrpc", Ok(Transport::JsonRpc)),
            ("TransportProtocol.http_json", Ok(Transport::HttpJson)),
            ("TransportProtocol", Err(())),
        ] {
            assert_eq!(name.parse::<Transport>(), transport, "{name}");
        }
    }

    #[test]
    fn version_ignores_the_patch_number() {
        for (text, version) in [
            ("0.3", Some(Version::V0_3)),
            ("0.3.0", Some(Version::V0_3)),
            ("0.2.5", Some(Version::V0_3)),
            ("1", Some(Version::V1_0)),
            (" 1.0.0 ", Some(Version::V1_0)),
            ("v1.0", Some(Version::V1_0)),
            ("2.0", None),
        ] {
            assert_eq!(Version::declared(text), Ok(version), "{text}");
        }
        for text in ["", "latest", "1.x", "."] {
            assert_eq!(Version::declared(text), Err(NoVersion), "{text}");
        }
    }
}
