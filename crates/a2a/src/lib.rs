//! The A2A protocol, without I/O: what client and server both know of it.
//!
//! - [`Operation`] and [`Resource`] are the tables of methods and paths, [`http`] that of headers and media types,
//!   [`ErrorReason`] that of errors.
//! - [`Task`], [`Message`], [`Event`] and the like are what an agent answered, as JSON in the names of A2A 0.3, which are those
//!   of the contract. They keep every member, known or not. A [`Dialect`] reads them from what a version writes.
//! - [`SendRequest`] is what a client asks for, and [`SendParams`] writes it in a dialect.
//! - With the feature `types`, `v1_0` has the values that a server keeps, `v0_3` writes them as 0.3 does, and `params`
//!   reads requests of both versions into them.

#![forbid(unsafe_code)]

mod answer;
mod artifact;
mod card;
mod error;
mod event;
pub mod http;
mod json;
mod operation;
#[cfg(feature = "types")]
pub mod params;
mod protocol;
mod request;
mod security;
mod task;
mod text;
#[cfg(feature = "types")]
pub mod v0_3;

/// The official types of A2A 1.0.
#[cfg(feature = "types")]
pub use a2a_lf as v1_0;

pub use artifact::Artifact;
pub use card::{Capabilities, Card, CardView, Interface, Skill};
pub use error::{A2aError, ErrorReason};
pub use event::{ArtifactUpdate, Event, Reply, StatusUpdate};
pub use json::ShapeError;
pub use operation::{Operation, Resource, path_segment};
pub use protocol::{Dialect, NoVersion, Transport, V03Dialect, Version};
pub use request::{SendParams, SendRequest};
pub use security::{Scheme, Security, SecurityScheme};
pub use task::{Message, Part, Task, TaskState};
pub use text::{text_at, texts_mut};
