//! A cache of the records of finished tasks, for stores that read them from elsewhere.

use std::convert::Infallible;

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;

use super::ListedTask;

/// The maximum size of all records, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The maximum size of a record, in bytes, so that no record displaces many others. Clients have no shares: the tasks of one may
/// displace those of all others.
const MAX_RECORD: usize = MAX_BYTES / 64;

/// What an entry takes beside its record, in bytes.
const ENTRY_BYTES: usize = 256;

/// The records of the finished tasks that lists have read last, as JSON. A finished task never changes, so that one with the
/// same id and the same time of its last change has the same record.
pub(super) struct FinishedRecords(Mutex<Entries>);

struct Entries {
    by_id: LruCache<String, Entry>,
    bytes: usize,
}

struct Entry {
    changed_ms: i64,
    /// The client whose task this is; `None` if a list of all clients has read it.
    owner: Option<String>,
    json: Bytes,
}

impl Default for FinishedRecords {
    fn default() -> Self {
        Self(Mutex::new(Entries {
            by_id: LruCache::unbounded(),
            bytes: 0,
        }))
    }
}

impl FinishedRecords {
    /// Sets the sizes of the tasks of a page that the cache has, and the records that fit, together at most `json_bytes`.
    /// Returns how many bytes are left.
    pub(super) fn fill(
        &self,
        owner: Option<&str>,
        tasks: &mut [ListedTask],
        json_bytes: usize,
    ) -> usize {
        let mut left = json_bytes;
        let mut entries = self.0.lock();
        for task in tasks {
            let found = entries.by_id.get(&task.place.task_id);
            let same = found.filter(|entry| {
                entry.changed_ms == task.place.changed_ms && entry.owner.as_deref() == owner
            });
            if let Some(Entry { json, .. }) = same {
                let Ok(()) = task.set_record(
                    json.len(),
                    || Ok::<_, Infallible>(Some(json.clone())),
                    &mut left,
                );
            }
        }
        left
    }

    /// Adds the record of a finished task that a list of `owner` has read.
    pub(super) fn put(&self, owner: Option<&str>, task: &ListedTask) {
        let Some(json) = &task.json else { return };
        if json.len() > MAX_RECORD {
            return;
        }
        let entry = Entry {
            changed_ms: task.place.changed_ms,
            owner: owner.map(str::to_owned),
            json: json.clone(),
        };
        let Entries { by_id, bytes } = &mut *self.0.lock();
        *bytes += json.len() + ENTRY_BYTES;
        let mut gone = by_id.put(task.place.task_id.clone(), entry);
        loop {
            *bytes -= gone.map_or(0, |gone| gone.json.len() + ENTRY_BYTES);
            if *bytes <= MAX_BYTES {
                return;
            }
            gone = by_id.pop_lru().map(|(_, entry)| entry);
        }
    }

    /// Removes the record of a deleted task.
    pub(super) fn remove(&self, task_id: &str) {
        let Entries { by_id, bytes } = &mut *self.0.lock();
        let gone = by_id.pop(task_id);
        *bytes -= gone.map_or(0, |gone| gone.json.len() + ENTRY_BYTES);
    }

    #[cfg(test)]
    pub(super) fn has(&self, task_id: &str) -> bool {
        self.0.lock().by_id.contains(task_id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::Cursor;

    fn listed(id: &str, changed_ms: i64) -> ListedTask {
        let task_id = id.to_owned();
        ListedTask::new(Cursor {
            changed_ms,
            task_id,
        })
    }

    fn put(records: &FinishedRecords, id: &str, size: usize) {
        let mut task = listed(id, 1);
        task.json = Some(vec![b'x'; size].into());
        records.put(Some("ann"), &task);
    }

    /// Returns the size and whether there is a record.
    fn found(
        records: &FinishedRecords,
        owner: Option<&str>,
        id: &str,
        changed_ms: i64,
        room: usize,
    ) -> (Option<usize>, bool) {
        let mut page = [listed(id, changed_ms)];
        records.fill(owner, &mut page, room);
        let [task] = page;
        (task.bytes, task.json.is_some())
    }

    #[test]
    fn record_is_that_of_the_same_change_and_client() {
        let records = FinishedRecords::default();
        put(&records, "t", 10);
        let cases = [
            (Some("ann"), "t", 1, 10, (Some(10), true)),
            (Some("ann"), "t", 1, 9, (Some(10), false)),
            (Some("ann"), "t", 2, 10, (None, false)),
            (Some("ann"), "u", 1, 10, (None, false)),
            (Some("bob"), "t", 1, 10, (None, false)),
            (None, "t", 1, 10, (None, false)),
        ];
        for (owner, id, changed_ms, room, expected) in cases {
            let is = found(&records, owner, id, changed_ms, room);
            assert_eq!(is, expected, "{owner:?} {id} {changed_ms} {room}");
        }
    }

    #[test]
    fn removed_record_frees_its_bytes() {
        let records = FinishedRecords::default();
        put(&records, "t", 10);
        put(&records, "u", 20);
        records.remove("t");
        records.remove("unknown");
        assert_eq!(found(&records, Some("ann"), "t", 1, 10), (None, false));
        assert_eq!(found(&records, Some("ann"), "u", 1, 20), (Some(20), true));
        assert_eq!(records.0.lock().bytes, 20 + ENTRY_BYTES);
    }

    #[test]
    fn memory_is_bounded() {
        let records = FinishedRecords::default();
        put(&records, "large", MAX_RECORD + 1);
        for n in 0..100 {
            put(&records, &n.to_string(), MAX_RECORD);
            put(&records, "again", 1);
        }
        let bytes = |entries: &Entries| {
            let sizes = entries.by_id.iter().map(|(_, entry)| entry.json.len());
            sizes.map(|size| size + ENTRY_BYTES).sum::<usize>()
        };
        let entries = records.0.lock();
        assert_eq!(bytes(&entries), entries.bytes);
        assert!((MAX_BYTES - 2 * MAX_RECORD..=MAX_BYTES).contains(&entries.bytes));
        assert!(entries.by_id.contains("99") && !entries.by_id.contains("0"));
        assert!(!entries.by_id.contains("large"));
    }
}
