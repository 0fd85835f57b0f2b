//! Parses the paths of the server.

use a2a::Resource;
use http::Method;
use percent_encoding::percent_decode_str;

use a2a::Version;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The agent in `/agents/NAME/...`.
    pub(crate) agent: Option<String>,
    /// The rest of the path.
    pub(crate) route: Route,
}

/// The resource in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The agent card.
    Card,
    /// The public keys of the signatures of cards.
    Keys,
    /// The catalog of the public agents (AI Catalog, and ARD §5.1).
    Catalog,
    /// JSON-RPC of both versions.
    Rpc,
    /// HTTP+JSON.
    Rest {
        /// The version of the path prefix.
        version: Version,
        /// The first segment, if it is not a resource (A2A 1.0 §11.3).
        tenant: Option<String>,
        /// The resource.
        resource: Resource,
    },
    /// An unknown path. The error has the format of HTTP+JSON of this version.
    Unknown(Version),
}

impl Path {
    /// Returns whether a request only reads the catalog.
    pub(crate) fn is_catalog(method: &Method, path: &str) -> bool {
        let route = Self::parse(path).route;
        route == Route::Catalog && route.allows(method)
    }

    /// Parses the path of a URL, with or without a slash at the end.
    pub(crate) fn parse(path: &str) -> Self {
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
                route: Route::Unknown(Version::V1_0),
            };
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["agents", name, rest @ ..] if !name.is_empty() => Self {
                agent: Some((*name).to_owned()),
                route: if rest.is_empty() {
                    Route::Rpc
                } else {
                    route(rest)
                },
            },
            [""] => Self {
                agent: None,
                route: Route::Rpc,
            },
            [".well-known", "jwks.json"] => Self {
                agent: None,
                route: Route::Keys,
            },
            [".well-known", "ai-catalog.json" | "ard.json"] => Self {
                agent: None,
                route: Route::Catalog,
            },
            rest => Self {
                agent: None,
                route: route(rest),
            },
        }
    }
}

fn route(segments: &[&str]) -> Route {
    match segments {
        ["a2a"] => Route::Rpc,
        // The path before 0.3.0.
        [".well-known", "agent-card.json" | "agent.json"] => Route::Card,
        ["rest", "v1", rest @ ..] => match Resource::from_segments(Version::V0_3, rest) {
            Some(resource) => Route::Rest {
                version: Version::V0_3,
                tenant: None,
                resource,
            },
            None => Route::Unknown(Version::V0_3),
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
                Some((tenant, resource)) => Route::Rest {
                    version: Version::V1_0,
                    tenant,
                    resource,
                },
                None => Route::Unknown(Version::V1_0),
            }
        }
        _ => Route::Unknown(Version::V1_0),
    }
}

impl Route {
    /// Returns the value of the header `Allow`.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Card | Self::Catalog | Self::Keys => "GET, HEAD",
            Self::Rpc => "POST",
            Self::Rest { resource, .. } => resource.http_methods(),
            Self::Unknown(_) => "",
        }
    }

    /// Returns whether `method` is allowed.
    pub(crate) fn allows(&self, method: &Method) -> bool {
        self.methods()
            .split(", ")
            .any(|taken| taken == method.as_str())
    }
}

#[cfg(test)]
mod tests;
