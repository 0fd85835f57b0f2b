//! What a path is.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::caller::Version;

/// A path of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The agent in `/agents/NAME/...`.
    pub(crate) agent: Option<String>,
    /// What is there.
    pub(crate) place: Place,
}

/// What can be at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The agent card.
    Card,
    /// JSON-RPC of both versions.
    Rpc,
    /// HTTP+JSON.
    Rest {
        /// By its prefix.
        version: Version,
        /// The first segment, where it is no resource (1.0 §11.3).
        tenant: Option<String>,
        /// What it is about.
        resource: Resource,
    },
    /// Nothing; an error is written as in this version of HTTP+JSON.
    Nothing(Version),
}

/// A resource of HTTP+JSON (1.0 §11.3, 0.3 §3.5.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource {
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
    Pushes(String),
    /// `tasks/{id}/pushNotificationConfigs/{id}`.
    Push(String, String),
    /// `extendedAgentCard`, in 0.3 `card`.
    ExtendedCard,
}

impl Path {
    /// Reads the path of a URL. A slash at the end makes no difference.
    pub(crate) fn read(path: &str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Option<Vec<String>> = path
            .split('/')
            .map(|segment| {
                let text = percent_decode_str(segment).decode_utf8().ok()?;
                Some(text.into_owned())
            })
            .collect();
        let Some(segments) = segments else {
            return Self {
                agent: None,
                place: Place::Nothing(Version::V1),
            };
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["agents", name, rest @ ..] if !name.is_empty() => Self {
                agent: Some((*name).to_owned()),
                place: if rest.is_empty() {
                    Place::Rpc
                } else {
                    place(rest)
                },
            },
            [""] => Self {
                agent: None,
                place: Place::Rpc,
            },
            rest => Self {
                agent: None,
                place: place(rest),
            },
        }
    }
}

fn place(segments: &[&str]) -> Place {
    match segments {
        ["a2a"] => Place::Rpc,
        // Where clients before 0.3.0 look.
        [".well-known", "agent-card.json" | "agent.json"] => Place::Card,
        ["rest", "v1", rest @ ..] => match resource(rest, "card") {
            Some(resource) => Place::Rest {
                version: Version::V0_3,
                tenant: None,
                resource,
            },
            None => Place::Nothing(Version::V0_3),
        },
        ["rest", rest @ ..] => {
            let found = match resource(rest, "extendedAgentCard") {
                Some(resource) => Some((None, resource)),
                None => rest.split_first().and_then(|(tenant, rest)| {
                    let resource = resource(rest, "extendedAgentCard")?;
                    Some((Some((*tenant).to_owned()), resource))
                }),
            };
            match found {
                Some((tenant, resource)) => Place::Rest {
                    version: Version::V1,
                    tenant,
                    resource,
                },
                None => Place::Nothing(Version::V1),
            }
        }
        _ => Place::Nothing(Version::V1),
    }
}

fn resource(segments: &[&str], card: &str) -> Option<Resource> {
    Some(match segments {
        ["message:send"] => Resource::Send,
        ["message:stream"] => Resource::Stream,
        ["tasks"] => Resource::Tasks,
        ["tasks", task] => match task.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => Resource::Cancel(id.to_owned()),
            Some((id, "subscribe")) if !id.is_empty() => Resource::Subscribe(id.to_owned()),
            _ if !task.is_empty() => Resource::Task((*task).to_owned()),
            _ => return None,
        },
        ["tasks", id, "pushNotificationConfigs"] if !id.is_empty() => {
            Resource::Pushes((*id).to_owned())
        }
        ["tasks", id, "pushNotificationConfigs", config]
            if !id.is_empty() && !config.is_empty() =>
        {
            Resource::Push((*id).to_owned(), (*config).to_owned())
        }
        [name] if *name == card => Resource::ExtendedCard,
        _ => return None,
    })
}

impl Place {
    /// The methods that it takes, as `Allow` has them; none where there is nothing.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Card => "GET, HEAD",
            Self::Rpc => "POST",
            Self::Rest { resource, .. } => match resource {
                Resource::Send | Resource::Stream | Resource::Cancel(_) => "POST",
                Resource::Tasks | Resource::Task(_) | Resource::ExtendedCard => "GET, HEAD",
                // 1.0's text says POST, its proto GET, and clients do either.
                Resource::Subscribe(_) | Resource::Pushes(_) => "GET, HEAD, POST",
                Resource::Push(..) => "GET, HEAD, DELETE",
            },
            Self::Nothing(_) => "",
        }
    }

    /// Whether it takes `method`.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        self.methods()
            .split(", ")
            .any(|taken| taken == method.as_str())
    }
}

#[cfg(test)]
mod tests;
