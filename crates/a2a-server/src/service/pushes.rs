//! Registration of webhooks.

use a2a::v1_0::TaskPushNotificationConfig;

use super::SendMessage;
use super::core::{Core, to_a2a_error};
use crate::service::CallContext;
use a2a::Version;
use a2a::{A2aError, ErrorReason};
use base::json::encoded_bytes;

/// The id under which a client of 0.3 finds a webhook that it registered without an id.
const DEFAULT_ID: &str = "default";

/// The maximum length of a webhook's id, in bytes.
const MAX_ID_BYTES: usize = 4096;

impl Core {
    /// Returns the push notification configuration in a message.
    pub(super) fn requested_push_config(
        &self,
        _caller: &CallContext,
        send: &SendMessage,
    ) -> Result<Option<TaskPushNotificationConfig>, A2aError> {
        let config = send
            .request
            .configuration
            .as_ref()
            .and_then(|configuration| configuration.task_push_notification_config.as_ref());
        match config {
            Some(config) => {
                let place = "configuration.taskPushNotificationConfig";
                self.validate_push_config(config.clone(), place).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Validates a configuration, generates an id if it has none, and drops what the validation does not read.
    pub(super) fn validate_push_config(
        &self,
        mut config: TaskPushNotificationConfig,
        place: &str,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        let field = |name: &str| match place {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        self.notifier.accepts(&config).map_err(|error| {
            let name = error.field.clone().unwrap_or_default();
            error.at(field(&name))
        })?;
        if config.id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
            let text = format!("`id` is longer than {MAX_ID_BYTES} bytes");
            return Err(A2aError::new(ErrorReason::InvalidParams, text).at(field("id")));
        }
        if config.id.as_ref().is_none_or(String::is_empty) {
            config.id = Some(self.env.uuid().to_string());
        }
        if let Some(authentication) = &mut config.authentication {
            authentication.scheme = authentication.scheme.trim().into();
        }
        config.tenant = None;
        Ok(config)
    }

    /// Stores a validated configuration, unless the task has its maximum number.
    pub(super) async fn put_push_config(
        &self,
        client: &str,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), A2aError> {
        let id = &config.task_id;
        let max = self.settings.limits.pushes_per_task;
        self.make_room(client, encoded_bytes(config), true).await?;
        // Other requests may register webhooks between the count and the write.
        let _registering = self.push_registrations.acquire(id.clone()).await;
        let configs = self.push_configs(id).await?;
        if configs.len() >= max && configs.iter().all(|existing| existing.id != config.id) {
            return Err(A2aError::new(
                ErrorReason::ResourceExhausted,
                format!("the task `{id}` has {max} webhooks, the maximum; delete one"),
            ));
        }
        self.store
            .put_push(config, version)
            .await
            .map_err(|error| to_a2a_error(error, id))
    }

    pub(super) async fn push_configs(
        &self,
        task_id: &str,
    ) -> Result<Vec<TaskPushNotificationConfig>, A2aError> {
        let configs = self
            .store
            .pushes(task_id)
            .await
            .map_err(|error| to_a2a_error(error, task_id))?;
        Ok(configs.into_iter().map(|(config, _)| config).collect())
    }
}

/// Returns the webhook of this id. In 0.3, `default` also names the first webhook that was registered without an id, as
/// the conformance kit expects.
pub(super) fn find<'a>(
    known: &'a [TaskPushNotificationConfig],
    id: &str,
    version: Version,
) -> Option<&'a TaskPushNotificationConfig> {
    let mut configs = known.iter();
    let named = configs.find(|config| config.id.as_deref() == Some(id));
    let is_generated = |config: &&TaskPushNotificationConfig| {
        let id = config.id.as_deref();
        id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
    };
    named.or_else(|| match (version, id) {
        (Version::V0_3, DEFAULT_ID) => known.iter().find(is_generated),
        _ => None,
    })
}

/// Returns the error of an unknown webhook.
pub(super) fn unknown(task_id: &str) -> A2aError {
    A2aError::new(
        ErrorReason::TaskNotFound,
        format!("the task `{task_id}` has no such push notification configuration; list them"),
    )
}
