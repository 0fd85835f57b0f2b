//! The operations of the store. Each change of a task is one script, so that it happens as a whole; `prune` deletes in batches.
//!
//! Redis has sorted sets by the time of the last change: for all tasks, each owner, each context, each state, and each
//! pair of state and owner. A list reads the smallest set that fits and filters its tasks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a::v1_0::{TaskPushNotificationConfig, TaskState};
use async_trait::async_trait;
use base::json;
use base::json::Limits;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use redis::FromRedisValue;
use serde::{Deserialize, Serialize};

use super::tasks::{MeasuredRecord, Row, Text, places, set_record, summary, with_sum};
use super::{Inner, RedisStore, connection, pubsub, queue};
use crate::store::{
    Budget, Context, Cursor, Filter, ListedTask, Loaded, Page, Phase, QueueTicket, Retention,
    StoreError, Summary, SummaryChange, SummaryPage, TaskStore, TaskSubscription, body,
    revision_before, state_name,
};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;

/// The number of tasks that one step deletes. Redis executes no other command in the meantime.
const PRUNE_BATCH: usize = 100;

/// Returns the set to read, and the owner and the state to filter by.
fn index(filter: &Filter) -> (String, &str, &'static str) {
    let owner = filter.owner.as_deref();
    let state = filter.state.as_ref().map(state_name);
    match (&filter.context_id, owner, state) {
        (Some(context), owner, state) => (
            format!("context:{context}"),
            owner.unwrap_or_default(),
            state.unwrap_or_default(),
        ),
        (None, Some(owner), Some(state)) => (format!("state:{state}:owner:{owner}"), "", ""),
        (None, Some(owner), None) => (format!("owner:{owner}"), "", ""),
        (None, None, Some(state)) => (format!("state:{state}"), "", ""),
        (None, None, None) => ("all".to_owned(), "", ""),
    }
}

/// Returns the name of a phase in the scripts.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Working => "run",
        Phase::Interrupted => "wait",
        Phase::Terminal => "done",
    }
}

