//! A2A messages and tasks, in the JSON of A2A 0.3.
//!
//! | envelope | A2A |
//! |---|---|
//! | `message` | `message`; `user` stays `user`, every other role is `agent` |
//! | `proposal` | `message`: a text, or data where there is more than the proposal |
//! | `vote` | `status-update` of the proposal's task: `working`, the vote as data |
//! | `decision` | `task` of the proposal: `completed`, the decision as data and text of an artifact, whatever its result |
//! | `response` | `task`: `completed`, the result as an artifact |
//! | `error` | `task`: `failed`, its message as text, its name and number as data |
//! | every other type but `auth` | `message`, the content as data |
//!
//! And the other way round, for what was no envelope before:
//!
//! | A2A | envelope |
//! |---|---|
//! | `message` | `message`, or `proposal` where it is for the triad |
//! | `completed` | `response` with the parts of all artifacts, else of the status; `decision` where an artifact holds one |
//! | `failed`, `rejected` | `error` 3004 |
//! | `auth-required` | `error` 5001 |
//! | `canceled` | `event` `canceled` |
//! | `submitted`, `working` | `status` `busy` |
//! | `input-required` | `status` `idle`, with what is asked |
//! | any other state | `status` `unknown` |
//! | `artifact-update` | `event` `artifact` |
//!
//! One text part is a text, anything else `{"parts": […]}`. `contextId` is `sessionId`, and for a task without a session the task's id, because A2A
//! requires one; a task's id is the correlation id. `metadata` is shared:
//! what an envelope has and A2A has no field for is under `a2a-v1` there, and the other way round under `a2a`. Tasks that were no envelopes stay
//! whole in `content.a2a`.

mod parts;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::from_a2a;
pub use write::to_a2a;

/// The place in A2A's `metadata` of what an envelope says and A2A has no field for.
const EXTENSION_FIELD: &str = crate::SUBPROTOCOL;

/// The place in an envelope's `metadata` of what an A2A message says and no envelope has a field for; in its `content` of a whole task.
const METADATA_FIELD: &str = "a2a";

/// Values that a translation needs from its caller.
pub struct TranslationContext<'a> {
    /// The time, in milliseconds since 1970, for envelopes that have none.
    pub now: u64,
    /// Makes ids, where A2A wants one and there is none.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// The agent that a message is for which does not say so itself.
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
