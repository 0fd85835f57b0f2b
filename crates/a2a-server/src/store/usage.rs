//! Counts the bytes of each client's tasks, for stores of a single process.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use super::Budget;

/// The bytes of all tasks, by client. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    by_owner: HashMap<String, u64>,
    total: u64,
}

impl Usage {
    /// Adds `more` bytes to the count of a client. A negative value subtracts.
    pub(super) fn add(&self, owner: &str, more: i64) {
        let mut counts = self.0.lock();
        counts.total = counts.total.saturating_add_signed(more);
        match counts.by_owner.get_mut(owner) {
            Some(bytes) => {
                *bytes = bytes.saturating_add_signed(more);
                if *bytes == 0 {
                    counts.by_owner.remove(owner);
                }
            }
            None if more > 0 => {
                counts
                    .by_owner
                    .insert(owner.to_owned(), more.unsigned_abs());
            }
            None => {}
        }
    }

    /// Returns how many bytes a client has to free for `more` bytes within `budget`; `None` if that does not suffice.
    pub(super) fn shortfall(&self, owner: &str, more: u64, budget: &Budget) -> Option<u64> {
        let counts = self.0.lock();
        let own = counts.by_owner.get(owner).copied().unwrap_or_default();
        budget.shortfall(own, counts.total, more)
    }
}

/// Converts a length for [`Usage::add`].
pub(super) fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the ids of the first `tasks`, given as id and size, that have `bytes` together. Returns no ids if all tasks
/// have fewer bytes.
pub(super) fn oldest<E>(
    tasks: impl IntoIterator<Item = Result<(String, i64), E>>,
    bytes: u64,
) -> Result<Vec<String>, E> {
    let (mut ids, mut found) = (Vec::new(), 0_u64);
    for task in tasks {
        let (id, size) = task?;
        ids.push(id);
        found = found.saturating_add_signed(size);
        if found >= bytes {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}
