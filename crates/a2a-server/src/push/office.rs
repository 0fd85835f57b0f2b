//! Finds out who is to be told, and delivers.

use std::sync::Arc;

use a2a::TaskPushNotificationConfig;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Version;
use crate::metrics::{Metrics, Pushed};
use crate::store::{Store, StoreError};
use common::environment::Environment;

use super::Courier;
use super::clients::Clients;
use super::lane::{Lanes, Next};
use super::letter::{Address, Letter};
use super::notice::Notice;
use super::pace::{Pace, Verdict, judge};

/// What comes in.
pub(super) enum Incoming {
    /// A change that webhooks are notified of, until the client that owns it is removed.
    Notice(Box<Notice>, CancellationToken),
    /// Somebody who waits until everything before is addressed.
    Mark(oneshot::Sender<()>),
}

/// What all workers share.
pub(super) struct Office {
    pub(super) store: Arc<dyn Store>,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) pace: Pace,
    pub(super) lanes: Lanes,
    pub(super) metrics: Metrics,
    pub(super) clients: Clients,
    /// Nothing more is taken in, and nothing is waited for.
    pub(super) closing: CancellationToken,
    /// There is no time left.
    pub(super) ended: CancellationToken,
    pub(super) workers: TaskTracker,
}

impl Office {
    /// Addresses what comes in, one after another, until it is closed and nothing is left.
    pub(super) async fn take_in(self: Arc<Self>, mut notices: mpsc::Receiver<Incoming>) {
        loop {
            let notice = tokio::select! {
                biased;
                () = self.ended.cancelled() => return,
                () = self.closing.cancelled(), if !notices.is_closed() => {
                    notices.close();
                    continue;
                }
                notice = notices.recv() => notice,
            };
            let (notice, removed) = match notice {
                Some(Incoming::Notice(notice, removed)) => (notice, removed),
                Some(Incoming::Mark(done)) => {
                    // Who does not wait any more need not know.
                    let _ = done.send(());
                    continue;
                }
                None => return,
            };
            if removed.is_cancelled() {
                continue;
            }
            if let Err(error) = self.address(&notice, &removed).await {
                self.metrics.pushed(Pushed::Failed);
                tracing::warn!(task = %notice.task_id, %error, "nobody was told of a change: the webhooks cannot be read");
            }
        }
    }

    /// Puts a letter into the lane of everybody who is to be told.
    async fn address(
        self: &Arc<Self>,
        notice: &Notice,
        removed: &CancellationToken,
    ) -> Result<(), StoreError> {
        let configs = self.store.pushes(&notice.task_id).await?;
        if configs.is_empty() {
            return Ok(());
        }
        let asks_for = |version| configs.iter().any(|(_, theirs)| *theirs == version);
        let old = asks_for(Version::V0_3) && notice.is_for_0_3();
        let new = asks_for(Version::V1);
        let task = if old || (new && !notice.stands_alone()) {
            self.store.load(&notice.task_id).await?
        } else {
            None
        }
        .map(|record| record.task);
        let body_1_0 = new.then(|| notice.body_1_0(task.as_ref())).flatten();
        let body_0_3 = task.filter(|_| old).and_then(|task| notice.body_0_3(task));
        for (config, version) in &configs {
            let body = match version {
                Version::V0_3 => &body_0_3,
                Version::V1 => &body_1_0,
            };
            if let Some(body) = body {
                self.post(config, *version, body.clone(), removed.clone());
            }
        }
        Ok(())
    }

    fn post(
        self: &Arc<Self>,
        config: &TaskPushNotificationConfig,
        version: Version,
        body: Bytes,
        removed: CancellationToken,
    ) {
        let letter = match Letter::new(config, version, body, removed) {
            Ok(letter) => letter,
            Err(error) => {
                self.metrics.pushed(Pushed::Failed);
                tracing::warn!(task = %config.task_id, %error, "a webhook cannot be told");
                return;
            }
        };
        let address = Arc::clone(&letter.address);
        let put = self.lanes.put(letter);
        for letter in put.dropped {
            self.note(Pushed::Dropped, &letter, "too many notifications wait");
        }
        if put.begins {
            let office = Arc::clone(self);
            self.workers
                .spawn(async move { office.work_off(&address).await });
        }
    }

    /// Delivers what is in a lane, in order.
    async fn work_off(&self, address: &Address) {
        while !self.ended.is_cancelled() {
            let Some(next) = self.lanes.next(address) else {
                return;
            };
            let delivered = self.ended.run_until_cancelled(self.deliver(&next)).await;
            match delivered {
                Some(Ok(())) => {
                    self.metrics.pushed(Pushed::Delivered);
                    tracing::debug!(task = %address.task_id, config = %address.config_id, "a webhook was told");
                }
                Some(Err(why)) => self.note(Pushed::Failed, &next.letter, &why),
                // Counted with what waits.
                None => self.lanes.put_back(next.letter),
            }
        }
    }

    /// Delivers a notification, unless its client is removed before.
    async fn deliver(&self, next: &Next) -> Result<(), String> {
        let removed = &next.letter.removed;
        let delivered = removed.run_until_cancelled(self.try_all(next)).await;
        delivered.unwrap_or_else(|| Err("its client was removed".to_owned()))
    }

    async fn try_all(&self, next: &Next) -> Result<(), String> {
        let mut tried = 0;
        loop {
            let last = self.closing.is_cancelled();
            tried += 1;
            match self.attempt(next).await {
                Verdict::Delivered => return Ok(()),
                Verdict::Refused(why) => return Err(why),
                Verdict::Again(why, _) if last || tried >= self.pace.tries => {
                    return Err(format!("{why}, {tried} times"));
                }
                Verdict::Again(why, wish) => {
                    let wait = self.pace.wait(tried, wish, self.random());
                    tracing::debug!(
                        task = %next.letter.address.task_id, webhook = %next.letter.origin, %why,
                        "a webhook will be told again in {} ms", wait.as_millis()
                    );
                    let wait = tokio::time::sleep(wait);
                    self.closing.run_until_cancelled(wait).await;
                }
            }
        }
    }

    async fn attempt(&self, next: &Next) -> Verdict {
        // The semaphore is never closed. Without a turn it would still be right to try.
        let _turn = next.turns.acquire().await.ok();
        let letter = &next.letter;
        let post = self.courier.post(
            letter.url.clone(),
            letter.headers.clone(),
            letter.body.clone(),
        );
        let answer = tokio::time::timeout(self.pace.answer, post).await;
        judge(answer.ok(), self.env.system_time().into())
    }

    /// Logs what was not delivered when time was up, and says how many that was.
    pub(super) fn give_up(&self) -> usize {
        let letters = self.lanes.empty();
        for letter in &letters {
            self.note(Pushed::Failed, letter, "the server is being stopped");
        }
        letters.len()
    }

    fn note(&self, became: Pushed, letter: &Letter, why: &str) {
        self.metrics.pushed(became);
        tracing::warn!(
            task = %letter.address.task_id,
            config = %letter.address.config_id,
            webhook = %letter.origin,
            "a webhook was not told: {why}"
        );
    }

    /// From 0 up to 1.
    fn random(&self) -> f64 {
        f64::from(self.env.uuid().as_fields().0) / (f64::from(u32::MAX) + 1.0)
    }
}
