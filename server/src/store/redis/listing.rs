//! Which tasks there are, and which are kept no longer.
//!
//! Sorted sets by the time of the last change: of all tasks, of each owner, of each context, of each state, and of each
//! state and owner. What a filter asks beyond the best of them is asked of each task in that one.

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;

use super::inner::Inner;
use crate::store::{Cursor, Filter, Listed, Retention, StoreError, state_word};

/// How many tasks are forgotten in one step, in which Redis does nothing else.
const BATCH: usize = 100;

/// The set to look in, and what is asked of each task there: its owner and its state.
fn index(filter: &Filter) -> (String, &str, &'static str) {
    let owner = filter.owner.as_deref();
    let state = filter.state.as_ref().map(state_word);
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

impl Inner {
    pub(super) async fn list(&self, filter: &Filter) -> Result<Listed, StoreError> {
        let (index, owner, state) = index(filter);
        let since = filter.changed_after.map(|at| at.timestamp_micros());
        let (score, last) = match &filter.after {
            Some(after) => (after.changed_ms.to_string(), after.task_id.as_str()),
            None => (String::new(), ""),
        };
        let call = self
            .scripts
            .list
            .call()
            .arg(index)
            .arg(filter.page_size)
            .arg(score)
            .arg(last)
            .arg(owner)
            .arg(state)
            .arg(since.map(|at| at.to_string()).unwrap_or_default());
        let (total, more, found): (usize, bool, Vec<(String, i64)>) = self.link.call(&call).await?;
        let next = found
            .last()
            .filter(|_| more)
            .map(|(task_id, changed_ms)| Cursor {
                changed_ms: *changed_ms,
                task_id: task_id.clone(),
            });
        let fetched = try_join_all(found.iter().map(|(id, _)| self.fetch(id))).await?;
        let mut records = Vec::with_capacity(fetched.len());
        for ((id, _), fetched) in found.iter().zip(fetched) {
            match self.read(id, fetched).await {
                // One that was deleted in the meantime is left out.
                Ok(record) => records.extend(record),
                // So is one that cannot be read: a list is not worth failing for it.
                Err(why) => tracing::error!(%why, "a task is left out of a list"),
            }
        }
        Ok(Listed {
            records,
            next,
            total,
        })
    }

    pub(super) async fn retire(
        &self,
        retention: &Retention,
        now: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let before = retention.before_ms(now);
        let mut forgotten = 0;
        loop {
            let call = self
                .scripts
                .retire
                .call()
                .arg(before)
                .arg(retention.count)
                .arg(BATCH);
            let step: usize = self.link.call(&call).await?;
            forgotten += step;
            if step < BATCH {
                return Ok(forgotten);
            }
        }
    }
}
