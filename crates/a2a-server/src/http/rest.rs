//! HTTP+JSON of both versions (A2A 1.0 §11, A2A 0.3 §3.5.3).

use a2a::http::{A2A_JSON, JSON};
use a2a::parse_request::{self, Fields};
use a2a::{A2aError, Dialect, ErrorReason, Resource, Transport};
use axum::body::Body;
use axum::response::Response;
use http::Method;
use http::header::ACCEPT;
use http::request::Parts;
use serde_json::{Map, Value};

use super::error::Failure;
use super::operations::{self, Answer, Call, DialectAnswer, json};
use super::request_log::RequestLog;
use super::sse::{self, Binding};
use super::{App, request};
use a2a::Version;

/// Handles a request.
pub(crate) async fn serve(
    app: &App,
    parts: Parts,
    body: Body,
    needed: Version,
    path_agent: Option<String>,
    path_tenant: Option<String>,
    resource: Resource,
) -> Result<Response, Failure> {
    let principal = request::principal(&parts)?;
    check_version(&parts, needed)?;
    let mut params = if parts.method == Method::POST {
        let bytes = match resource {
            Resource::Cancel(_) | Resource::Subscribe(_) => {
                request::read_optional_body(app, &parts, body).await?
            }
            _ => request::read_body(app, &parts, body).await?,
        };
        parse_object(&bytes)?
    } else {
        Fields::query(parts.uri.query().unwrap_or_default())
    };
    let tenant = match needed {
        Version::V1_0 => merge_tenants(path_tenant, params.name("tenant")?)?,
        Version::V0_3 => None,
    };
    let agent = request::agent(app, path_agent, tenant).await?;
    let dialect = Dialect::new(needed, Transport::HttpJson);
    let call = call(dialect, resource, &parts.method, params)?;
    let caller = principal.call_context(needed, agent);
    let base = || request::base_url(app, &parts);
    let log = RequestLog::get(&parts.extensions);
    Ok(
        match operations::execute(app, (&caller, &log), dialect, base, call).await? {
            Answer::Updates(updates) => {
                let updates = sse::until_revoked(updates, &parts);
                sse::response(updates, dialect, Binding::Rest, app.keep_alive)
            }
            Answer::Tasks(page) => {
                operations::page_response(*page, Binding::Rest, media_type(&parts, needed))
            }
            Answer::Finished(task) => {
                operations::task_response(&task, &Binding::Rest, media_type(&parts, needed))
            }
            // `google.protobuf.Empty`, written as an object for clients that expect JSON.
            Answer::Deleted => json(media_type(&parts, needed), &Map::new()),
            answer => json(media_type(&parts, needed), &DialectAnswer(&answer, dialect)),
        },
    )
}

/// Checks that header and path have the same version. A path of 0.3 needs no header.
fn check_version(parts: &Parts, needed: Version) -> Result<(), A2aError> {
    if request::requested_version(parts)? == needed {
        return Ok(());
    }
    Err(match needed {
        Version::V1_0 => request::version_mismatch("this path", needed),
        Version::V0_3 => request::version_mismatch("a path with `/v1/`", needed),
    })
}

fn call(
    dialect: Dialect,
    resource: Resource,
    method: &Method,
    mut params: Fields,
) -> Result<Call, A2aError> {
    let params = &mut params;
    Ok(match resource {
        Resource::Send => Call::Send(Box::new(parse_request::send(dialect, params)?.into())),
        Resource::Stream => Call::Stream(Box::new(parse_request::send(dialect, params)?.into())),
        Resource::Tasks => Call::List(parse_request::list(dialect, params)?),
        Resource::Task(task_id) => Call::Get {
            task_id,
            history_length: parse_request::history_length(dialect, params)?,
        },
        Resource::Cancel(task_id) => Call::Cancel(task_id),
        Resource::Subscribe(task_id) => Call::Subscribe(task_id),
        Resource::PushConfigs(task_id) if *method == Method::POST => {
            Call::CreatePush(parse_request::create_push(params, Some(&task_id))?)
        }
        Resource::PushConfigs(task_id) => Call::ListPushes(task_id),
        Resource::PushConfig(task_id, config_id) if *method == Method::DELETE => {
            Call::DeletePush { task_id, config_id }
        }
        Resource::PushConfig(task_id, config_id) => Call::GetPush {
            task_id,
            config_id: Some(config_id),
        },
        Resource::ExtendedCard => Call::ExtendedCard,
    })
}

/// Parses a body. An empty body counts as an empty object.
fn parse_object(bytes: &[u8]) -> Result<Fields, A2aError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Fields::new(Value::Object(Map::new()), "");
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Null) => Fields::new(Value::Object(Map::new()), ""),
        Ok(value) => Fields::new(value, ""),
        Err(error) => Err(A2aError::new(
            ErrorReason::ParseError,
            format!("the body is not JSON: {error}"),
        )),
    }
}

/// Returns the tenant, which must be the same in path and body.
fn merge_tenants(path: Option<String>, body: Option<String>) -> Result<Option<String>, A2aError> {
    match (path, body) {
        (Some(path), Some(body)) if path != body => Err(a2a::parse_request::invalid_params(
            "tenant",
            "is not the tenant that the path names",
        )),
        (path, body) => Ok(path.or(body)),
    }
}

/// Returns the media type of the response: that of 1.0 (A2A 1.0 §11.1), unless the client accepts only plain JSON.
fn media_type(parts: &Parts, version: Version) -> &'static str {
    let accept = parts
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    let plain = accept.is_some_and(|accept| {
        accept.contains(JSON) && !accept.contains(A2A_JSON) && !accept.contains("*/*")
    });
    match version {
        Version::V1_0 if !plain => A2A_JSON,
        _ => JSON,
    }
}
