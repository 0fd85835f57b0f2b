//! A notification: the URL of its webhook, its headers, and its body, the payload of a change.

use std::sync::Arc;

use a2a::http::{A2A_JSON, JSON, NOTIFICATION_TOKEN_HEADER};
use a2a::v1_0::{
    Artifact, AuthenticationInfo, StreamResponse, Task, TaskArtifactUpdateEvent,
    TaskPushNotificationConfig, TaskStatus, TaskStatusUpdateEvent,
};
use a2a::{A2aError, ErrorReason, v0_3};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;

/// The maximum length of a URL, a token and credentials, in bytes. The store keeps them as long as the task.
const MAX_FIELD_BYTES: usize = 4096;

/// The maximum length of the name of an authentication scheme, in bytes.
const MAX_SCHEME_BYTES: usize = 64;

/// The key of a push notification configuration. The server delivers the notifications of one key in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ConfigKey {
    pub(super) task_id: String,
    pub(super) config_id: String,
}

/// A notification for one webhook.
pub(super) struct PushNotification {
    pub(super) config: Arc<ConfigKey>,
    /// The client that owns the task.
    pub(super) client: Arc<str>,
    /// Scheme, host and port of the webhook. Log lines contain no other part of the URL.
    pub(super) origin: Arc<str>,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Cancelled when the webhook's client is removed.
    pub(super) removed: CancellationToken,
}

impl PushNotification {
    /// Creates a notification.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub(super) fn new(
        config: &TaskPushNotificationConfig,
        version: Version,
        client: Arc<str>,
        body: Bytes,
        removed: CancellationToken,
    ) -> Result<Self, A2aError> {
        let (url, mut headers) = parse_config(config)?;
        let media_type = match version {
            Version::V0_3 => JSON,
            Version::V1_0 => A2A_JSON,
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        Ok(Self {
            config: Arc::new(ConfigKey {
                task_id: config.task_id.clone(),
                config_id: config.id.clone().unwrap_or_default(),
            }),
            client,
            origin: url.origin().ascii_serialization().into(),
            url,
            headers,
            body,
            removed,
        })
    }
}

/// Returns the URL of a configuration, and the headers that authenticate the server to the webhook.
///
/// # Errors
/// [`ErrorReason::InvalidParams`] that names the invalid field.
pub(super) fn parse_config(
    config: &TaskPushNotificationConfig,
) -> Result<(Url, HeaderMap), A2aError> {
    let url = url(&config.url)?;
    // The store keeps every registered field, so this checks all of them, even unused ones.
    if let Some(info) = &config.authentication {
        scheme(info.scheme.trim())?;
    }
    if config
        .id
        .as_ref()
        .is_some_and(|id| id.len() > MAX_FIELD_BYTES)
    {
        let text = format!("`id` is longer than {MAX_FIELD_BYTES} bytes");
        return Err(A2aError::new(ErrorReason::InvalidParams, text).at("id"));
    }
    let mut headers = HeaderMap::new();
    let token = config.token.as_deref().filter(|token| !token.is_empty());
    if let Some(token) = token {
        headers.insert(NOTIFICATION_TOKEN_HEADER, value(token, "token")?);
    }
    if let Some(authorization) = authorization(config.authentication.as_ref(), token)? {
        headers.insert(AUTHORIZATION, authorization);
    }
    Ok((url, headers))
}

/// Returns the `Authorization` header: the registered credentials, or else the token as a bearer token.
fn authorization(
    registered: Option<&AuthenticationInfo>,
    token: Option<&str>,
) -> Result<Option<HeaderValue>, A2aError> {
    let credentials = registered.and_then(|info| {
        let credentials = info
            .credentials
            .as_deref()
            .filter(|text| !text.is_empty())?;
        Some((info.scheme.trim(), credentials))
    });
    let text = match (credentials, token) {
        (Some(("", credentials)), _) => format!("Bearer {credentials}"),
        (Some((scheme, credentials)), _) => format!("{scheme} {credentials}"),
        (None, Some(token)) => format!("Bearer {token}"),
        (None, None) => return Ok(None),
    };
    value(&text, "authentication").map(Some)
}

