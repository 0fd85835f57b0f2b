//! A task store in memory, whose tasks last until the process ends.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::Arc;

use a2a::v1_0::TaskPushNotificationConfig;
use async_trait::async_trait;
use base::json::encoded_bytes;
use base::keyed_semaphore::KeyedSemaphore;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use futures_util::future;

use super::task_events::{EventListener, TaskEvents};
use super::{
    Budget, Context, Cursor, Filter, ListedTask, Loaded, Page, QueueTicket, Retention, StoreError,
    Summary, SummaryPage, TaskStore, TaskSubscription, Usage, body, enqueue, length, oldest,
    revision_before,
};
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};
use a2a::Version;

/// A store in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
    events: TaskEvents,
    queues: KeyedSemaphore<String>,
    usage: Usage,
}

#[derive(Debug, Default)]
struct MemoryState {
    tasks: HashMap<String, StoredTask>,
    contexts: HashMap<String, OpenContext>,
}

#[derive(Debug)]
struct StoredTask {
    summary: Summary,
    /// The record at some revision as JSON, and the later changes with their times.
    base: Bytes,
    log: Vec<(i64, Bytes)>,
    revision: u64,
    pushes: Vec<(TaskPushNotificationConfig, Version)>,
}

impl StoredTask {
    fn bytes(&self) -> usize {
        let log = self.log.iter().map(|(_, change)| change.len());
        let pushes = self.pushes.iter().map(|(config, _)| encoded_bytes(config));
        self.base.len() + log.sum::<usize>() + pushes.sum::<usize>()
    }

    /// Returns the JSON of a finished task.
    fn whole(&self) -> Option<&Bytes> {
        let is_whole = self.summary.is_terminal() && self.log.is_empty();
        is_whole.then_some(&self.base)
    }

