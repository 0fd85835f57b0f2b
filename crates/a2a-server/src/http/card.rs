//! Agent cards (A2A 1.0 §4.4 and §8, A2A 0.3 §5.5). The server builds them from the current agents for each request.

mod content;

use a2a::http::JSON;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LAST_MODIFIED, VARY};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use url::Url;

use super::error::{self, Failure};
use super::{App, etag, request, version};
use crate::call_context::{CallContext, Version};
use crate::executor::OUTPUT_MODES;
use a2a::Dialect;
use a2a::{A2aError, ErrorReason};
use content::{CardContent, CardFormat};

/// The part of an agent card that does not depend on the agents.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    /// The name of the server.
    pub name: String,
    /// The description of the server.
    pub description: String,
    /// The version of the server.
    pub version: String,
    /// The URL for clients, if it differs from the origin of their requests.
    pub public_url: Option<Url>,
    /// The URL of the documentation.
    pub documentation_url: Option<Url>,
    /// Whether clients may register webhooks.
    pub push_notifications: bool,
    /// The media types that the agents accept.
    pub input_modes: Vec<String>,
    /// The media types in which the agents answer.
    pub output_modes: Vec<String>,
    /// How long clients may cache the agent card.
    pub max_age: Duration,
}

impl CardFacts {
    /// Creates the facts with text input and output, push notifications, and a cache lifetime of one minute.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        version: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            version: version.into(),
            public_url: None,
            documentation_url: None,
            push_notifications: true,
            input_modes: vec!["text/plain".to_owned()],
            output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
            max_age: Duration::from_secs(60),
        }
    }
}

/// Serves the public agent card of the server or of one agent.
pub(crate) async fn serve(app: &App, parts: &Parts, agent: Option<String>) -> Response {
    match public(app, parts, agent).await {
        Ok(response) => response,
        Err(failure) => error::rest(Version::V1_0, &failure),
    }
}

async fn public(app: &App, parts: &Parts, agent: Option<String>) -> Result<Response, Failure> {
    let agent = request::agent(app, agent, None).await?;
    let base = request::base_url(app, parts)?;
    // A client that requests no version, or an unknown one, needs the supported versions in the card.
    let format = match version::requested(parts) {
        Ok(Version::V1_0) => CardFormat::V1,
        _ => CardFormat::Both,
    };
    let list = app.service.agent_list().await?;
    let card = CardContent {
        facts: &app.card,
        base: &base,
        agents: &list.agents,
        bearer: app.requires_token,
        // Without tokens, every client may see all details.
        detailed: !app.requires_token,
    }
    .write(agent.as_deref(), format)?;
    let bytes = serde_json::to_vec(&card).unwrap_or_default();
    let tag = etag::compute(&bytes);
    let known = parts.headers.get_all(IF_NONE_MATCH).iter();
    let mut response = if etag::matches(known.filter_map(|line| line.to_str().ok()), &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut response = Response::new(Body::from(bytes));
        let json = HeaderValue::from_static(JSON);
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    };
    let headers = response.headers_mut();
    let max_age = format!("public, max-age={}", app.card.max_age.as_secs());
    let changed = httpdate::fmt_http_date(list.changed);
    for (name, value) in [
        (ETAG, tag),
        (CACHE_CONTROL, max_age),
        (LAST_MODIFIED, changed),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    // The URLs on the card depend on the host of the request.
    headers.insert(VARY, HeaderValue::from_static("Host, A2A-Version"));
    Ok(response)
}

/// Returns the extended agent card (A2A 1.0 §3.1.11, A2A 0.3 §7.10) with all agents and their skills.
///
/// # Errors
/// The server requires no token and therefore has no extended card, or the client is not authenticated.
pub(crate) async fn extended(
    app: &App,
    caller: &CallContext,
    dialect: Dialect,
    base: &str,
) -> Result<Value, A2aError> {
    if !app.requires_token {
        let reason = match dialect {
            // 1.0 has different errors for a card that is not declared and one that is missing.
            Dialect::V1_0 => ErrorReason::UnsupportedOperation,
            Dialect::V0_3(_) => ErrorReason::ExtendedAgentCardNotConfigured,
        };
        return Err(A2aError::new(
            reason,
            "this server has no extended card, because it requires no authentication; the public card has all details",
        ));
    }
    if !caller.authenticated {
        return Err(A2aError::new(
            ErrorReason::Unauthenticated,
            "the extended card requires authentication; send `Authorization: Bearer TOKEN`",
        ));
    }
    let format = match dialect {
        Dialect::V1_0 => CardFormat::V1,
        Dialect::V0_3(_) => CardFormat::V0_3,
    };
    CardContent {
        facts: &app.card,
        base,
        agents: &app.service.agents().await?,
        bearer: true,
        detailed: true,
    }
    .write(caller.agent.as_deref(), format)
}
