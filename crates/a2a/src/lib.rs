//! The A2A protocol, without I/O.
//!
//! Tasks, messages, artifacts and events have the shape of the contract (A2A 0.3 JSON: `kind`, `completed`), whatever
//! version a peer speaks.

#![forbid(unsafe_code)]

mod artifact;
mod card;
mod event;
mod json;
mod protocol;
mod request;
mod security;
mod task;
mod text;

pub use artifact::Artifact;
pub use card::{Capabilities, Card, CardView, Interface, Skill};
pub use event::{ArtifactUpdate, Event, Reply, StatusUpdate};
pub use json::ShapeError;
pub use protocol::{NoVersion, Transport, Version};
pub use request::SendRequest;
pub use security::{Scheme, Security, SecurityScheme};
pub use task::{Message, Part, Task, TaskState};
pub use text::{text_at, texts_mut};
