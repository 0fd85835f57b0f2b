//! Tells everybody in this process who follows a task what happens to it.
//!
//! A listener has a bounded number of changes waiting for it. One that falls further behind, or that missed something for
//! another reason, is given the task anew, so a slow listener holds up nobody and costs no more than a fast one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2a::TaskState;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::{Feed, News};
use crate::record::{Change, Record};

/// Changes that wait for a listener before it is given the whole anew.
const BEHIND: usize = 64;

/// A change, or that something was missed.
type Told = Option<(u64, Arc<Change>)>;

/// Who follows which task. A task that nobody follows costs nothing.
#[derive(Debug, Clone)]
pub struct Hub {
    followed: Arc<Mutex<HashMap<String, Sender<Told>>>>,
    behind: usize,
}

impl Default for Hub {
    fn default() -> Self {
        Self::new(BEHIND)
    }
}

impl Hub {
    /// A hub with room for `behind` changes a listener.
    pub fn new(behind: usize) -> Self {
        Self {
            followed: Arc::default(),
            behind: behind.max(1),
        }
    }

    /// Tells of the change that made the task's revision `revision`. It is kept already.
    pub fn publish(&self, task_id: &str, revision: u64, change: &Change) {
        let mut followed = self.locked();
        let Some(sender) = followed.get(task_id) else {
            return;
        };
        // A listener that left takes its entry with it, so there is one.
        let _ = sender.send(Some((revision, Arc::new(change.clone()))));
        if settles(change) {
            followed.remove(task_id);
        }
    }

    /// Changes may have been missed, of any task: every listener is given its task anew.
    pub fn missed(&self) {
        for sender in self.locked().values() {
            let _ = sender.send(None);
        }
    }

    /// Whether anybody follows the task.
    pub fn is_followed(&self, task_id: &str) -> bool {
        self.locked().contains_key(task_id)
    }

    /// The task is gone: whoever follows it hears no more.
    pub fn forget(&self, task_id: &str) {
        self.locked().remove(task_id);
    }

    /// Begins to listen. To be called before the task is loaded, so that nothing is missed in between.
    pub fn listen(&self, task_id: &str) -> Listener {
        let mut followed = self.locked();
        let sender = followed
            .entry(task_id.to_owned())
            .or_insert_with(|| Sender::new(self.behind));
        Listener {
            receiver: Some(sender.subscribe()),
            hub: self.clone(),
            task_id: task_id.to_owned(),
        }
    }

    /// How many tasks are followed.
    pub fn followed(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Sender<Told>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who listens to a task.
#[derive(Debug)]
pub struct Listener {
    /// Taken only when it is dropped.
    receiver: Option<Receiver<Told>>,
    hub: Hub,
    task_id: String,
}

impl Listener {
    /// What follows `record`, which was loaded after the listener began. `reload` loads it again for who fell behind;
    /// `None` from it ends the feed.
    pub fn feed<R>(self, record: Record, reload: R) -> Feed
    where
        R: Fn(String) -> BoxFuture<'static, Option<Record>> + Send + 'static,
    {
        if record.is_terminal() {
            return Feed {
                record,
                news: stream::empty().boxed(),
            };
        }
        let following = Following {
            seen: record.revision,
            over: false,
            listener: self,
            reload,
        };
        Feed {
            record,
            news: following.news(),
        }
    }

    /// Forgets what waits.
    fn skip(&mut self) {
        self.receiver = self.receiver.take().map(|receiver| receiver.resubscribe());
    }

    async fn next(&mut self) -> Result<Told, RecvError> {
        match &mut self.receiver {
            Some(receiver) => receiver.recv().await,
            None => Err(RecvError::Closed),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut followed = self.hub.locked();
        // Under the lock, so that of two that leave together the second finds itself the last.
        self.receiver = None;
        if followed
            .get(&self.task_id)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            followed.remove(&self.task_id);
        }
    }
}

struct Following<R> {
    listener: Listener,
    reload: R,
    /// The last revision that was passed on.
    seen: u64,
    over: bool,
}

impl<R> Following<R>
where
    R: Fn(String) -> BoxFuture<'static, Option<Record>> + Send + 'static,
{
    fn news(self) -> BoxStream<'static, News> {
        stream::unfold(self, |mut following| async move {
            let news = following.next().await?;
            Some((news, following))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<News> {
        while !self.over {
            match self.listener.next().await {
                Ok(Some((revision, _))) if revision <= self.seen => {}
                Ok(Some((revision, change))) if revision == self.seen + 1 => {
                    self.seen = revision;
                    self.over = settles(&change);
                    return Some(News::Change(revision, change));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => return self.anew().await,
                Err(RecvError::Closed) => return None,
            }
        }
        None
    }

    async fn anew(&mut self) -> Option<News> {
        // What waits is older than what is loaded now.
        self.listener.skip();
        let record = (self.reload)(self.listener.task_id.clone()).await?;
        self.seen = record.revision;
        self.over = record.is_terminal();
        Some(News::Anew(Box::new(record)))
    }
}

fn settles(change: &Change) -> bool {
    matches!(change, Change::Status(status) if TaskState::is_terminal(&status.state))
}

#[cfg(test)]
mod tests;