    fn new(record: &TaskRecord) -> Result<Self, StoreError> {
        Ok(Self {
            summary: Summary::new(record),
            base: body::encode(record)?.into(),
            log: Vec::new(),
            revision: record.revision,
            pushes: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct OpenContext {
    context: Context,
    /// The number of tasks in the context. The store deletes a context with its last task.
    tasks: usize,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let (base, log) = match self.state.lock().tasks.get(task_id) {
            Some(task) => (task.base.clone(), task.log.clone()),
            None => return Ok(None),
        };
        let unreadable = |cause| StoreError::Damaged(format!("cannot read the task: {cause}"));
        let mut record = body::decode_record(&base).map_err(unreadable)?;
        for (at_ms, change) in &log {
            body::apply(&mut record, *at_ms, change).map_err(unreadable)?;
        }
        if log.len() >= body::MAX_CHANGES {
            self.compact(&record, &base, log.len())?;
        }
        Ok(Some(record))
    }

    fn subscription(&self, listener: EventListener, record: TaskRecord) -> TaskSubscription {
        let store = self.clone();
        let reload = move |id: String| future::ready(store.find(&id).ok().flatten()).boxed();
        listener.subscription(record, reload)
    }

    /// Replaces `base` and the first `changes` by the JSON of `record`.
    fn compact(&self, record: &TaskRecord, base: &Bytes, changes: usize) -> Result<(), StoreError> {
        let whole = body::encode(record)?.into();
        if let Some(task) = self.state.lock().tasks.get_mut(&record.task.id)
            && task.base.as_ptr() == base.as_ptr()
        {
            let before = task.bytes();
            task.base = whole;
            task.log.drain(..changes);
            let more = length(task.bytes()) - length(before);
            self.usage.add(&record.owner, more, 0);
        }
        Ok(())
    }

    fn apply_changes(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
        finished: Option<&TaskRecord>,
    ) -> Result<(), StoreError> {
        // The JSON of a finished task replaces its log.
        let logged = if finished.is_some() { &[] } else { changes };
        let logged = logged.iter().map(body::encode);
        let logged = logged.collect::<Result<Vec<_>, _>>()?;
        let finished = finished.map(body::encode).transpose()?;
        let mut state = self.state.lock();
        let task = state.tasks.get_mut(task_id).ok_or(StoreError::NotFound)?;
        if task.summary.is_terminal() {
            return Err(StoreError::Terminal);
        }
        if task.revision != revision {
            return Err(StoreError::Conflict);
        }
        for change in changes {
            task.revision += 1;
            task.summary.apply(change, at_ms);
            // Publish under the lock, so that subscribers receive the changes in order.
            self.events.publish(task_id, task.revision, change);
        }
        let more = match finished {
            Some(whole) => {
                let before = task.bytes();
                (task.base, task.log) = (whole.into(), Vec::new());
                length(task.bytes()) - length(before)
            }
            None => {
                let bytes = logged.iter().map(Vec::len).sum();
                let logged = logged.into_iter().map(|json| (at_ms, json.into()));
                task.log.extend(logged);
                length(bytes)
            }
        };
        self.usage.add(&task.summary.owner, more, 0);
        Ok(())
    }
}

impl MemoryState {
    fn forget(&mut self, task_id: &str, usage: &Usage) -> bool {
        let Some(task) = self.tasks.remove(task_id) else {
            return false;
        };
        usage.add(&task.summary.owner, -length(task.bytes()), -1);
        if let Entry::Occupied(mut opened) = self.contexts.entry(task.summary.context_id) {
            opened.get_mut().tasks = opened.get().tasks.saturating_sub(1);
            if opened.get().tasks == 0 {
                opened.remove();
            }
        }
        true
    }

    fn page<T>(
        &self,
        filter: &Filter,
        listed: impl Fn(&StoredTask) -> T,
        place: impl FnOnce(&T) -> Cursor,
    ) -> Page<T> {
        let tasks = self.tasks.values();
        let mut found: Vec<(i64, &str, &StoredTask)> = tasks
            .filter(|task| filter.matches(&task.summary))
            .map(|task| (task.summary.changed_ms, task.summary.id.as_str(), task))
            .collect();
        let total = found.len();
        if let Some(after) = &filter.after {
            let after = (after.changed_ms, after.task_id.as_str());
            found.retain(|(changed_ms, id, _)| (*changed_ms, *id) < after);
        }
        let newest_first = |one: &(i64, &str, &StoredTask), other: &(i64, &str, &StoredTask)| {
            (other.0, other.1).cmp(&(one.0, one.1))
        };
        let more = found.len() > filter.page_size;
        if more {
            // Select the page first, so that only its tasks are sorted.
            found.select_nth_unstable_by(filter.page_size, newest_first);
            found.truncate(filter.page_size);
        }
        found.sort_unstable_by(newest_first);
        let tasks = found.into_iter().map(|(_, _, task)| listed(task));
        Page::new(tasks.collect(), more, total, place)
    }

    /// Returns the terminal tasks that exceed `retention`.
    fn expired(&self, retention: &Retention, now: DateTime<Utc>) -> Vec<String> {
        let oldest = retention.before_ms(now);
        let mut by_owner: HashMap<&str, Vec<(i64, &str)>> = HashMap::new();
        for task in self.tasks.values().map(|task| &task.summary) {
            if task.is_terminal() {
                let settled = by_owner.entry(task.owner.as_str()).or_default();
                settled.push((task.changed_ms, task.id.as_str()));
            }
        }
        let mut expired = Vec::new();
        for mut settled in by_owner.into_values() {
            let too_many = settled.len().saturating_sub(retention.count);
            if let Some(last) = too_many.checked_sub(1) {
                settled.select_nth_unstable(last);
            }
            let gone = settled.into_iter().enumerate();
            let gone =
                gone.filter(|(place, (changed_ms, _))| *place < too_many || *changed_ms < oldest);
            expired.extend(gone.map(|(_, (_, id))| id.to_owned()));
        }
        expired
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        let task = StoredTask::new(record)?;
        let MemoryState { tasks, contexts } = &mut *self.state.lock();
        let Entry::Vacant(new) = tasks.entry(record.task.id.clone()) else {
            return Err(StoreError::Conflict);
        };
        contexts
            .entry(record.task.context_id.clone())
            .or_insert_with(|| OpenContext {
                context: Context {
                    owner: record.owner.clone(),
                    session: record.session.clone(),
                },
                tasks: 0,
            })
            .tasks += 1;
        self.usage.add(&record.owner, length(task.bytes()), 1);
        new.insert(task);
        Ok(())
    }

    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        self.apply_changes(task_id, revision, at_ms, changes, None)
    }

    async fn finish(&self, record: &TaskRecord, changes: &[TaskChange]) -> Result<(), StoreError> {
        let (id, revision) = (&record.task.id, revision_before(record, changes));
        self.apply_changes(id, revision, record.changed_ms, changes, Some(record))
    }

    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        self.find(task_id)
    }

    async fn load_stored(&self, task_id: &str) -> Result<Option<Loaded>, StoreError> {
        let whole = |state: &MemoryState| state.tasks.get(task_id)?.whole().cloned();
        let whole = whole(&self.state.lock());
        match whole {
            Some(json) => Ok(Some(Loaded::Json(json))),
            None => Ok(self.find(task_id)?.map(Box::new).map(Loaded::Record)),
        }
    }

    async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError> {
        let summary = |task: &StoredTask| task.summary.clone();
        Ok(self.state.lock().page(filter, summary, Cursor::new))
    }

    async fn page(
        &self,
        filter: &Filter,
        _json_bytes: usize,
    ) -> Result<Page<ListedTask>, StoreError> {
        let listed = |task: &StoredTask| ListedTask {
            bytes: task.whole().map(Bytes::len),
            ..ListedTask::unmeasured(&task.summary)
        };
        Ok(self.state.lock().page(filter, listed, ListedTask::place))
    }

    async fn bodies(
        &self,
        _owner: Option<&str>,
        tasks: &[ListedTask],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let state = self.state.lock();
        let body = |listed: &ListedTask| state.tasks.get(&listed.place.task_id)?.whole().cloned();
        Ok(tasks.iter().map(body).collect())
    }

    async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        let was = self.state.lock().forget(task_id, &self.usage);
        self.events.forget(task_id);
        Ok(was)
    }

    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError> {
        let listener = self.events.subscribe(task_id);
        let record = self.find(task_id)?;
        Ok(record.map(|record| self.subscription(listener, record)))
    }

