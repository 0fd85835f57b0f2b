//! JSON-RPC 2.0 of both versions (A2A 1.0 §9, A2A 0.3 §7): the envelope of requests and responses, and the parameters
//! of the methods.

use a2a::http::JSON;
use a2a::parse_request::Fields;
use a2a::{A2aError, Dialect, ErrorReason, Operation, Transport, parse_request};
use axum::body::Body;
use axum::response::Response;
use base::json;
use http::StatusCode;
use http::request::Parts;
use http_server::content;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::access_control::Principal;
use super::error::Failure;
use super::operations::{self, Answer, Call, DialectAnswer, json};
use super::request_log::RequestLog;
use super::sse::Binding;
use super::{App, error, request, sse};
use crate::call_context::{CallContext, Version};

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
            operations::page_response(*page, dialect, Binding::Rpc(id), JSON)
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

/// The maximum length of an id as JSON. The server stores it during a stream and repeats it in every event.
const MAX_ID_BYTES: usize = 1024;

/// The id of a request as raw JSON; `null` if the request has none.
#[derive(Debug, Clone)]
pub(crate) struct Id(Option<Box<RawValue>>);

impl Id {
    /// Returns the id for the response to an unreadable request.
    pub(crate) fn null() -> Self {
        Self(None)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A successful response.
#[derive(Serialize)]
pub(crate) struct Success<'a, T> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a T,
}

impl<'a, T> Success<'a, T> {
    /// Creates the response to the request with the id `id`.
    pub(crate) fn new(id: &'a Id, result: &'a T) -> Self {
        Self {
            jsonrpc: "2.0",
            id,
            result,
        }
    }
}

/// A request.
struct Request {
    /// `None` for a notification, which gets no answer.
    pub(crate) id: Option<Id>,
    pub(crate) method: String,
    /// `null` if the request has no parameters.
    pub(crate) params: Value,
}

#[derive(Deserialize)]
struct RawRequest {
    jsonrpc: Option<Value>,
    /// `Some(None)` for `null`.
    #[serde(default, deserialize_with = "json::present")]
    id: Option<Option<Box<RawValue>>>,
    method: Option<Value>,
    #[serde(default)]
    params: Value,
}

impl Request {
    /// Parses a body.
    ///
    /// # Errors
    /// The body is not JSON or not a JSON-RPC request. The error contains the id if it is readable.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, (Id, A2aError)> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Err((Id::null(), no_object(body, first)));
        }
        let raw: RawRequest = serde_json::from_slice(body).map_err(|error| {
            let error = if error.is_data() {
                invalid("the body is not a JSON-RPC request: it has a duplicate field")
            } else {
                no_json(&error)
            };
            (Id::null(), error)
        })?;
        let id = match raw.id {
            Some(Some(id))
                if !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')) =>
            {
                let error = invalid("`id` must be a string, a number or null");
                return Err((Id::null(), error.at("id")));
            }
            Some(Some(id)) if id.get().len() > MAX_ID_BYTES => {
                let error = invalid("`id` is longer than 1024 bytes; choose a shorter one");
                return Err((Id::null(), error.at("id")));
            }
            id => id.map(Id),
        };
        let or_null = |id: Option<Id>| id.unwrap_or_else(Id::null);
        if raw.jsonrpc != Some(Value::String("2.0".to_owned())) {
            let error = invalid("`jsonrpc` must be \"2.0\"").at("jsonrpc");
            return Err((or_null(id), error));
        }
        match raw.method {
            Some(Value::String(method)) => Ok(Self {
                id,
                method,
                params: raw.params,
            }),
            _ => Err((
                or_null(id),
                invalid("`method` must be a string").at("method"),
            )),
        }
    }
}

fn no_object(body: &[u8], first: Option<&u8>) -> A2aError {
    match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) => no_json(&error),
        Ok(_) if first == Some(&b'[') => {
            invalid("batches are not supported; send one request at a time")
        }
        Ok(_) => invalid("the body is not a JSON-RPC request: it must be an object"),
    }
}

fn no_json(error: &serde_json::Error) -> A2aError {
    let text = format!("the body is not JSON: {error}");
    A2aError::new(ErrorReason::ParseError, text)
}

fn invalid(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::InvalidRequest, text)
}
