//! Lists of tasks in Redis, the deletion of old tasks, contexts, and push notification configurations.
//!
//! Redis has sorted sets by the time of the last change: for all tasks, each owner, each context, each state, and each
//! pair of state and owner. A list reads the smallest set that fits and filters its tasks.

use std::time::Duration;

use a2a::v1_0::{TaskPushNotificationConfig, TaskState};
use base::json;
use base::json::Limits;
use chrono::{DateTime, Utc};
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::Inner;
use super::tasks::{Row, summary};
use crate::call_context::Version;
use crate::store::{
    Budget, Context, Filter, Retention, StoreError, Summary, SummaryPage, state_name,
};

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

impl Inner {
    pub(super) async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError> {
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
        let (total, more, found): (usize, bool, Vec<Row>) = self.connection.call(&call).await?;
        let tasks: Vec<Summary> = found.into_iter().map(summary).collect();
        Ok(SummaryPage::new(tasks, more, total))
    }

    pub(super) async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let mut waiting = Vec::new();
        for state in [TaskState::InputRequired, TaskState::AuthRequired] {
            let mut range = redis::cmd("ZRANGEBYSCORE");
            range
                .arg(format!("{}state:{}", self.prefix, state_name(&state)))
                .arg("-inf")
                .arg(format!("({before_ms}"))
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(0)
                .arg(skip.saturating_add(limit));
            let found: Vec<(Vec<u8>, f64)> = self.connection.query(&range).await?;
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

    pub(super) async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        let call = self
            .scripts
            .make_room
            .call()
            .arg(owner)
            .arg(bytes)
            .arg(budget.per_client)
            .arg(budget.total)
            .arg(u8::from(forget));
        self.connection.call(&call).await
    }

    pub(super) async fn prune(
        &self,
        retention: &Retention,
        now: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let before = retention.before_ms(now);
        let mut deleted = 0;
        loop {
            let call = self
                .scripts
                .prune
                .call()
                .arg(before)
                .arg(retention.count)
                .arg(PRUNE_BATCH);
            let step: usize = self.connection.call(&call).await?;
            deleted += step;
            if step < PRUNE_BATCH {
                return Ok(deleted);
            }
        }
    }
}

/// How long Redis keeps a context without tasks.
const EMPTY_CONTEXT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A stored push notification configuration.
#[derive(Serialize, Deserialize)]
struct Push {
    config: TaskPushNotificationConfig,
    version: Version,
}

impl Inner {
    pub(super) async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        let call = self
            .scripts
            .get_or_create_context
            .call()
            .arg(context_id)
            .arg(owner)
            .arg(session)
            .arg(EMPTY_CONTEXT_LIFETIME.as_secs() * 1000);
        let (owner, session): (String, String) = self.connection.call(&call).await?;
        Ok(Context { owner, session })
    }

    pub(super) async fn put_push(
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
            .scripts
            .put_push
            .call()
            .arg(&config.task_id)
            .arg(config.id.as_deref().unwrap_or_default())
            .arg(entry);
        let reply: String = self.connection.call(&call).await?;
        match reply.as_str() {
            "ok" => Ok(()),
            "gone" => Err(StoreError::NotFound),
            _ => Err(self.connection.unexpected_answer()),
        }
    }

    pub(super) async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        let entries: Vec<Vec<u8>> = self
            .connection
            .query(Cmd::new().arg("HVALS").arg(self.push_key(task_id)))
            .await?;
        let mut found = Vec::with_capacity(entries.len());
        for entry in &entries {
            found.push(read(entry, task_id).ok_or_else(|| self.unreadable_push(task_id))?);
        }
        found.sort_by_key(|(position, _)| *position);
        Ok(found
            .into_iter()
            .map(|(_, push)| (push.config, push.version))
            .collect())
    }

    pub(super) async fn delete_push(
        &self,
        task_id: &str,
        config_id: &str,
    ) -> Result<bool, StoreError> {
        let call = self.scripts.delete_push.call().arg(task_id).arg(config_id);
        let deleted: i64 = self.connection.call(&call).await?;
        Ok(deleted > 0)
    }

    fn push_key(&self, task_id: &str) -> String {
        format!("{}push:{task_id}", self.prefix)
    }

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
