//! Contexts and push notification configurations in Redis.

use std::time::Duration;

use a2a::v1_0::TaskPushNotificationConfig;
use base::json::{self, Limits};
use redis::Cmd;
use serde::{Deserialize, Serialize};

use super::inner::Inner;
use crate::call_context::Version;
use crate::store::{Context, StoreError};

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