/// Checks that the name of an authentication scheme is empty or a token (RFC 9110 §11.1).
fn scheme(name: &str) -> Result<(), A2aError> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.len() <= MAX_SCHEME_BYTES && name.chars().all(is_token) {
        return Ok(());
    }
    let text = format!(
        "`scheme` is not an authentication scheme: it must be one word such as `Bearer`, of at most {MAX_SCHEME_BYTES} bytes"
    );
    Err(A2aError::new(ErrorReason::InvalidParams, text).at("authentication"))
}

/// Returns a header value that is marked as sensitive.
fn value(text: &str, field: &'static str) -> Result<HeaderValue, A2aError> {
    let mut value = (text.len() <= MAX_FIELD_BYTES)
        .then(|| HeaderValue::from_str(text).ok())
        .flatten()
        .ok_or_else(|| {
            let text = format!(
                "`{field}` is not valid in an HTTP header: it must be printable and at most {MAX_FIELD_BYTES} bytes"
            );
            A2aError::new(ErrorReason::InvalidParams, text).at(field)
        })?;
    value.set_sensitive(true);
    Ok(value)
}

fn url(text: &str) -> Result<Url, A2aError> {
    let refuse = |cause: String| {
        let text = format!("`url` {cause}; it must be the http(s) URL of a webhook");
        Err(A2aError::new(ErrorReason::InvalidParams, text).at("url"))
    };
    if text.len() > MAX_FIELD_BYTES {
        return refuse(format!("is longer than {MAX_FIELD_BYTES} bytes"));
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return refuse(format!("is not a URL ({error})")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse(format!("begins with `{}:`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("contains a user name or password; use `authentication`".to_owned());
    }
    Ok(url)
}

/// A change in the form for webhooks. It contains no task, because most tasks have no webhook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PushPayload {
    pub(super) task_id: String,
    /// The client that owns the task.
    pub(super) client: Arc<str>,
    context_id: String,
    what: PayloadKind,
}

#[derive(Debug, Clone, PartialEq)]
enum PayloadKind {
    /// A new status.
    Status(TaskStatus),
    /// The complete artifact with this id.
    Artifact(String),
}

impl PushPayload {
    /// Creates the payload of a change; `None` if webhooks are not notified of it. Webhooks receive complete artifacts,
    /// while streams receive chunks.
    pub(super) fn new(record: &TaskRecord, change: &TaskChange) -> Option<Self> {
        let what = match change {
            TaskChange::Status(status) => PayloadKind::Status(status.clone()),
            TaskChange::Artifact {
                artifact,
                last_chunk: true,
                ..
            } => PayloadKind::Artifact(artifact.artifact_id.clone()),
            TaskChange::Artifact { .. }
            | TaskChange::Message(_)
            | TaskChange::Metadata(_)
            | TaskChange::Run(_)
            | TaskChange::Started => {
                return None;
            }
        };
        Some(Self {
            task_id: record.task.id.clone(),
            client: record.owner.as_str().into(),
            context_id: record.task.context_id.clone(),
            what,
        })
    }

    /// Returns whether the server notifies webhooks of 0.3 of this change. They receive the whole task, and only when
    /// its state changes.
    pub(super) fn applies_to_0_3(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// Returns whether [`body_1_0`](Self::body_1_0) works without the task.
    pub(super) fn is_self_contained(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// Returns the body for a webhook of 1.0 (A2A 1.0 §4.3.3). `task` may be `None` if the payload is self-contained.
    pub(super) fn body_1_0(&self, task: Option<&Task>) -> Option<Bytes> {
        let event = match &self.what {
            PayloadKind::Status(status) => StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                status: status.clone(),
                metadata: None,
            }),
            PayloadKind::Artifact(id) => StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                artifact: artifact(task?, id)?.clone(),
                append: Some(false),
                last_chunk: Some(true),
                metadata: None,
            }),
        };
        json(&event)
    }

    /// Returns the body for a webhook of 0.3: the current task with the state of this change, so that the webhook
    /// receives each state once.
    pub(super) fn body_0_3(&self, mut task: Task) -> Option<Bytes> {
        if let PayloadKind::Status(status) = &self.what {
            task.status = status.clone();
        }
        json(&v0_3::rpc(&task))
    }
}

fn artifact<'a>(task: &'a Task, id: &str) -> Option<&'a Artifact> {
    let mut all = task.artifacts.iter().flatten();
    all.rfind(|artifact| artifact.artifact_id == id)
}

fn json(value: &impl Serialize) -> Option<Bytes> {
    serde_json::to_vec(value).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests;
