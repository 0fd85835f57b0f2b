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

use a2a::TaskState;
use serde::Serialize;

/// How data that is no object is marked in a part's metadata, as the official SDKs do: it stands in `value`.
pub const WRAPPED: &str = "data_part_compat";

/// One of the two ways to write 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As JSON-RPC has it.
    Rpc,
    /// As HTTP+JSON has it.
    Rest,
}

/// Something of 1.0 that serializes as 0.3.
#[derive(Debug, Clone, Copy)]
pub struct As0_3<'a, T: ?Sized> {
    value: &'a T,
    dialect: Dialect,
}

/// `value` as 0.3 writes it. A task, for one, has its `kind` over JSON-RPC, which is the body of a push notification too.
pub fn written<T: ?Sized>(value: &T, dialect: Dialect) -> As0_3<'_, T>
where
    for<'a> As0_3<'a, T>: Serialize,
{
    As0_3 { value, dialect }
}

/// `value` as 0.3 writes it over JSON-RPC.
pub fn rpc<T: ?Sized>(value: &T) -> As0_3<'_, T>
where
    for<'a> As0_3<'a, T>: Serialize,
{
    written(value, Dialect::Rpc)
}

/// Whether a stream of 0.3 ends with this state: `final` says so.
pub fn is_final(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

impl<'a, T: ?Sized> As0_3<'a, T> {
    fn part<U: ?Sized>(&self, value: &'a U) -> As0_3<'a, U> {
        As0_3 {
            value,
            dialect: self.dialect,
        }
    }
}

/// Every one of a list.
struct Each<'a, T>(&'a [T], Dialect);

impl<'a, T> Serialize for Each<'a, T>
where
    As0_3<'a, T>: Serialize,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| As0_3 {
            value,
            dialect: self.1,
        }))
    }
}
