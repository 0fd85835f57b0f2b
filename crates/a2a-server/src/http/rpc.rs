//! JSON-RPC 2.0 of both versions (A2A 1.0 §9, A2A 0.3 §7).

mod method;

use a2a::http::JSON;
use a2a::parse_request::Fields;
use a2a::{Dialect, Operation, Transport};
use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use http_server::content;
use serde_json::{Map, Value};

use super::access_control::Principal;
use super::envelope::{Id, Request, Success};
use super::error::{self, Failure};
use super::operations::{self, Answer};
use super::request_log::RequestLog;
use super::sse::{self, Binding};
use super::write::{DialectAnswer, json};
use super::{App, body, list, request, version};
use crate::call_context::{CallContext, Version};

/// Handles a request.
pub(crate) async fn serve(app: &App, parts: Parts, body: Body, agent: Option<String>) -> Response {
    let read = async {
        let principal = request::principal(&parts)?;
        let bytes = body::read(app, &parts, body).await?;
        Ok::<_, Failure>((principal, bytes))
    };
    let (principal, bytes) = match read.await {
        Ok(read) => read,
        Err(failure) => return error::rpc(&Id::null(), &failure),
    };
    let request = Request::parse(&bytes);
    // Free the body before waiting for the answer, which may take minutes.
    drop(bytes);
    let Request { id, method, params } = match request {
        Ok(request) => request,
        Err((id, error)) => return error::rpc(&id, &error.into()),
    };
    let answered = answer(
        app,
        &parts,
        &principal,
        agent,
        (&method, params, id.is_none()),
    )
    .await;
    let Some(id) = id else {
        return no_answer(answered.err());
    };
    match answered {
        Ok((Answer::Updates(updates), dialect)) => {
            let updates = sse::until_revoked(updates, &parts);
            sse::response(updates, dialect, Binding::Rpc(id), app.keep_alive)
        }
        Ok((Answer::Tasks(page), dialect)) => {
            list::response(*page, dialect, Binding::Rpc(id), JSON)
        }
        Ok((answer, dialect)) => json(JSON, &Success::new(&id, &DialectAnswer(&answer, dialect))),
        Err(failure) => {
            let response = error::rpc(&id, &failure);
            let as_event = response.status() == StatusCode::OK
                && method::is_stream(&method)
                && accepts_only_events(&parts);
            match as_event {
                true => sse::failed(&failure.error, &id),
                false => response,
            }
        }
    }
}

/// Returns the response to a notification (JSON-RPC 2.0 §4.1): no body, and the HTTP status as the only sign of an error.
fn no_answer(failure: Option<Failure>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = match failure {
        None => StatusCode::NO_CONTENT,
        Some(Failure { error, status }) => {
            tracing::info!(
                reason = error.reason.name(),
                "a notification failed: {error}"
            );
            status.unwrap_or_else(|| error.reason.status().0)
        }
    };
    response
}

/// Returns whether the client accepts event streams and no JSON.
fn accepts_only_events(parts: &Parts) -> bool {
    let types = content::accepted_types(&parts.headers);
    !types.is_empty() && types.iter().all(|essence| essence == "text/event-stream")
}

async fn answer(
    app: &App,
    parts: &Parts,
    principal: &Principal,
    agent: Option<String>,
    (method, params, is_notification): (&str, Value, bool),
) -> Result<(Answer, Dialect), Failure> {
    let requested = version::requested(parts)?;
    let Some((needed, operation)) = Operation::from_method(method) else {
        return Err(method::unknown(method).into());
    };
    if needed != requested {
        return Err(version::mismatch(
            &format!("the method `{}`", operation.method(needed)),
            needed,
        )
        .into());
    }
    let mut params = match params {
        Value::Null => Fields::new(Value::Object(Map::new()), ""),
        params => Fields::new(params, ""),
    }?;
    let tenant = match needed {
        Version::V1_0 => params.name("tenant")?,
        Version::V0_3 => None,
    };
    let agent = request::agent(app, agent, tenant).await?;
    let dialect = Dialect::new(needed, Transport::JsonRpc);
    let mut call = method::call(operation, dialect, params)?;
    if is_notification {
        call.return_immediately();
    }
    let caller = CallContext {
        client: principal.name.to_string(),
        authenticated: principal.authenticated,
        version: needed,
        agent,
    };
    let base = || request::base_url(app, parts);
    let log = RequestLog::get(&parts.extensions);
    let answer = operations::execute(app, (&caller, &log), dialect, base, call).await?;
    Ok((answer, dialect))
}
