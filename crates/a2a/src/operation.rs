//! The operations of A2A: their methods over JSON-RPC, and their resources over HTTP+JSON (A2A 1.0 §5.3, §11.3; 0.3 §3.5.6).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Version;

/// An operation of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Sends a message and waits for the answer.
    SendMessage,
    /// Sends a message and streams the events of its task.
    SendStreamingMessage,
    /// Gets a task.
    GetTask,
    /// Lists tasks. JSON-RPC has it since 1.0.
    ListTasks,
    /// Cancels a task.
    CancelTask,
    /// Streams the events of a task.
    SubscribeToTask,
    /// Registers a webhook for a task.
    CreatePushConfig,
    /// Gets a webhook of a task.
    GetPushConfig,
    /// Lists the webhooks of a task.
    ListPushConfigs,
    /// Deletes a webhook of a task.
    DeletePushConfig,
    /// Gets the card for this caller.
    GetExtendedCard,
}

/// Each operation with its method in 1.0 and in 0.3.
#[rustfmt::skip] // One row a line.
const METHODS: [(Operation, &str, Option<&str>); 11] = [
    (Operation::SendMessage, "SendMessage", Some("message/send")),
    (Operation::SendStreamingMessage, "SendStreamingMessage", Some("message/stream")),
    (Operation::GetTask, "GetTask", Some("tasks/get")),
    (Operation::ListTasks, "ListTasks", None),
    (Operation::CancelTask, "CancelTask", Some("tasks/cancel")),
    (Operation::SubscribeToTask, "SubscribeToTask", Some("tasks/resubscribe")),
    (Operation::CreatePushConfig, "CreateTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/set")),
    (Operation::GetPushConfig, "GetTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/get")),
    (Operation::ListPushConfigs, "ListTaskPushNotificationConfigs", Some("tasks/pushNotificationConfig/list")),
    (Operation::DeletePushConfig, "DeleteTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/delete")),
    (Operation::GetExtendedCard, "GetExtendedAgentCard", Some("agent/getAuthenticatedExtendedCard")),
];

impl Operation {
    /// Returns the version and the operation of a method.
    pub fn from_method(name: &str) -> Option<(Version, Self)> {
        METHODS.iter().find_map(|(operation, v1_0, v0_3)| {
            if *v1_0 == name {
                Some((Version::V1_0, *operation))
            } else if *v0_3 == Some(name) {
                Some((Version::V0_3, *operation))
            } else {
                None
            }
        })
    }

    /// Returns its method over JSON-RPC; that of 1.0 if 0.3 has none.
    pub fn method(self, version: Version) -> &'static str {
        match METHODS.iter().find(|(operation, ..)| *operation == self) {
            Some((_, _, Some(name))) if version == Version::V0_3 => name,
            Some((_, name, _)) => name,
            None => "",
        }
    }
}

/// A resource of HTTP+JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// `message:send`.
    Send,
    /// `message:stream`.
    Stream,
    /// `tasks`.
    Tasks,
    /// `tasks/{id}`.
    Task(String),
    /// `tasks/{id}:cancel`.
    Cancel(String),
    /// `tasks/{id}:subscribe`.
    Subscribe(String),
    /// `tasks/{id}/pushNotificationConfigs`.
    PushConfigs(String),
    /// `tasks/{id}/pushNotificationConfigs/{id}`.
    PushConfig(String, String),
    /// `extendedAgentCard`, in 0.3 `card`.
    ExtendedCard,
}

/// Characters that a path segment contains unescaped (RFC 3986 §2.3, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns `text` as one segment of a path.
pub fn path_segment(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, SEGMENT)
}

