//! Parses requests of clients, of both versions, into the types of A2A 1.0. Accepts every spelling of a member that a
//! version allows, and keeps every part.

mod fields;

use crate::v1_0::{
    AuthenticationInfo, ListTasksRequest, Message, Role, SendMessageConfiguration,
    SendMessageRequest, TaskPushNotificationConfig, TaskState,
};
use serde_json::Value;

use crate::A2aError;
use crate::{Dialect, V03Dialect as V0_3};
pub use fields::{Fields, invalid_params};

/// Parses the parameters of `SendMessage` (A2A 1.0 §3.1.1, A2A 0.3 §7.1).
///
/// # Errors
/// [`InvalidParams`](crate::ErrorReason::InvalidParams) at the first invalid field.
pub fn send(dialect: Dialect, params: &mut Fields) -> Result<SendMessageRequest, A2aError> {
    let message = match params.object("message")? {
        Some(message) => message,
        // Its name in the proto of 0.3.
        None => params
            .object("request")?
            .ok_or_else(|| params.missing("message"))?,
    };
    let message = self::message(dialect, message)?;
    let configuration = params
        .object("configuration")?
        .map(|configuration| self::configuration(dialect, configuration))
        .transpose()?;
    Ok(SendMessageRequest {
        message,
        configuration,
        metadata: params.map("metadata")?,
        tenant: None,
    })
}

fn message(dialect: Dialect, mut fields: Fields) -> Result<Message, A2aError> {
    let message_id = fields.required("messageId")?;
    let role = role(&mut fields)?;
    // The proto of 0.3 names them `content`. Reading both loses no part.
    let mut parts = Vec::new();
    let mut found = false;
    for name in ["parts", "content"] {
        let list = fields.list(name)?;
        if list.is_empty() {
            continue;
        }
        let path = fields.at(name);
        if found {
            return Err(invalid_params(
                &path,
                "is present beside `parts`; send only one of them",
            ));
        }
        found = true;
        parts.reserve_exact(list.len());
        for (index, value) in list.into_iter().enumerate() {
            parts.push(fields::part(
                dialect,
                Fields::new(value, format!("{path}[{index}]"))?,
            )?);
        }
    }
    if !found {
        let name = match dialect {
            Dialect::V0_3(V0_3::Rest) => "content",
            _ => "parts",
        };
        return Err(fields.missing(name));
    }
    Ok(Message {
        message_id,
        context_id: fields.name("contextId")?,
        task_id: fields.name("taskId")?,
        role,
        parts,
        metadata: fields.map("metadata")?,
        extensions: fields.texts("extensions")?,
        reference_task_ids: fields.texts("referenceTaskIds")?,
    })
}

fn role(fields: &mut Fields) -> Result<Role, A2aError> {
    match fields.take("role") {
        None => Err(fields.missing("role")),
        Some(Value::String(role)) => match role.to_ascii_lowercase().as_str() {
            "role_user" | "user" => Ok(Role::User),
            "role_agent" | "agent" => Ok(Role::Agent),
            "" | "role_unspecified" => Err(fields.missing("role")),
            _ => Err(invalid_params(
                &fields.at("role"),
                "is neither `ROLE_USER` (0.3: `user`) nor `ROLE_AGENT` (`agent`)",
            )),
        },
        // ProtoJSON lets enums be numbers.
        Some(Value::Number(number)) => match number.as_i64() {
            Some(1) => Ok(Role::User),
            Some(2) => Ok(Role::Agent),
            _ => Err(invalid_params(
                &fields.at("role"),
                "is neither 1 (user) nor 2 (agent)",
            )),
        },
        Some(other) => Err(fields::type_error(&fields.at("role"), "a string", &other)),
    }
}

/// Builds the configuration of a message.
fn configuration(
    dialect: Dialect,
    mut fields: Fields,
) -> Result<SendMessageConfiguration, A2aError> {
    let return_immediately = match dialect {
        Dialect::V1_0 => fields.flag("returnImmediately")?,
        Dialect::V0_3(_) => fields.flag("blocking")?.map(|blocking| !blocking),
    };
    let mut push = None;
    for name in [
        "taskPushNotificationConfig",
        "pushNotificationConfig",
        "pushNotification",
    ] {
        if let Some(config) = fields.object(name)? {
            push = Some(push_config(config)?);
            break;
        }
    }
    Ok(SendMessageConfiguration {
        accepted_output_modes: fields.texts("acceptedOutputModes")?,
        task_push_notification_config: push,
        history_length: history_length(dialect, &mut fields)?,
        return_immediately,
    })
}

/// Parses `historyLength`. In the proto of 0.3, 0 means that the field is absent.
///
/// # Errors
/// [`InvalidParams`](crate::ErrorReason::InvalidParams) at the first invalid field.
pub fn history_length(dialect: Dialect, fields: &mut Fields) -> Result<Option<i32>, A2aError> {
    let length = fields.count("historyLength")?;
    Ok(match dialect {
        Dialect::V0_3(V0_3::Rest) => length.filter(|length| *length > 0),
        _ => length,
    })
}

