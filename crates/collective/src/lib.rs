//! The protocol `a2a-v1` of a local collective: a gateway, the agents behind it, and a triad that votes.
//!
//! The crate does no I/O. It defines the envelope of a message, the message types with their required fields, the
//! registry of errors, and the count of votes. The bridge (`crates/gateway-bridge`) speaks the protocol as a client, the
//! reference gateway (`crates/gateway`) as a server.
//!
//! A frame arrives as text: `envelope.rs` parses it, `kind.rs` has its type, `validate.rs` the fields of the type, and
//! `error.rs` the answer to a frame that breaks a rule. `signature.rs` signs messages and verifies signatures. `tally.rs` counts votes, `name.rs` checks names, and `translate/`
//! converts messages to and from A2A.
//!
//! Sizes are in bytes and durations in milliseconds. A frame that breaks a rule gives [`EnvelopeError`], with an
//! [`ErrorCode`] of the registry.
//!
//! # Examples
//! ```
//! use openclaw_remote_agent_collective::{Envelope, ErrorCode, Kind};
//!
//! let envelope = Envelope::parse(r#"{"type": "message", "content": {}}"#).unwrap();
//! assert_eq!(envelope.kind(), Kind::Message);
//!
//! let error = Envelope::parse("{}").unwrap_err();
//! assert_eq!(error.code, ErrorCode::MissingField);
//! ```

#![forbid(unsafe_code)]

mod envelope;
mod error;
mod kind;
mod name;
pub mod signature;
mod tally;
pub mod translate;
mod validate;

pub use envelope::{Envelope, EnvelopeError, FRAME_LIMITS, GATEWAY, StatedError, text_of};
pub use error::{CloseCode, ErrorCode};
pub use kind::{AgentStatus, Channel, Greeting, Kind};
pub use name::imitates_marker;
pub use signature::SignatureStatus;
pub use tally::{
    Decision, MAJORITY, Quorum, Standing, Tally, TriadConfig, Vote, VoteRejection, standing,
};
pub use validate::validate;

/// The subprotocol that clients offer, and the name of the dialect (Heretek A2A §3.4).
pub const SUBPROTOCOL: &str = "a2a-v1";

/// The version that both sides send each other (Heretek A2A §5.2, §5.3).
pub const PROTOCOL_VERSION: &str = "1.0.0";

/// Returns whether both sides are compatible: `version`, that of the other side, has the major version of
/// [`PROTOCOL_VERSION`].
pub fn is_compatible(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next();
    major == PROTOCOL_VERSION.split('.').next()
}

/// The largest frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// The maximum number of agents that one connection serves.
pub const MAX_SERVED_AGENTS: usize = 256;

/// The metadata field by which a gateway asks the connection of a link to confirm that the other gateway has the message.
pub const CONFIRM: &str = "confirm";