impl Resource {
    /// Returns the path prefix of a version.
    const fn prefix(version: Version) -> &'static str {
        match version {
            Version::V0_3 => "/v1",
            Version::V1_0 => "",
        }
    }

    const fn card(version: Version) -> &'static str {
        match version {
            Version::V0_3 => "card",
            Version::V1_0 => "extendedAgentCard",
        }
    }

    /// Returns the resource at a path, given as its decoded segments behind the prefix of `version`.
    pub fn from_segments(version: Version, segments: &[&str]) -> Option<Self> {
        Some(match segments {
            ["message:send"] => Self::Send,
            ["message:stream"] => Self::Stream,
            ["tasks"] => Self::Tasks,
            ["tasks", task] => match task.rsplit_once(':') {
                Some((id, "cancel")) if !id.is_empty() => Self::Cancel(id.to_owned()),
                Some((id, "subscribe")) if !id.is_empty() => Self::Subscribe(id.to_owned()),
                _ if !task.is_empty() => Self::Task((*task).to_owned()),
                _ => return None,
            },
            ["tasks", id, "pushNotificationConfigs"] if !id.is_empty() => {
                Self::PushConfigs((*id).to_owned())
            }
            ["tasks", id, "pushNotificationConfigs", config]
                if !id.is_empty() && !config.is_empty() =>
            {
                Self::PushConfig((*id).to_owned(), (*config).to_owned())
            }
            [name] if *name == Self::card(version) => Self::ExtendedCard,
            _ => return None,
        })
    }

    /// Returns its path below the address of an interface; `None` if an id cannot be a segment of a path.
    pub fn path(&self, version: Version) -> Option<String> {
        let prefix = Self::prefix(version);
        let is_segment = |id: &str| !id.is_empty() && !matches!(id, "." | "..");
        let id = path_segment;
        Some(match self {
            Self::Send => format!("{prefix}/message:send"),
            Self::Stream => format!("{prefix}/message:stream"),
            Self::Tasks => format!("{prefix}/tasks"),
            Self::Task(task) if is_segment(task) => format!("{prefix}/tasks/{}", id(task)),
            Self::Cancel(task) => format!("{prefix}/tasks/{}:cancel", id(task)),
            Self::Subscribe(task) => format!("{prefix}/tasks/{}:subscribe", id(task)),
            Self::PushConfigs(task) if is_segment(task) => {
                format!("{prefix}/tasks/{}/pushNotificationConfigs", id(task))
            }
            Self::PushConfig(task, config) if is_segment(task) && is_segment(config) => {
                let (task, config) = (id(task), id(config));
                format!("{prefix}/tasks/{task}/pushNotificationConfigs/{config}")
            }
            Self::ExtendedCard => format!("{prefix}/{}", Self::card(version)),
            Self::Task(_) | Self::PushConfigs(_) | Self::PushConfig(..) => return None,
        })
    }

    /// Returns its HTTP methods, as the value of `Allow`.
    pub const fn http_methods(&self) -> &'static str {
        match self {
            Self::Send | Self::Stream | Self::Cancel(_) => "POST",
            Self::Tasks | Self::Task(_) | Self::ExtendedCard => "GET, HEAD",
            // The text of 1.0 requires POST, its proto GET, and clients use either.
            Self::Subscribe(_) | Self::PushConfigs(_) => "GET, HEAD, POST",
            Self::PushConfig(..) => "GET, HEAD, DELETE",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    #[test]
    fn every_method_names_its_operation() {
        for (operation, v1_0, v0_3) in METHODS {
            assert_eq!(
                Operation::from_method(v1_0),
                Some((Version::V1_0, operation))
            );
            assert_eq!(operation.method(Version::V1_0), v1_0);
            if let Some(name) = v0_3 {
                assert_eq!(
                    Operation::from_method(name),
                    Some((Version::V0_3, operation))
                );
                assert_eq!(operation.method(Version::V0_3), name);
            }
        }
        assert_eq!(Operation::from_method("tasks/list"), None);
    }

    /// Parses a path on a server.
    fn read(version: Version, path: &str) -> Option<Resource> {
        let path = path.strip_prefix(Resource::prefix(version)).unwrap();
        let segments: Vec<String> = path[1..]
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().unwrap().into())
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        Resource::from_segments(version, &segments)
    }

    proptest! {
        #[test]
        fn client_path_round_trips(id in "[a-z./:~ %é-]{1,8}", config in "[a-z./:~ %é-]{1,8}") {
            let ends_like_a_verb = |id: &str| id.ends_with(":cancel") || id.ends_with(":subscribe");
            prop_assume!(!ends_like_a_verb(&id));
            for resource in [
                Resource::Send, Resource::Stream, Resource::Tasks, Resource::ExtendedCard,
                Resource::Task(id.clone()), Resource::Cancel(id.clone()), Resource::Subscribe(id.clone()),
                Resource::PushConfigs(id.clone()), Resource::PushConfig(id.clone(), config.clone()),
            ] {
                for version in [Version::V0_3, Version::V1_0] {
                    if let Some(path) = resource.path(version) {
                        prop_assert_eq!(read(version, &path), Some(resource.clone()), "{}", path);
                    }
                }
            }
        }
    }

    #[test]
    fn unrepresentable_id_has_no_path() {
        for id in [".", "..", ""] {
            assert_eq!(Resource::Task(id.into()).path(Version::V1_0), None, "{id}");
        }
    }
}
