//! Tasks in memory, until the process ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2a::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};

use super::hub::Hub;
use super::queues::Queues;
use super::{Context, Cursor, Feed, Filter, Listed, Retention, Store, StoreError, Waiting};
use crate::caller::Version;
use crate::record::{Change, Record};

/// Keeps everything in memory. Cheap to clone; clones share what they keep.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
    hub: Hub,
    queues: Queues,
}

#[derive(Debug, Default)]
struct Kept {
    tasks: HashMap<String, Held>,
    contexts: HashMap<String, Opened>,
}

#[derive(Debug)]
struct Held {
    record: Record,
    pushes: Vec<(TaskPushNotificationConfig, Version)>,
}

#[derive(Debug)]
struct Opened {
    context: Context,
    /// Its tasks. A context is forgotten with the last of them.
    tasks: usize,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, task_id: &str) -> Option<Record> {
        self.locked()
            .tasks
            .get(task_id)
            .map(|held| held.record.clone())
    }

    fn take(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        change: &Change,
    ) -> Result<(), StoreError> {
        let mut kept = self.locked();
        let held = kept.tasks.get_mut(task_id).ok_or(StoreError::Gone)?;
        if held.record.is_settled() {
            return Err(StoreError::Settled);
        }
        if held.record.revision != revision {
            return Err(StoreError::Conflict);
        }
        held.record.apply(change.clone(), at_ms);
        // Under the lock, so that listeners hear of changes in their order.
        self.hub.publish(task_id, held.record.revision, change);
        Ok(())
    }
}

impl Kept {
    fn forget(&mut self, task_id: &str) -> bool {
        let Some(held) = self.tasks.remove(task_id) else {
            return false;
        };
        if let Entry::Occupied(mut opened) = self.contexts.entry(held.record.task.context_id) {
            opened.get_mut().tasks = opened.get().tasks.saturating_sub(1);
            if opened.get().tasks == 0 {
                opened.remove();
            }
        }
        true
    }

    fn page(&self, filter: &Filter) -> Listed {
        let mut found: Vec<(i64, &str)> = self
            .tasks
            .values()
            .filter(|held| filter.takes(&held.record))
            .map(|held| (held.record.changed_ms, held.record.task.id.as_str()))
            .collect();
        let total = found.len();
        if let Some(after) = &filter.after {
            found.retain(|place| *place < (after.changed_ms, after.task_id.as_str()));
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        let more = found.len() > filter.page_size;
        found.truncate(filter.page_size);
        let records: Vec<Record> = found
            .iter()
            .filter_map(|(_, id)| self.tasks.get(*id))
            .map(|held| held.record.clone())
            .collect();
        Listed {
            next: records.last().filter(|_| more).map(Cursor::of),
            records,
            total,
        }
    }

    /// Settled tasks that retention does not keep.
    fn outlived(&self, retention: &Retention, now: DateTime<Utc>) -> Vec<String> {
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.timestamp_millis().saturating_sub(age);
        let mut settled: Vec<(i64, &str)> = self
            .tasks
            .values()
            .filter(|held| held.record.is_settled())
            .map(|held| (held.record.changed_ms, held.record.task.id.as_str()))
            .collect();
        settled.sort_unstable();
        let too_many = settled.len().saturating_sub(retention.count);
        settled
            .into_iter()
            .enumerate()
            .filter(|(place, (changed_ms, _))| *place < too_many || *changed_ms < oldest)
            .map(|(_, (_, id))| id.to_owned())
            .collect()
    }
}

/// What is done at once.
fn done<'a, T: Send + 'a>(outcome: Result<T, StoreError>) -> BoxFuture<'a, Result<T, StoreError>> {
    future::ready(outcome).boxed()
}

impl Store for Memory {
    fn create<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut kept = self.locked();
        if kept.tasks.contains_key(&record.task.id) {
            return done(Err(StoreError::Conflict));
        }
        kept.contexts
            .entry(record.task.context_id.clone())
            .or_insert_with(|| Opened {
                context: Context {
                    owner: record.owner.clone(),
                    session: record.session.clone(),
                },
                tasks: 0,
            })
            .tasks += 1;
        kept.tasks.insert(
            record.task.id.clone(),
            Held {
                record: record.clone(),
                pushes: Vec::new(),
            },
        );
        done(Ok(()))
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        done(self.take(task_id, revision, at_ms, change))
    }

    fn load<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Record>, StoreError>> {
        done(Ok(self.find(task_id)))
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Listed, StoreError>> {
        done(Ok(self.locked().page(filter)))
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        let was = self.locked().forget(task_id);
        self.hub.forget(task_id);
        done(Ok(was))
    }

    fn follow<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Feed>, StoreError>> {
        let listener = self.hub.listen(task_id);
        let Some(record) = self.find(task_id) else {
            return done(Ok(None));
        };
        let store = self.clone();
        let feed = listener.feed(record, move |id| future::ready(store.find(&id)).boxed());
        done(Ok(Some(feed)))
    }

    fn claim<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>> {
        let mut kept = self.locked();
        let opened = kept
            .contexts
            .entry(context_id.to_owned())
            .or_insert_with(|| Opened {
                context: Context {
                    owner: owner.to_owned(),
                    session: session.to_owned(),
                },
                tasks: 0,
            });
        done(Ok(opened.context.clone()))
    }

    fn enter<'a>(
        &'a self,
        queue: &'a str,
        _task_id: &'a str,
    ) -> BoxFuture<'a, Result<Waiting, StoreError>> {
        done(Ok(self.queues.enter(queue)))
    }

    fn recover(&self) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        done(Ok(self
            .locked()
            .tasks
            .values()
            .filter(|held| !held.record.is_settled())
            .map(|held| held.record.clone())
            .collect()))
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut kept = self.locked();
        let Some(held) = kept.tasks.get_mut(&config.task_id) else {
            return done(Err(StoreError::Gone));
        };
        let known = held.pushes.iter_mut().find(|(had, _)| had.id == config.id);
        match known {
            Some(known) => *known = (config.clone(), version),
            None => held.pushes.push((config.clone(), version)),
        }
        done(Ok(()))
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>> {
        done(Ok(self
            .locked()
            .tasks
            .get(task_id)
            .map(|held| held.pushes.clone())
            .unwrap_or_default()))
    }

    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let mut kept = self.locked();
        let Some(held) = kept.tasks.get_mut(task_id) else {
            return done(Ok(false));
        };
        let before = held.pushes.len();
        held.pushes
            .retain(|(config, _)| config.id.as_deref() != Some(config_id));
        done(Ok(held.pushes.len() < before))
    }

    fn retire<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        let mut kept = self.locked();
        let outlived = kept.outlived(retention, now);
        for id in &outlived {
            kept.forget(id);
        }
        done(Ok(outlived.len()))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        done(Ok(()))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        done(Ok(()))
    }
}

#[cfg(test)]
mod tests;
