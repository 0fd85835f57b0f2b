//! The methods of both versions, and what their parameters are.

use crate::caller::Version;
use crate::http::call::Call;
use crate::http::fields::Fields;
use crate::http::read::{self, Dialect};
use crate::refusal::{A2aError, ErrorReason};

/// A method, of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreatePush,
    GetPush,
    ListPushes,
    DeletePush,
    ExtendedCard,
}

/// Each with its name in 1.0 and in 0.3 (1.0 §5.3, 0.3 §3.5.6).
const NAMES: [(Method, &str, Option<&str>); 11] = [
    (Method::Send, "SendMessage", Some("message/send")),
    (
        Method::Stream,
        "SendStreamingMessage",
        Some("message/stream"),
    ),
    (Method::Get, "GetTask", Some("tasks/get")),
    (Method::List, "ListTasks", None),
    (Method::Cancel, "CancelTask", Some("tasks/cancel")),
    (
        Method::Subscribe,
        "SubscribeToTask",
        Some("tasks/resubscribe"),
    ),
    (
        Method::CreatePush,
        "CreateTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/set"),
    ),
    (
        Method::GetPush,
        "GetTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/get"),
    ),
    (
        Method::ListPushes,
        "ListTaskPushNotificationConfigs",
        Some("tasks/pushNotificationConfig/list"),
    ),
    (
        Method::DeletePush,
        "DeleteTaskPushNotificationConfig",
        Some("tasks/pushNotificationConfig/delete"),
    ),
    (
        Method::ExtendedCard,
        "GetExtendedAgentCard",
        Some("agent/getAuthenticatedExtendedCard"),
    ),
];

impl Method {
    /// The method of that name, and whose it is.
    pub(crate) fn named(name: &str) -> Option<(Version, Self)> {
        NAMES.iter().find_map(|(method, v1, v0_3)| {
            if *v1 == name {
                Some((Version::V1, *method))
            } else if *v0_3 == Some(name) {
                Some((Version::V0_3, *method))
            } else {
                None
            }
        })
    }

    /// Its name.
    pub(crate) fn name(self, version: Version) -> &'static str {
        let row = NAMES.iter().find(|(method, ..)| *method == self);
        match (row, version) {
            (Some((_, _, Some(name))), Version::V0_3) => name,
            (Some((_, name, _)), _) => name,
            (None, _) => "",
        }
    }

    /// Reads what it is asked for with.
    pub(crate) fn call(self, dialect: Dialect, mut params: Fields) -> Result<Call, A2aError> {
        let params = &mut params;
        let v1 = dialect == Dialect::V1;
        // How 0.3 names the task, and the configuration, of a configuration.
        let task = if v1 { "taskId" } else { "id" };
        let config = if v1 { "id" } else { "pushNotificationConfigId" };
        Ok(match self {
            Self::Send => Call::Send(Box::new(read::send(dialect, params)?)),
            Self::Stream => Call::Stream(Box::new(read::send(dialect, params)?)),
            Self::Get => Call::Get {
                task_id: params.required("id")?,
                history_length: read::history_length(dialect, params)?,
            },
            Self::List => Call::List(read::list(dialect, params)?),
            Self::Cancel => Call::Cancel(params.required("id")?),
            Self::Subscribe => Call::Subscribe(params.required("id")?),
            Self::CreatePush => Call::CreatePush(read::create_push(params, None)?),
            Self::GetPush => Call::GetPush {
                task_id: params.required(task)?,
                config_id: if v1 {
                    Some(params.required(config)?)
                } else {
                    params.name(config)?
                },
            },
            Self::ListPushes => Call::ListPushes(params.required(task)?),
            Self::DeletePush => Call::DeletePush {
                task_id: params.required(task)?,
                config_id: params.required(config)?,
            },
            Self::ExtendedCard => Call::ExtendedCard,
        })
    }
}

/// There is no method of that name.
pub(crate) fn unknown(name: &str) -> A2aError {
    let name: String = name.chars().take(64).collect();
    A2aError::new(
        ErrorReason::MethodNotFound,
        format!("there is no method `{name}` in A2A 1.0 or 0.3"),
    )
}
