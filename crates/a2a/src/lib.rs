//! The A2A protocol without I/O: the types and tables that client and server share.
//!
//! - [`Operation`] and [`Resource`] are the tables of methods and paths, [`http`] that of headers and media types,
//!   [`ErrorReason`] that of errors.
//! - [`Task`], [`Message`] and [`Event`] hold an agent's answer as JSON with the member names of A2A 0.3. They keep unknown
//!   members. One reader serves every version and binding, because servers mix them (`decode_response.rs`); a
//!   [`Dialect`] says which version and binding a message came in.
//! - [`SendRequest`] is a client's request, and [`SendParams`] writes it in a dialect (`request/`).
//! - [`Usage`] is what an agent says that its work used.
//! - With the feature `types`, `v1_0` has the values that a server stores, `v0_3` writes them as A2A 0.3, and `parse_request`
//!   parses requests of both versions into them.
//!
//! Parsing JSON of another shape returns a [`ShapeError`] with the place of the first difference.
//!
//! # Examples
//! ```
//! use openclaw_remote_agent_a2a::TaskState;
//!
//! assert!(TaskState::from_name("completed").is_terminal());
//!
//! let waiting = TaskState::from_name("input-required");
//! assert!(waiting.is_interrupted() && !waiting.is_terminal());
//! ```

#![forbid(unsafe_code)]

mod artifact;
mod card;
mod card_signature;
mod decode_response;
mod error;
mod event;
pub mod http;
mod json;
mod operation;
#[cfg(feature = "types")]
pub mod parse_request;
mod protocol;
mod request;
mod security;
mod task;
mod text;
mod usage;
#[cfg(feature = "types")]
pub mod v0_3;

/// The official types of A2A 1.0.
#[cfg(feature = "types")]
pub use a2a_lf as v1_0;

pub use artifact::{Artifact, ArtifactPart};
pub use card::{
    Capabilities, Card, CardExtension, CardView, Interface, Skill, fields as card_fields,
};
pub use card_signature::{CanonicalCard, canonical_cards};
pub use decode_response::{data_url, split_event};
pub use error::{A2aError, ErrorReason};
pub use event::{ArtifactUpdate, Event, Reply, StatusUpdate};
pub use json::ShapeError;
pub use operation::{Operation, Resource, path_segment};
pub use protocol::{Dialect, NoVersion, Transport, V03Dialect, Version};
pub use request::{SendParams, SendRequest};
pub use security::{OAuthFlow, Scheme, Security, SecurityScheme};
pub use task::{
    DELEGATION_KEY, MAX_CHAIN_BYTES, MESSAGES_KEY, Message, Part, Task, TaskState, is_chain_id,
};
pub use text::{member_at, spell, text_at, text_part, texts_mut};
pub use usage::{MAX_COUNT, Tokens, USAGE_KEY, Usage};