/// Parses a webhook: the object of 1.0, or the inner object of 0.3.
fn push_config(mut fields: Fields) -> Result<TaskPushNotificationConfig, A2aError> {
    let url = fields.required("url")?;
    let authentication = match fields.object("authentication")? {
        Some(mut authentication) => {
            // 0.3 has a list in order of preference.
            let scheme = match authentication.name("scheme")? {
                Some(scheme) => Some(scheme),
                None => authentication
                    .texts("schemes")?
                    .and_then(|schemes| schemes.into_iter().next()),
            };
            let credentials = authentication.name("credentials")?;
            match (scheme, credentials) {
                (None, None) => None,
                (None, Some(_)) => return Err(authentication.missing("scheme")),
                (Some(scheme), credentials) => Some(AuthenticationInfo {
                    scheme,
                    credentials,
                }),
            }
        }
        None => None,
    };
    Ok(TaskPushNotificationConfig {
        url,
        id: fields.name("id")?,
        task_id: fields.name("taskId")?.unwrap_or_default(),
        token: fields.name("token")?,
        authentication,
        tenant: None,
    })
}

/// Parses the parameters of a webhook's registration, with the `task_id` of the path if that has one. The configuration is
/// the parameters themselves, or `pushNotificationConfig`, or `config`.
///
/// # Errors
/// [`InvalidParams`](crate::ErrorReason::InvalidParams) at the first invalid field.
pub fn create_push(
    params: &mut Fields,
    task_id: Option<&str>,
) -> Result<TaskPushNotificationConfig, A2aError> {
    let mut named = params.name("taskId")?;
    // The proto of 0.3 identifies the task and the configuration by resource names.
    if let Some(parent) = params.name("parent")? {
        let id = parent.strip_prefix("tasks/").unwrap_or(&parent);
        named.get_or_insert_with(|| id.to_owned());
    }
    let config_id = params.name("configId")?;
    let mut config = match params.object("config")? {
        Some(mut outer) => match outer.object("pushNotificationConfig")? {
            Some(inner) => push_config(inner)?,
            None => push_config(outer)?,
        },
        None => match params.object("pushNotificationConfig")? {
            Some(inner) => push_config(inner)?,
            None => {
                let id = params.name("id")?;
                let mut config = push_config(Fields::rest_of(params))?;
                config.id = id;
                config
            }
        },
    };
    if config.id.is_none() {
        config.id = config_id;
    }
    match (task_id, named) {
        (Some(path), Some(named)) if path != named => {
            return Err(invalid_params(
                "taskId",
                "differs from the task of the path",
            ));
        }
        (Some(path), _) => config.task_id = path.to_owned(),
        (None, Some(named)) => config.task_id = named,
        (None, None) => return Err(params.missing("taskId")),
    }
    Ok(config)
}

/// Parses the parameters of a list of tasks (A2A 1.0 §3.1.4).
///
/// # Errors
/// [`InvalidParams`](crate::ErrorReason::InvalidParams) at the first invalid field.
pub fn list(dialect: Dialect, params: &mut Fields) -> Result<ListTasksRequest, A2aError> {
    let status = match params.enum_name("status")? {
        None => None,
        Some(name) => match state(&name) {
            Some(TaskState::Unspecified) => None,
            Some(state) => Some(state),
            None => {
                return Err(invalid_params(
                    "status",
                    "is not a task state such as `TASK_STATE_WORKING`",
                ));
            }
        },
    };
    Ok(ListTasksRequest {
        context_id: params.name("contextId")?,
        status,
        page_size: params.count("pageSize")?,
        page_token: params.name("pageToken")?,
        history_length: history_length(dialect, params)?,
        status_timestamp_after: params.time("statusTimestampAfter")?,
        include_artifacts: params.flag("includeArtifacts")?,
        tenant: None,
    })
}

/// Parses a state: its name in any spelling of either version, or its number in the proto (A2A 1.0 §4.1.3).
fn state(name: &str) -> Option<TaskState> {
    let name = match name {
        "0" => "unknown",
        "1" => "submitted",
        "2" => "working",
        "3" => "completed",
        "4" => "failed",
        "5" => "canceled",
        "6" => "input-required",
        "7" => "rejected",
        "8" => "auth-required",
        // The default of the official JavaScript client.
        "UNRECOGNIZED" => "unknown",
        name => &crate::TaskState::canonical_name(name),
    };
    let name = match name {
        "unknown" => "TASK_STATE_UNSPECIFIED".to_owned(),
        name => format!("TASK_STATE_{}", name.to_ascii_uppercase().replace('-', "_")),
    };
    serde_json::from_value(Value::String(name)).ok()
}

#[cfg(test)]
mod tests;
