//! Following a task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::ears::Wish;
use super::inner::Inner;
use crate::record::Record;
use crate::store::hub::Hub;
use crate::store::{Feed, News, StoreError};

/// How long to wait before a task that could not be loaded is loaded again.
const PAUSE: Duration = Duration::from_millis(200);

/// Tells the ears that somebody left.
struct Left {
    task_id: String,
    wishes: UnboundedSender<Wish>,
}

impl Drop for Left {
    fn drop(&mut self) {
        let task_id = std::mem::take(&mut self.task_id);
        // There are no ears once the store is gone.
        let _ = self.wishes.send(Wish::Left(task_id));
    }
}

/// News of a task. The fields are dropped in this order: who left is not in the hub any more when the ears hear of it.
struct Watched {
    news: BoxStream<'static, News>,
    _left: Left,
}

impl Stream for Watched {
    type Item = News;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<News>> {
        self.news.poll_next_unpin(cx)
    }
}

/// The task as it stands, and what follows.
pub(super) async fn follow(
    inner: Arc<Inner>,
    hub: &Hub,
    wishes: &UnboundedSender<Wish>,
    task_id: &str,
) -> Result<Option<Feed>, StoreError> {
    // Before the listener, so that it is dropped after it.
    let left = Left {
        task_id: task_id.to_owned(),
        wishes: wishes.clone(),
    };
    let listener = hub.listen(task_id);
    let (reply, listening) = oneshot::channel();
    let gone = || StoreError::Failed("the store is closed".to_owned());
    wishes
        .send(Wish::Follow(task_id.to_owned(), reply))
        .map_err(|_| gone())?;
    listening.await.map_err(|_| gone())??;
    let Some(record) = inner.load(task_id).await? else {
        return Ok(None);
    };
    let feed = listener.feed(record, move |id| reload(inner.clone(), id).boxed());
    Ok(Some(Feed {
        record: feed.record,
        news: Watched {
            news: feed.news,
            _left: left,
        }
        .boxed(),
    }))
}

/// Loads a task for who missed something, as soon as Redis answers.
fn reload(inner: Arc<Inner>, task_id: String) -> BoxFuture<'static, Option<Record>> {
    async move {
        loop {
            match inner.load(&task_id).await {
                Ok(found) => return found,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
    .boxed()
}
