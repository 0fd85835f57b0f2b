//! The one connection that listens, for everybody in this process: to the tasks that somebody follows, and to what is said to
//! this server.
//!
//! A channel may drop what is said while nobody listens. So whoever follows a task listens first and loads it then, and is
//! given it anew after the connection broke.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::bells::Bells;
use super::inner::Inner;
use super::link::{ANSWER, CONNECT};
use super::tasks::news_of;
use crate::store::StoreError;
use crate::store::hub::Hub;

/// How often to ask whether the connection still stands.
const PING: Duration = Duration::from_secs(5);
/// How long to wait before the first attempt at a new connection; twice as long before every further one.
const PAUSE: Duration = Duration::from_millis(50);
/// At most so long.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Wishes that go to Redis together.
const TOGETHER: usize = 256;

/// What the ears are asked for.
pub(super) enum Wish {
    /// To listen to a task, which is in the hub by now; and to say when that is so.
    Follow(String, oneshot::Sender<Result<(), StoreError>>),
    /// Somebody stopped listening to a task.
    Left(String),
}

/// The ears of a server.
pub(super) struct Ears {
    pub(super) inner: Arc<Inner>,
    pub(super) hub: Hub,
    pub(super) bells: Arc<Bells>,
    pub(super) wishes: UnboundedReceiver<Wish>,
    /// Whether they hear anything now.
    pub(super) open: Arc<AtomicBool>,
    /// The tasks that are listened to.
    pub(super) tasks: HashSet<String>,
}

type Both = (PubSubSink, PubSubStream);

/// Why a connection is not used any longer.
enum End {
    /// It broke.
    Broken,
    /// Nobody will wish for anything any more.
    Over,
}

impl Ears {
    /// Connects, and listens to what is listened to already.
    ///
    /// # Errors
    /// Redis cannot be listened to.
    pub(super) async fn connect(&self) -> Result<Both, StoreError> {
        let made = async {
            let pubsub = self.inner.link.client().get_async_pubsub().await?;
            let (mut sink, stream) = pubsub.split();
            let own = format!("{}server:{}", self.inner.channels, self.inner.server);
            let tasks = self.tasks.iter().map(|id| self.channel(id));
            let channels: Vec<String> = std::iter::once(own).chain(tasks).collect();
            sink.subscribe(&channels).await?;
            Ok((sink, stream))
        };
        match timeout(CONNECT + ANSWER, made).await {
            Ok(made) => made.map_err(|why| self.inner.link.failed(&why)),
            Err(_) => Err(self.away()),
        }
    }

    /// Listens until nobody can wish for anything any more, first over `both`.
    pub(super) async fn listen(mut self, both: Both) {
        let mut both = Some(both);
        let mut pause = PAUSE;
        loop {
            let why = match both.take() {
                Some(both) => {
                    pause = PAUSE;
                    self.open.store(true, Ordering::Relaxed);
                    // Whatever was said before now may have been missed.
                    self.hub.missed();
                    self.bells.all();
                    let end = self.hear_all(both).await;
                    self.open.store(false, Ordering::Relaxed);
                    if matches!(end, End::Over) {
                        return;
                    }
                    tracing::warn!(
                        redis = self.inner.link.shown(),
                        "the connection that listens to Redis broke"
                    );
                    self.away()
                }
                None => match self.connect().await {
                    Ok(made) => {
                        tracing::info!(redis = self.inner.link.shown(), "listening to Redis again");
                        both = Some(made);
                        continue;
                    }
                    Err(why) => why,
                },
            };
            if matches!(self.refuse(&why, pause).await, End::Over) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn hear_all(&mut self, (mut sink, mut stream): Both) -> End {
        let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut wishes = Vec::new();
        loop {
            tokio::select! {
                said = stream.next() => match said {
                    Some(said) => self.hear(&said),
                    None => return End::Broken,
                },
                taken = self.wishes.recv_many(&mut wishes, TOGETHER) => {
                    if taken == 0 {
                        return End::Over;
                    }
                    if let Err(why) = self.fulfil(&mut sink, &mut wishes).await {
                        tracing::debug!(%why, "could not listen to a task");
                        return End::Broken;
                    }
                }
                _ = ping.tick() => {
                    if !matches!(timeout(ANSWER, sink.ping::<Value>()).await, Ok(Ok(_))) {
                        return End::Broken;
                    }
                }
            }
        }
    }

    fn hear(&self, said: &Msg) {
        let Some(name) = said
            .get_channel_name()
            .strip_prefix(self.inner.channels.as_str())
        else {
            return;
        };
        let payload = said.get_payload_bytes();
        if let Some(task_id) = name.strip_prefix("task:") {
            if !self.hub.is_followed(task_id) {
                return;
            }
            match news_of(payload) {
                Some((revision, change)) => self.hub.publish(task_id, revision, &change),
                None => self.hub.forget(task_id),
            }
        } else if let Some(place) = payload.strip_prefix(b"turn ") {
            if let Ok(place) = std::str::from_utf8(place) {
                self.bells.turn(place);
            }
        } else {
            self.bells.cancels.notify_one();
        }
    }

    /// Fulfils wishes, all of them together.
    async fn fulfil(
        &mut self,
        sink: &mut PubSubSink,
        wishes: &mut Vec<Wish>,
    ) -> Result<(), StoreError> {
        let mut begin = Vec::new();
        let mut end = Vec::new();
        let mut waiting = Vec::new();
        for wish in wishes.drain(..) {
            match wish {
                Wish::Follow(task_id, reply) => {
                    if !self.tasks.contains(&task_id) {
                        begin.push(self.channel(&task_id));
                        self.tasks.insert(task_id);
                    }
                    waiting.push(reply);
                }
                Wish::Left(task_id) => {
                    // Where somebody else came in the meantime he is in the hub.
                    if !self.hub.is_followed(&task_id) && self.tasks.remove(&task_id) {
                        end.push(self.channel(&task_id));
                    }
                }
            }
        }
        // One that came and left in the same breath is in both, and what counts is that it left.
        let asked = async {
            if !begin.is_empty() {
                sink.subscribe(&begin).await?;
            }
            if !end.is_empty() {
                sink.unsubscribe(&end).await?;
            }
            Ok(())
        };
        let outcome = match timeout(ANSWER, asked).await {
            Ok(outcome) => outcome.map_err(|why| self.inner.link.failed(&why)),
            Err(_) => Err(self.away()),
        };
        for reply in waiting {
            // Who does not wait any more says so by leaving.
            let _ = reply.send(outcome.clone());
        }
        outcome
    }

    /// Says no to everybody for a while.
    async fn refuse(&mut self, why: &StoreError, pause: Duration) -> End {
        let end = Instant::now() + pause;
        loop {
            match tokio::time::timeout_at(end, self.wishes.recv()).await {
                Ok(Some(Wish::Follow(_, reply))) => {
                    let _ = reply.send(Err(why.clone()));
                }
                Ok(Some(Wish::Left(task_id))) => {
                    if !self.hub.is_followed(&task_id) {
                        self.tasks.remove(&task_id);
                    }
                }
                Ok(None) => return End::Over,
                Err(_) => return End::Broken,
            }
        }
    }

    fn channel(&self, task_id: &str) -> String {
        format!("{}task:{task_id}", self.inner.channels)
    }

    fn away(&self) -> StoreError {
        StoreError::Failed(format!(
            "Redis at {} does not answer; once it does everything goes on by itself",
            self.inner.link.shown()
        ))
    }
}