/// Formats a number for Lua; an empty text for `None`. Lua's numbers represent microseconds since 1970 exactly.
fn number(value: Option<i64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// How long Redis keeps a context without tasks.
const EMPTY_CONTEXT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A stored push notification configuration.
#[derive(Serialize, Deserialize)]
struct Push {
    config: TaskPushNotificationConfig,
    version: Version,
}

#[async_trait]
impl TaskStore for RedisStore {
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        let summary = Summary::new(record);
        let phase = Phase::new(&summary.state);
        let call = self
            .inner
            .scripts
            .create
            .call()
            .arg(&record.task.id)
            .arg(body::encode(record)?)
            .arg(record.revision)
            .arg(&record.owner)
            .arg(&record.task.context_id)
            .arg(&record.session)
            .arg(state_name(&summary.state))
            .arg(number(summary.since_us))
            .arg(record.changed_ms)
            .arg(phase_name(phase))
            .arg(self.inner.token())
            .arg(record.created_ms)
            .arg(summary.agent.unwrap_or_default())
            .arg(summary.request_excerpt.unwrap_or_default())
            .arg(summary.status_excerpt.unwrap_or_default());
        let reply: String = self.inner.connection.call(&call).await?;
        self.inner.outcome(&record.task.id, Some(phase), &reply)
    }

    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        let log = (Vec::new(), String::new());
        self.change(task_id, revision, at_ms, changes, log).await
    }

    async fn finish(&self, record: &TaskRecord, changes: &[TaskChange]) -> Result<(), StoreError> {
        let (id, revision) = (&record.task.id, revision_before(record, changes));
        let whole = with_sum(record)?;
        self.change(id, revision, record.changed_ms, changes, whole)
            .await
    }

    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        self.inner.load(task_id).await
    }

    async fn load_stored(&self, task_id: &str) -> Result<Option<Loaded>, StoreError> {
        self.inner.load_stored(task_id).await
    }

    async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError> {
        let (total, more, found) = self.rows::<Row>(filter, false).await?;
        let tasks = found.into_iter().map(summary).collect();
        Ok(Page::new(tasks, more, total, Cursor::new))
    }

    async fn page(
        &self,
        filter: &Filter,
        json_bytes: usize,
    ) -> Result<Page<ListedTask>, StoreError> {
        let (total, more, found) = self.rows::<Text>(filter, true).await?;
        let mut tasks = places(found);
        let owner = filter.owner.as_deref();
        let known = &self.inner.finished;
        let left = known.fill(owner, &mut tasks, json_bytes);
        let unread = tasks.iter_mut().filter(|task| task.bytes.is_none());
        let mut unread: Vec<&mut ListedTask> = unread.collect();
        self.read_records(owner, &mut unread, left).await;
        for task in unread {
            known.put(owner, task);
        }
        Ok(Page::new(tasks, more, total, ListedTask::place))
    }

    async fn bodies(
        &self,
        owner: Option<&str>,
        tasks: &[ListedTask],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let unread = |task: &ListedTask| ListedTask::new(task.place());
        let mut read: Vec<ListedTask> = tasks.iter().map(unread).collect();
        let bytes = tasks.iter().filter_map(|task| task.bytes).sum();
        let mut unread: Vec<&mut ListedTask> = read.iter_mut().collect();
        self.read_records(owner, &mut unread, bytes).await;
        Ok(read.into_iter().map(|task| task.json).collect())
    }

    async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        self.inner.delete(task_id).await
    }

    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError> {
        pubsub::subscribe(self.inner.clone(), &self.events, &self.requests, task_id).await
    }

    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        let call = self
            .inner
            .scripts
            .get_or_create_context
            .call()
            .arg(context_id)
            .arg(owner)
            .arg(session)
            .arg(EMPTY_CONTEXT_LIFETIME.as_secs() * 1000);
        let (owner, session): (String, String) = self.inner.connection.call(&call).await?;
        Ok(Context { owner, session })
    }

    async fn enqueue(&self, queue: &str, _task_id: &str) -> Result<QueueTicket, StoreError> {
        queue::enqueue(
            self.inner.clone(),
            self.notifiers.clone(),
            self.released.clone(),
            queue,
        )
        .await
    }

    async fn request_cancel(&self, task_id: &str) -> Result<(), StoreError> {
        self.inner.request_cancel(task_id).await
    }

    fn cancel_requests(&self) -> BoxStream<'static, String> {
        let receiver = self.cancellations.lock().take();
        match receiver {
            Some(receiver) => stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|task_id| (task_id, receiver))
            })
            .boxed(),
            // An earlier call has taken the receiver.
            None => stream::pending().boxed(),
        }
    }

    async fn recover(&self) -> Result<Vec<Summary>, StoreError> {
        self.inner.recover(&self.recovery).await
    }

    fn recovery_interval(&self) -> Option<Duration> {
        Some(self.inner.lease / 3)
    }

    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError> {
        let entry = serde_json::to_vec(&Push {
            config: config.clone(),
            version,
        })
        .map_err(|error| {
            StoreError::Failed(format!(
                "cannot write the push notification configuration: {error}"
            ))
        })?;
        let call = self
            .inner
            .scripts
            .put_push
            .call()
            .arg(&config.task_id)
            .arg(config.id.as_deref().unwrap_or_default())
            .arg(entry);
        let reply: String = self.inner.connection.call(&call).await?;
        match reply.as_str() {
            "ok" => Ok(()),
            "gone" => Err(StoreError::NotFound),
            _ => Err(self.inner.connection.unexpected_answer()),
        }
    }

    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        let call = self.inner.scripts.pushes.call().arg(task_id);
        let entries: Vec<Vec<u8>> = self.inner.connection.call(&call).await?;
        let mut found = Vec::with_capacity(entries.len());
        for entry in &entries {
            found.push(read(entry, task_id).ok_or_else(|| self.inner.unreadable_push(task_id))?);
        }
        found.sort_by_key(|(position, _)| *position);
        Ok(found
            .into_iter()
            .map(|(_, push)| (push.config, push.version))
            .collect())
    }

    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError> {
        let call = self
            .inner
            .scripts
            .delete_push
            .call()
            .arg(task_id)
            .arg(config_id);
        let deleted: i64 = self.inner.connection.call(&call).await?;
        Ok(deleted > 0)
    }

    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError> {
        let before = retention.before_ms(now);
        let mut deleted = 0;
        loop {
            let call = self
                .inner
                .scripts
                .prune
                .call()
                .arg(before)
                .arg(retention.count)
                .arg(PRUNE_BATCH);
            let step: usize = self.inner.connection.call(&call).await?;
            deleted += step;
            if step < PRUNE_BATCH {
                return Ok(deleted);
            }
        }
    }

    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut waiting = Vec::new();
        for state in [TaskState::InputRequired, TaskState::AuthRequired] {
            let call = self
                .inner
                .scripts
                .unanswered
                .call()
                .arg(state_name(&state))
                .arg(before_ms)
                .arg(skip.saturating_add(limit));
            let found: Vec<(Vec<u8>, f64)> = self.inner.connection.call(&call).await?;
            let ids = found
                .into_iter()
                .map(|(id, changed_ms)| Some((changed_ms, String::from_utf8(id).ok()?)));
            waiting.extend(ids.flatten());
        }
        waiting.sort_unstable_by(|one, other| {
            one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1))
        });
        let ids = waiting.into_iter().skip(skip).take(limit);
        Ok(ids.map(|(_, id)| id).collect())
    }

    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        let call = self
            .inner
            .scripts
            .make_room
            .call()
            .arg(owner)
            .arg(bytes)
            .arg(budget.per_client)
            .arg(budget.total)
            .arg(u8::from(forget));
        self.inner.connection.call(&call).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        connection::check_prefix(&self.inner).await?;
        // The heartbeat is a write, so a Redis that rejects writes counts as not ready.
        self.inner.heartbeat().await?;
        if self.is_listening.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(StoreError::Failed(format!(
            "Redis at {} answers, but the subscription is not open yet; try again in a second",
            self.inner.connection.display_address()
        )))
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Stop the background tasks first, because the heartbeat would renew the lease.
        self.background.lock().abort_all();
        self.inner.release_lease().await
    }
}

