//! The servers with their bindings and versions.

use std::fmt;

use serde_json::{Value, json};

use crate::openclaw;
use crate::peer::Peer;
use crate::sdk::{self, Sdk};

/// The binding to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    /// Returns its name in cards and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// The product of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    Sdk(Sdk),
    /// The channel `a2a` in OpenClaw.
    OpenClaw,
}

/// A server with a binding and a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Column {
    pub vendor: Vendor,
    /// The mode of the server: both versions (`hybrid`), or a single one.
    pub flavour: &'static str,
    pub binding: Binding,
    pub version: &'static str,
}

/// Returns every column, in the order of the table.
pub fn columns() -> Vec<Column> {
    let flavours = [
        (Vendor::Sdk(Sdk::Py13), "1.0", "1.0"),
        (Vendor::Sdk(Sdk::Py13), "hybrid", "1.0"),
        (Vendor::Sdk(Sdk::Py13), "hybrid", "0.3"),
        (Vendor::Sdk(Sdk::Js13), "1.0", "1.0"),
        (Vendor::Sdk(Sdk::Js13), "hybrid", "1.0"),
        (Vendor::Sdk(Sdk::Js13), "hybrid", "0.3"),
        (Vendor::Sdk(Sdk::Rs05), "1.0", "1.0"),
        (Vendor::OpenClaw, "1.0", "1.0"),
        (Vendor::Sdk(Sdk::Py03), "0.3", "0.3"),
        (Vendor::Sdk(Sdk::Js03), "0.3", "0.3"),
    ];
    let both = [Binding::JsonRpc, Binding::HttpJson];
    let columns = flavours.into_iter().flat_map(|(vendor, flavour, version)| {
        let column = move |binding| Column {
            vendor,
            flavour,
            binding,
            version,
        };
        both.map(column)
    });
    let offered =
        |column: &Column| column.vendor != Vendor::OpenClaw || column.binding == Binding::JsonRpc;
    columns.filter(offered).collect()
}

impl Column {
    /// Returns the server's name.
    pub fn server(self) -> &'static str {
        match self.vendor {
            Vendor::Sdk(sdk) => sdk.name(),
            Vendor::OpenClaw => "openclaw",
        }
    }

    /// Returns the package, with its version.
    pub fn package(self) -> &'static str {
        match self.vendor {
            Vendor::Sdk(sdk) => sdk.pins()[0],
            Vendor::OpenClaw => openclaw::PACKAGE,
        }
    }

    /// Returns a plugin for this server, and starts the server if necessary.
    pub fn peer(self) -> Peer {
        let (origin, auth) = match self.vendor {
            Vendor::Sdk(sdk) => (sdk::server(sdk).origin(self.flavour), None),
            Vendor::OpenClaw => {
                let gateway = openclaw::gateway();
                (gateway.origin.clone(), Some(openclaw::credential()))
            }
        };
        let mut target = json!({
            "alias": "peer",
            "baseUrl": origin,
            "preferredTransports": [self.binding.name()],
            "protocolVersion": self.version,
        });
        if let Some(auth) = auth {
            target["auth"] = auth;
        }
        Peer::new(self, &config(&target))
    }
}

/// Returns settings with one target, and timeouts for a busy machine.
pub fn config(target: &Value) -> Value {
    json!({"enabled": true, "targets": [target], "limits": {"waitMs": 85_000}})
}

impl fmt::Display for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hybrid = if self.flavour == "hybrid" {
            " hybrid"
        } else {
            ""
        };
        let binding = match self.binding {
            Binding::JsonRpc => "JSON-RPC",
            Binding::HttpJson => "HTTP+JSON",
        };
        write!(
            formatter,
            "{}{hybrid} {binding} {}",
            self.server(),
            self.version
        )
    }
}
