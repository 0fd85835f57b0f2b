//! Registration of webhooks.

use a2a::v1_0::TaskPushNotificationConfig;

use super::SendMessage;
use super::core::{Core, refused};
use crate::call_context::{CallContext, Version};
use a2a::{A2aError, ErrorReason};

/// The maximum length of a webhook's id, in bytes.
const MAX_ID_BYTES: usize = 4096;

impl Core {
    /// Returns the push notification configuration in a message.
    pub(super) fn wanted_push(
        &self,
        _caller: &CallContext,
        send: &SendMessage,
    ) -> Result<Option<TaskPushNotificationConfig>, A2aError> {
        let wanted = send
            .request
            .configuration
            .as_ref()
            .and_then(|asked| asked.task_push_notification_config.as_ref());
        match wanted {
            Some(config) => {
                let place = "configuration.taskPushNotificationConfig";
                self.checked(config.clone(), place).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Validates a configuration, and generates an id if it has none.
    pub(super) fn checked(
        &self,
        mut config: TaskPushNotificationConfig,
        place: &str,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        let field = |name: &str| match place {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        self.notifier.accepts(&config).map_err(|refusal| {
            let wrong = refusal.field.clone().unwrap_or_default();
            refusal.at(field(&wrong))
        })?;
        if config.id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
            let text = format!("`id` is longer than {MAX_ID_BYTES} bytes");
            return Err(A2aError::new(ErrorReason::InvalidParams, text).at(field("id")));
        }
        if config.id.as_ref().is_none_or(String::is_empty) {
            config.id = Some(self.env.uuid().to_string());
        }
        Ok(config)
    }

    /// Stores a validated configuration, unless the task has its maximum number.
    pub(super) async fn keep_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), A2aError> {
        let id = &config.task_id;
        let most = self.settings.limits.pushes_per_task;
        let known = self.push_configs(id).await?;
        if known.len() >= most && known.iter().all(|had| had.id != config.id) {
            return Err(A2aError::new(
                ErrorReason::ResourceExhausted,
                format!("the task `{id}` has {most} webhooks, the maximum; delete one"),
            ));
        }
        self.store
            .put_push(config, version)
            .await
            .map_err(|error| refused(error, id))
    }

    pub(super) async fn push_configs(
        &self,
        task_id: &str,
    ) -> Result<Vec<TaskPushNotificationConfig>, A2aError> {
        let known = self
            .store
            .pushes(task_id)
            .await
            .map_err(|error| refused(error, task_id))?;
        Ok(known.into_iter().map(|(config, _)| config).collect())
    }
}

/// Returns the error of an unknown webhook.
pub(super) fn unknown(task_id: &str) -> A2aError {
    A2aError::new(
        ErrorReason::TaskNotFound,
        format!("the task `{task_id}` has no such push notification configuration; list them"),
    )
}
