//! The depth of delegation: how many agents passed the work on before it reaches a peer.
//!
//! Every message carries `{"hop", "chain"}` in its metadata under [`METADATA_KEY`]. `hop` counts the delegations up to
//! and including this message, so it is 1 for a sender with work of its own. `chain` identifies the chain. An agent
//! that receives the message and delegates further sends `hop` + 1 under the same `chain`.
//!
//! The host supplies the delegation of a session. Some hosts send it with each call. For OpenClaw, `file.rs` stores it
//! by session key in a file of the state directory, and `lookup.rs` reads it.

mod file;
mod lookup;

use serde_json::{Value, json};
use uuid::Uuid;

pub use file::{DelegationFile, MAX_SESSION_KEY_BYTES, MAX_SESSIONS};
pub use lookup::DelegationLookup;

/// The metadata key of a delegation.
pub const METADATA_KEY: &str = "openclaw-remote-agent/delegation";

/// The maximum length of a chain id that is passed on, in bytes. A longer id is ignored.
const MAX_CHAIN_BYTES: usize = 128;

/// The position of a message in a chain of delegations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The number of delegations, this message included.
    pub hop: u64,
    /// The id of the chain, if known.
    pub chain: Option<String>,
}

impl Delegation {
    /// Reads `{"hop", "chain"}`; `None` if `hop` is not a whole number. An invalid `chain` is ignored.
    /// Accepts numbers such as `1.0`, which protobuf produces.
    pub fn read(value: &Value) -> Option<Self> {
        let hop = base::json::whole_number(value.get("hop")?)?;
        let chain = value.get("chain").and_then(Value::as_str);
        let chain = chain.filter(|name| is_name(name)).map(str::to_owned);
        Some(Self { hop, chain })
    }

    /// Returns the delegation of the next message. `incoming` is the delegation of the message that the sender works on.
    /// `fresh` creates the id of a new or unnamed chain, as 32 hexadecimal digits.
    pub fn next(incoming: Option<Self>, fresh: impl FnOnce() -> Uuid) -> Self {
        let (hop, chain) = incoming.map_or((0, None), |known| (known.hop, known.chain));
        Self {
            hop: hop.saturating_add(1),
            chain: chain.or_else(|| Some(fresh().simple().to_string())),
        }
    }

    /// Returns the delegation in the format of message metadata.
    pub fn json(&self) -> Value {
        match &self.chain {
            Some(chain) => json!({ "hop": self.hop, "chain": chain }),
            None => json!({ "hop": self.hop }),
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_CHAIN_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
