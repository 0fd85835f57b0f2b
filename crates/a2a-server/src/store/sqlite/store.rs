//! The implementation of [`TaskStore`].

use std::sync::Arc;

use a2a::v1_0::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::SqlError;
use super::tasks::{self, NewTask};
use super::writer::{self, Command};
use super::{DELETE_BATCH, Readers, SqliteStore, queries};
use crate::call_context::Version;
use crate::store::usage::length;
use crate::store::{
    Budget, Context, Filter, QueueTicket, Retention, StoreError, Summary, SummaryChange,
    SummaryPage, TaskStore, TaskSubscription, body, enqueue,
};
use crate::task_record::{TaskChange, TaskRecord};

impl TaskStore for SqliteStore {
    fn create<'a>(&'a self, record: &'a TaskRecord) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let json = body::encode(record)?;
            let bytes = json.len();
            let new = NewTask {
                summary: Summary::new(record),
                session: record.session.clone(),
                revision: record.revision,
                json,
            };
            let work = move |connection: &Connection| tasks::create(connection, &new);
            let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
            let after = move |(): &()| usage.add(&owner, length(bytes));
            self.write(bytes, work, after).await
        }
        .boxed()
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        changes: &'a [TaskChange],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let encoded = changes.iter().map(body::encode);
            let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
            let encoded = Arc::new(encoded);
            let bytes = encoded.iter().map(Vec::len).sum();
            let (id, effect) = (task_id.to_owned(), SummaryChange::all(changes));
            let encoded_changes = Arc::clone(&encoded);
            let work = move |connection: &Connection| {
                tasks::append(connection, &id, revision, at_ms, &effect, &encoded_changes)
            };
            let usage = self.shared.usage.clone();
            let (events, id) = (self.shared.events.clone(), task_id.to_owned());
            let followed = events.has_listeners(task_id).then(|| changes.to_vec());
            let after = move |owner: &String| {
                usage.add(owner, length(bytes));
                let began_meanwhile = || {
                    let changes = encoded.iter().map(|json| serde_json::from_slice(json).ok());
                    let changes = events.has_listeners(&id).then(|| changes.collect());
                    changes.flatten()
                };
                let changes: Option<Vec<TaskChange>> = followed.or_else(began_meanwhile);
                for (revision, change) in (revision + 1..).zip(changes.iter().flatten()) {
                    events.publish(&id, revision, change);
                }
            };
            self.write(bytes, work, after).await?;
            Ok(())
        }
        .boxed()
    }

    fn load<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskRecord>, StoreError>> {
        self.find(task_id).boxed()
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<SummaryPage, StoreError>> {
        let filter = filter.clone();
        self.read(move |connection| queries::page(connection, &filter))
            .boxed()
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move { Ok(self.forget(vec![task_id.to_owned()]).await? > 0) }.boxed()
    }

    fn subscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskSubscription>, StoreError>> {
        async move {
            let listener = self.shared.events.subscribe(task_id);
            let Some(record) = self.load(task_id).await? else {
                return Ok(None);
            };
            let store = self.clone();
            let reload = move |id: String| {
                let store = store.clone();
                async move { store.load(&id).await.ok().flatten() }.boxed()
            };
            Ok(Some(listener.subscription(record, reload)))
        }
        .boxed()
    }

    fn get_or_create_context<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>> {
        async move {
            let id = context_id.to_owned();
            let known = self.read(move |connection| Ok(queries::context(connection, &id)?));
            if let Some(context) = known.await? {
                return Ok(context);
            }
            let [id, owner, session] = [context_id, owner, session].map(str::to_owned);
            let work = move |connection: &Connection| {
                tasks::get_or_create_context(connection, &id, &owner, &session)?;
                let context = queries::context(connection, &id)?;
                context.ok_or(SqlError::Rejected(StoreError::Conflict))
            };
            self.write(0, work, |_| {}).await
        }
        .boxed()
    }

    fn enqueue<'a>(
        &'a self,
        queue: &'a str,
        _task_id: &'a str,
    ) -> BoxFuture<'a, Result<QueueTicket, StoreError>> {
        future::ready(Ok(enqueue(&self.shared.queues, queue))).boxed()
    }

    fn recover(&self) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        async move {
            let last_key = self.shared.last_existing_key.lock().take();
            match last_key {
                Some(last_key) => {
                    self.read(move |connection| queries::open(connection, last_key))
                        .await
                }
                None => Ok(Vec::new()),
            }
        }
        .boxed()
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let json = serde_json::to_string(config).map_err(|error| {
                StoreError::Failed(format!("cannot write the push configuration: {error}"))
            })?;
            let task_id = config.task_id.clone();
            let config_id = config.id.clone().unwrap_or_default();
            let work = move |connection: &Connection| {
                tasks::put_push(connection, &task_id, &config_id, version, &json)
            };
            let with_pushes = Arc::clone(&self.shared.with_pushes);
            let id = config.task_id.clone();
            let usage = self.shared.usage.clone();
            let after = move |(owner, more): &(String, i64)| {
                usage.add(owner, *more);
                with_pushes.lock().insert(id);
            };
            self.write(0, work, after).await.map(drop)
        }
        .boxed()
    }

    fn may_have_pushes(&self, task_id: &str) -> bool {
        self.shared.with_pushes.lock().contains(task_id)
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>> {
        let id = task_id.to_owned();
        self.read(move |connection| queries::pushes(connection, &id))
            .boxed()
    }

    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let [task_id, config_id] = [task_id, config_id].map(str::to_owned);
        let work =
            move |connection: &Connection| tasks::delete_push(connection, &task_id, &config_id);
        let usage = self.shared.usage.clone();
        let after = move |deleted: &Option<(String, i64)>| {
            if let Some((owner, more)) = deleted {
                usage.add(owner, *more);
            }
        };
        async move { Ok(self.write(0, work, after).await?.is_some()) }.boxed()
    }

    fn prune<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        let (before_ms, count) = (retention.before_ms(now), retention.count);
        async move {
            let mut forgotten = 0;
            loop {
                let ids = self.read(move |connection| {
                    queries::expired(connection, before_ms, count, DELETE_BATCH)
                });
                match self.forget(ids.await?).await? {
                    0 => return Ok(forgotten),
                    more => forgotten += more,
                }
            }
        }
        .boxed()
    }

    fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.read(move |connection| queries::unanswered(connection, before_ms, skip, limit))
            .boxed()
    }

    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
        forget: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            let Some(shortfall) = self.shared.usage.shortfall(owner, bytes, budget) else {
                return Ok(false);
            };
            if shortfall == 0 {
                return Ok(true);
            }
            let whose = owner.to_owned();
            let oldest =
                self.read(move |connection| queries::oldest(connection, &whose, shortfall));
            let oldest = oldest.await?;
            let room = !oldest.is_empty();
            for some in oldest.chunks(DELETE_BATCH).filter(|_| forget) {
                self.forget(some.to_vec()).await?;
            }
            Ok(room)
        }
        .boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if self.last_error().is_none() {
                return Ok(());
            }
            // Probe whether the disk has room again.
            let probe = |connection: &Connection| Ok(writer::probe(connection)?);
            self.write(0, probe, |()| {}).await?;
            // The error of a failed sync remains until a sync succeeds.
            self.last_error().map_or(Ok(()), Err)
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            *self.shared.readers.lock() = Readers {
                idle: Vec::new(),
                closed: true,
            };
            let (reply, answer) = oneshot::channel();
            match self.shared.commands.send(Command::Close(reply)) {
                Ok(()) => answer.await.unwrap_or(Ok(())),
                // The writer is closed already.
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }
}
