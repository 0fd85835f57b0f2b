//! What a path is.

use a2a::Resource;
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
                place: Place::Nothing(Version::V1_0),
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
        ["rest", "v1", rest @ ..] => match Resource::from_segments(Version::V0_3, rest) {
            Some(resource) => Place::Rest {
                version: Version::V0_3,
                tenant: None,
                resource,
            },
            None => Place::Nothing(Version::V0_3),
        },
        ["rest", rest @ ..] => {
            let found = match Resource::from_segments(Version::V1_0, rest) {
                Some(resource) => Some((None, resource)),
                None => rest.split_first().and_then(|(tenant, rest)| {
                    let resource = Resource::from_segments(Version::V1_0, rest)?;
                    Some((Some((*tenant).to_owned()), resource))
                }),
            };
            match found {
                Some((tenant, resource)) => Place::Rest {
                    version: Version::V1_0,
                    tenant,
                    resource,
                },
                None => Place::Nothing(Version::V1_0),
            }
        }
        _ => Place::Nothing(Version::V1_0),
    }
}

impl Place {
    /// The methods that it takes, as `Allow` has them; none where there is nothing.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Card => "GET, HEAD",
            Self::Rpc => "POST",
            Self::Rest { resource, .. } => resource.http_methods(),
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