impl RedisStore {
    /// Appends changes; the last ones of a task with the record that they result in, and its checksum.
    async fn change(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
        (record, sum): (Vec<u8>, String),
    ) -> Result<(), StoreError> {
        let SummaryChange {
            status,
            request_excerpt,
        } = SummaryChange::all(changes);
        let phase = status.as_ref().map(|status| Phase::new(&status.state));
        let mut call = self
            .inner
            .scripts
            .append
            .call()
            .arg(task_id)
            .arg(revision)
            .arg(at_ms)
            .arg(self.inner.token())
            .arg(
                status
                    .as_ref()
                    .map_or("", |status| state_name(&status.state)),
            )
            .arg(number(status.as_ref().and_then(|status| status.since_us)))
            .arg(phase.map_or("", phase_name))
            .arg(i32::from(self.inner.is_running(task_id)))
            .arg(request_excerpt.unwrap_or_default())
            .arg(
                status
                    .and_then(|status| status.status_excerpt)
                    .unwrap_or_default(),
            );
        call = call.arg(record).arg(sum);
        for change in changes {
            call = call.arg(body::encode(change)?);
        }
        let connection = &self.inner.connection;
        let reply: String = match self.inner.is_running(task_id) {
            // Retry for the lease time, so that a run survives a restart of Redis. Afterwards another server owns the task.
            true => connection.call_until(&call, self.inner.lease).await?,
            // A client waits for the change, and can send its request again.
            false => connection.call(&call).await?,
        };
        self.inner.outcome(task_id, phase, &reply)
    }

    /// Sets the sizes of listed tasks that may have finished, and the records that fit, together at most `json_bytes`.
    async fn read_records(
        &self,
        owner: Option<&str>,
        tasks: &mut [&mut ListedTask],
        json_bytes: usize,
    ) {
        if tasks.is_empty() {
            return;
        }
        let mut call = self.inner.scripts.records.call().arg(json_bytes);
        for task in tasks.iter() {
            call = call.arg(&task.place.task_id);
        }
        let found: Result<Vec<Option<MeasuredRecord>>, StoreError> =
            self.inner.connection.call(&call).await;
        // The load of a task reports what is wrong with it.
        for (task, record) in tasks.iter_mut().zip(found.unwrap_or_default()) {
            if let Some(record) = record {
                set_record(task, owner, record);
            }
        }
    }

    /// Lists tasks, by their summaries, or with `places` by their ids and the times of their last changes.
    async fn rows<R: FromRedisValue>(
        &self,
        filter: &Filter,
        places: bool,
    ) -> Result<(usize, bool, Vec<R>), StoreError> {
        let (index, owner, state) = index(filter);
        let since = filter.changed_after.map(|at| at.timestamp_micros());
        let (score, last) = match &filter.after {
            Some(after) => (after.changed_ms.to_string(), after.task_id.as_str()),
            None => (String::new(), ""),
        };
        let call = self
            .inner
            .scripts
            .list
            .call()
            .arg(index)
            .arg(filter.page_size)
            .arg(score)
            .arg(last)
            .arg(owner)
            .arg(state)
            .arg(number(since))
            .arg(i32::from(places));
        self.inner.connection.call(&call).await
    }
}

impl Inner {
    /// Returns the error of unreadable configurations. It contains no stored bytes, because they may be credentials.
    fn unreadable_push(&self, task_id: &str) -> StoreError {
        StoreError::Failed(format!(
            "the push notification configurations of task `{task_id}` in Redis at {} cannot be read; another program, or \
             another version of this one, has written under the prefix",
            self.connection.display_address()
        ))
    }
}

fn read(entry: &[u8], task_id: &str) -> Option<(u64, Push)> {
    let space = entry.iter().position(|byte| *byte == b' ')?;
    let (position, push) = entry.split_at(space);
    let position = std::str::from_utf8(position).ok()?.parse().ok()?;
    let push: Push = json::from_slice(push, Limits::NONE).ok()?;
    (push.config.task_id == task_id).then_some((position, push))
}
