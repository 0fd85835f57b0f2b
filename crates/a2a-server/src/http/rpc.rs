//! JSON-RPC 2.0 of both versions (A2A 1.0 §9, A2A 0.3 §7), with the parameters of the methods.

use a2a::http::JSON;
use a2a::parse_request::Fields;
use a2a::{A2aError, Dialect, ErrorReason, Operation, Transport, parse_request};
use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use http_server::content;
use serde_json::{Map, Value};

use super::access_control::Principal;
use super::envelope::{Id, Request, Success};
use super::error::Failure;
use super::operations::{self, Answer, Call, DialectAnswer, json};
use super::request_log::RequestLog;
use super::sse::Binding;
use super::{App, error, request, sse};
use a2a::Version;

/// Handles a request.
pub(crate) async fn serve(app: &App, parts: Parts, body: Body, agent: Option<String>) -> Response {
    let read = async {
        let principal = request::principal(&parts)?;
        let bytes = request::read_body(app, &parts, body).await?;
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
        principal,
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
        Ok((Answer::Tasks(page), _)) => operations::page_response(*page, Binding::Rpc(id), JSON),
        Ok((Answer::Finished(task), _)) => {
            operations::task_response(&task, &Binding::Rpc(id), JSON)
        }
        Ok((answer, dialect)) => json(JSON, &Success::new(&id, &DialectAnswer(&answer, dialect))),
        Err(failure) => {
            let response = error::rpc(&id, &failure);
            let as_event = response.status() == StatusCode::OK
                && is_stream(&method)
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
    let requested = request::requested_version(parts)?;
    let Some((needed, operation)) = Operation::from_method(method) else {
        return Err(unknown_method(method).into());
    };
    if needed != requested {
        return Err(request::version_mismatch(
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
    let mut call = call(operation, dialect, params)?;
    if is_notification {
        call.return_immediately();
    }
    let caller = principal.call_context(needed, agent);
    let base = || request::base_url(app, parts);
    let log = RequestLog::get(&parts.extensions);
    let answer = operations::execute(app, (&caller, &log), dialect, base, call).await?;
    Ok((answer, dialect))
}

/// Parses the parameters of an operation.
fn call(operation: Operation, dialect: Dialect, mut params: Fields) -> Result<Call, A2aError> {
    let params = &mut params;
    let is_v1_0 = dialect == Dialect::V1_0;
    // 0.3 has other names for the id of a task and of a push notification configuration.
    let task = if is_v1_0 { "taskId" } else { "id" };
    let config = match is_v1_0 {
        true => "id",
        false => "pushNotificationConfigId",
    };
    Ok(match operation {
        Operation::SendMessage => {
            Call::Send(Box::new(parse_request::send(dialect, params)?.into()))
        }
        Operation::SendStreamingMessage => {
            Call::Stream(Box::new(parse_request::send(dialect, params)?.into()))
        }
        Operation::GetTask => Call::Get {
            task_id: params.required("id")?,
            history_length: parse_request::history_length(dialect, params)?,
        },
        Operation::ListTasks => Call::List(parse_request::list(dialect, params)?),
        Operation::CancelTask => Call::Cancel(params.required("id")?),
        Operation::SubscribeToTask => Call::Subscribe(params.required("id")?),
        Operation::CreatePushConfig => Call::CreatePush(parse_request::create_push(params, None)?),
        Operation::GetPushConfig => Call::GetPush {
            task_id: params.required(task)?,
            config_id: if is_v1_0 {
                Some(params.required(config)?)
            } else {
                params.name(config)?
            },
        },
        Operation::ListPushConfigs => Call::ListPushes(params.required(task)?),
        Operation::DeletePushConfig => Call::DeletePush {
            task_id: params.required(task)?,
            config_id: params.required(config)?,
        },
        Operation::GetExtendedCard => Call::ExtendedCard,
    })
}

/// Returns whether the answer of a method is a stream.
fn is_stream(method: &str) -> bool {
    let operation = Operation::from_method(method).map(|(_, operation)| operation);
    matches!(
        operation,
        Some(Operation::SendStreamingMessage | Operation::SubscribeToTask)
    )
}

/// Returns the error of an unknown method.
fn unknown_method(name: &str) -> A2aError {
    let name: String = name.chars().take(64).collect();
    A2aError::new(
        ErrorReason::MethodNotFound,
        format!("A2A 1.0 and 0.3 have no method `{name}`"),
    )
}
