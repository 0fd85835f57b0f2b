//! What every store can do, done by this one.

use std::sync::{Arc, PoisonError};

use a2a::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};

use super::command::{Answer, Append, Ask};
use super::line::{Kept, Write};
use super::{Durable, blocking, closed, read};
use crate::caller::Version;
use crate::record::{Change, Record};
use crate::store::{Context, Feed, Filter, Listed, Retention, Store, StoreError, Waiting};

impl Store for Durable {
    fn create<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let line = Write::New(record).line()?;
            let record = Box::new(record.clone());
            self.ask(Ask::Create { record, line }).await.map(|_| ())
        }
        .boxed()
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let line = Write::Change {
                id: task_id,
                revision,
                at_ms,
                change,
            };
            let ask = Ask::Append(Box::new(Append {
                line: line.line()?,
                id: task_id.to_owned(),
                revision,
                at_ms,
                change: change.clone(),
            }));
            self.ask(ask).await.map(|_| ())
        }
        .boxed()
    }

    fn load<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Record>, StoreError>> {
        async move { Ok(self.find(task_id).await?.map(|(record, _)| record)) }.boxed()
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Listed, StoreError>> {
        let (index, filter) = (Arc::clone(&self.shared.index), filter.clone());
        blocking(move || read::page(&index, &filter)).boxed()
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move { Ok(self.count(Ask::Forget(vec![task_id.to_owned()])).await? > 0) }.boxed()
    }

    fn follow<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Feed>, StoreError>> {
        async move {
            let listener = self.shared.hub.listen(task_id);
            let Some(record) = self.load(task_id).await? else {
                return Ok(None);
            };
            let store = self.clone();
            let reload = move |id: String| {
                let store = store.clone();
                async move { store.load(&id).await.ok().flatten() }.boxed()
            };
            Ok(Some(listener.feed(record, reload)))
        }
        .boxed()
    }

    fn claim<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>> {
        async move {
            if let Some(context) = self.index(|index| index.context(context_id).cloned()) {
                return Ok(context);
            }
            let ask = Ask::Claim {
                id: context_id.to_owned(),
                owner: owner.to_owned(),
                session: session.to_owned(),
            };
            match self.ask(ask).await? {
                Answer::Context(context) => Ok(context),
                Answer::Done | Answer::Count(_) => Err(StoreError::Conflict),
            }
        }
        .boxed()
    }

    fn enter<'a>(
        &'a self,
        queue: &'a str,
        _task_id: &'a str,
    ) -> BoxFuture<'a, Result<Waiting, StoreError>> {
        future::ready(Ok(self.shared.queues.enter(queue))).boxed()
    }

    fn recover(&self) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        async move {
            let left = std::mem::take(
                &mut *self
                    .shared
                    .left
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            let mut records = Vec::with_capacity(left.len());
            for id in left {
                records.extend(self.load(&id).await?.filter(|record| !record.is_settled()));
            }
            Ok(records)
        }
        .boxed()
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let kept = Box::new(Kept {
            config: config.clone(),
            version,
        });
        async move { self.ask(Ask::PutPush(kept)).await.map(|_| ()) }.boxed()
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>> {
        async move {
            let pushes = self.find(task_id).await?.map(|(_, pushes)| pushes);
            let pushes = pushes.unwrap_or_default().into_iter();
            Ok(pushes.map(|kept| (kept.config, kept.version)).collect())
        }
        .boxed()
    }

    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            let ask = Ask::DeletePush {
                task: task_id.to_owned(),
                config: config_id.to_owned(),
            };
            Ok(self.count(ask).await? > 0)
        }
        .boxed()
    }

    fn retire<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        /// So that nobody waits long for those that go.
        const AT_ONCE: usize = 1_000;
        async move {
            let outlived = self.index(|index| index.outlived(retention, now));
            let mut count = 0;
            for some in outlived.chunks(AT_ONCE) {
                count += self.count(Ask::Forget(some.to_vec())).await?;
            }
            Ok(count)
        }
        .boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.shared.disk.usable()?;
            match self.shared.disk.troubled() {
                // There may be room again.
                Some(_) => self.ask(Ask::Probe).await.map(|_| ()),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            match self.ask(Ask::Close).await {
                Err(error) if error != closed() => Err(error),
                _ => Ok(()),
            }
        }
        .boxed()
    }
}
