//! Serializers for servers: they write the types of A2A 1.0 as A2A 0.3 JSON, without copies.
//!
//! A2A 0.3 has two dialects of JSON: over JSON-RPC that of its TypeScript types (`kind`, `parts`, `completed`), over
//! HTTP+JSON that of its proto (`content`, `TASK_STATE_CANCELLED`). Clients of 0.3 parse the latter strictly, so the
//! serializers write no member that the proto lacks. They omit members that 0.3 lacks, such as a text's media type.

mod event;
mod part;
mod push;
mod task;

pub use task::state_name;

#[cfg(test)]
mod tests;

use crate::v1_0::TaskState;
use serde::Serialize;

/// The metadata key of data that is not an object and is wrapped in `value`, as in the official SDKs.
pub const WRAPPED: &str = "data_part_compat";

pub use crate::V03Dialect as Dialect;

/// Serializes a type of 1.0 as 0.3.
#[derive(Debug, Clone, Copy)]
pub struct V03<'a, T: ?Sized> {
    value: &'a T,
    dialect: Dialect,
}

/// Returns a value that serializes as A2A 0.3 in `dialect`. The body of a push notification uses the JSON-RPC dialect.
pub fn as_v0_3<T: ?Sized>(value: &T, dialect: Dialect) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    V03 { value, dialect }
}

/// Returns a value that serializes as A2A 0.3 over JSON-RPC.
pub fn rpc<T: ?Sized>(value: &T) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    as_v0_3(value, Dialect::Rpc)
}

/// Returns whether the task is terminal, or waits for its client. A stream of 0.3 ends there, and `final` says so.
pub fn is_terminal_or_interrupted(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

impl<'a, T: ?Sized> V03<'a, T> {
    fn part<U: ?Sized>(&self, value: &'a U) -> V03<'a, U> {
        V03 {
            value,
            dialect: self.dialect,
        }
    }
}

/// A list whose items serialize as A2A 0.3.
struct V03Seq<'a, T>(&'a [T], Dialect);

impl<'a, T> Serialize for V03Seq<'a, T>
where
    V03<'a, T>: Serialize,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| V03 {
            value,
            dialect: self.1,
        }))
    }
}
