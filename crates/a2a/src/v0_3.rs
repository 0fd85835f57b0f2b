//! Writes the types of 1.0 as 0.3 does, in either of its two ways, without copying them.
//!
//! 0.3 says the same in two dialects of JSON: over JSON-RPC as its TypeScript types have it (`kind`, `parts`, `completed`),
//! over HTTP+JSON as its proto does (`content`, `TASK_STATE_CANCELLED`). Its clients parse the latter strictly, so nothing is
//! written that the proto does not have. What 0.3 cannot say is left out: a text's media type and file name.

mod event;
mod part;
mod push;
mod task;

pub use task::word;

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

/// `value` as 0.3 writes it. A task, for one, has its `kind` over JSON-RPC, which is the body of a push notification too.
pub fn written<T: ?Sized>(value: &T, dialect: Dialect) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    V03 { value, dialect }
}

/// `value` as 0.3 writes it over JSON-RPC.
pub fn rpc<T: ?Sized>(value: &T) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    written(value, Dialect::Rpc)
}

/// Whether the task is terminal, or waits for its client. A stream of 0.3 ends there, and `final` says so.
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

/// Every one of a list.
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