    async fn subscribe_created(
        &self,
        record: &TaskRecord,
    ) -> Result<Option<TaskSubscription>, StoreError> {
        let listener = self.events.subscribe(&record.task.id);
        Ok(Some(self.subscription(listener, record.clone())))
    }

    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        let mut state = self.state.lock();
        let opened = state
            .contexts
            .entry(context_id.to_owned())
            .or_insert_with(|| OpenContext {
                context: Context {
                    owner: owner.to_owned(),
                    session: session.to_owned(),
                },
                tasks: 0,
            });
        Ok(opened.context.clone())
    }

    async fn enqueue(&self, queue: &str, _task_id: &str) -> Result<QueueTicket, StoreError> {
        Ok(enqueue(&self.queues, queue))
    }

    async fn recover(&self) -> Result<Vec<Summary>, StoreError> {
        let state = self.state.lock();
        let tasks = state.tasks.values().map(|task| &task.summary);
        let open = tasks.filter(|task| !task.is_terminal()).cloned().collect();
        Ok(open)
    }

    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let Some(task) = state.tasks.get_mut(&config.task_id) else {
            return Err(StoreError::NotFound);
        };
        let before = task.bytes();
        let known = task.pushes.iter_mut().find(|(had, _)| had.id == config.id);
        match known {
            Some(known) => *known = (config.clone(), version),
            None => task.pushes.push((config.clone(), version)),
        }
        let more = length(task.bytes()) - length(before);
        self.usage.add(&task.summary.owner, more, 0);
        Ok(())
    }

    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        Ok(self
            .state
            .lock()
            .tasks
            .get(task_id)
            .map(|task| task.pushes.clone())
            .unwrap_or_default())
    }

    fn may_have_pushes(&self, task_id: &str) -> bool {
        let state = self.state.lock();
        let task = state.tasks.get(task_id);
        task.is_some_and(|task| !task.pushes.is_empty())
    }

    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError> {
        let mut state = self.state.lock();
        let Some(task) = state.tasks.get_mut(task_id) else {
            return Ok(false);
        };
        let (bytes, before) = (task.bytes(), task.pushes.len());
        task.pushes
            .retain(|(config, _)| config.id.as_deref() != Some(config_id));
        let more = length(task.bytes()) - length(bytes);
        self.usage.add(&task.summary.owner, more, 0);
        Ok(task.pushes.len() < before)
    }

    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError> {
        let mut state = self.state.lock();
        let expired = state.expired(retention, now);
        for id in &expired {
            state.forget(id, &self.usage);
        }
        Ok(expired.len())
    }

    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let state = self.state.lock();
        let tasks = state.tasks.values().map(|task| &task.summary);
        let waits = tasks.filter(|task| is_interrupted(&task.state) && task.changed_ms < before_ms);
        let mut waits: Vec<_> = waits.map(|task| (task.changed_ms, &task.id)).collect();
        waits.sort_unstable();
        let ids = waits.into_iter().skip(skip).take(limit);
        Ok(ids.map(|(_, id)| id.clone()).collect())
    }

    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        let mut state = self.state.lock();
        let Some(shortfall) = self.usage.shortfall(owner, bytes, budget) else {
            return Ok(false);
        };
        if shortfall == 0 {
            return Ok(true);
        }
        let tasks = state.tasks.values();
        let own = tasks.filter(|task| task.summary.owner == owner && task.summary.is_terminal());
        let mut ended: Vec<_> = own
            .map(|task| (task.summary.changed_ms, &task.summary.id, task.bytes()))
            .collect();
        ended.sort_unstable();
        let ended = ended.into_iter();
        let ended = ended.map(|(_, id, bytes)| Ok::<_, Infallible>((id.clone(), length(bytes))));
        let Ok(ids) = oldest(ended, shortfall);
        for id in ids.iter().filter(|_| forget) {
            state.forget(id, &self.usage);
        }
        Ok(!ids.is_empty())
    }

    fn outlives_process(&self) -> bool {
        false
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
