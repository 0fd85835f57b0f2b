//! A2A messages and tasks, in the JSON of A2A 0.3.
//!
//! | envelope | A2A |
//! |---|---|
//! | `message` | `message`; `user` stays `user`, every other role is `agent` |
//! | `proposal` | `message`: a text, or data if the content has further fields |
//! | `vote` | `status-update` of the proposal's task: `working`, the vote as data |
//! | `decision` | `task` of the proposal: `completed`, the decision as data and text of an artifact, whatever its result |
//! | `response` | `task`: `completed`, the result as an artifact |
//! | `error` | `task`: `failed`, its message as text, its name and number as data |
//! | every other type but `auth` | `message`, the content as data |
//!
//! The reverse direction, for objects that did not come from an envelope:
//!
//! | A2A | envelope |
//! |---|---|
//! | `message` | `message`, or `proposal` if the receiver is the triad |
//! | `completed` | `response` with the parts of all artifacts, else of the status; `decision` if an artifact contains one |
//! | `failed`, `rejected` | `error` 3004 |
//! | `auth-required` | `error` 5001 |
//! | `canceled` | `event` `canceled` |
//! | `submitted`, `working` | `status` `busy` |
//! | `input-required` | `status` `idle`, with the question |
//! | any other state | `status` `unknown` |
//! | `artifact-update` | `event` `artifact` |
//!
//! One text part is a text, anything else `{"parts": […]}`. `contextId` is `sessionId`, and for a task without a session the
//! task's id, because A2A requires one. A task's id is the correlation id. Both sides share `metadata`: fields of an envelope
//! without a field in A2A are below `a2a-v1`, and fields of A2A without a field in an envelope below `a2a`. A task that did
//! not come from an envelope stays whole in `content.a2a`.

mod parts;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::from_a2a;
pub use write::to_a2a;

/// The member of A2A's `metadata` with the fields of an envelope that A2A lacks.
const EXTENSION_FIELD: &str = crate::SUBPROTOCOL;

/// The member of an envelope's `metadata` with the fields of an A2A message that envelopes lack; in `content`, a whole task.
const METADATA_FIELD: &str = "a2a";

/// Values that a translation needs from its caller.
pub struct TranslationContext<'a> {
    /// The time in milliseconds since 1970, for envelopes without one.
    pub now: u64,
    /// Generates missing ids that A2A requires.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// The receiver of a message that names none.
    pub agent: Option<&'a str>,
}

impl std::fmt::Debug for TranslationContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fill")
            .field("now", &self.now)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}
