//! JSON-RPC 2.0, of both versions (1.0 §9, 0.3 §7).

mod envelope;
mod method;

use a2a::http::JSON;
use a2a::params::Fields;
use a2a::{A2aError, Dialect, ErrorReason, Operation, Transport};
use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use serde_json::{Map, Value};

pub(crate) use envelope::{Id, Success};

use super::call::{self, Answer};
use super::error::{self, Failure};
use super::sse::{self, Binding};
use super::write::Written;
use super::{App, body, handle, list, rest, version};
use crate::caller::{Caller, Version};
use envelope::Request;

/// Answers a request.
pub(crate) async fn serve(app: &App, parts: Parts, body: Body, agent: Option<String>) -> Response {
    let read = async {
        let identity = app.identify.identify(&parts, handle::remote(&parts))?;
        let bytes = body::read(app, &parts, body).await?;
        Ok::<_, Failure>((identity, bytes))
    };
    let (identity, bytes) = match read.await {
        Ok(read) => read,
        Err(failure) => return error::rpc(&Id::none(), &failure),
    };
    let request = Request::read(&bytes);
    // The body's room is others' from here on, however long the answer takes.
    drop(bytes);
    let request = match request {
        Ok(request) => request,
        Err((id, refusal)) => return error::rpc(&id, &refusal.into()),
    };
    let Request { id, method, params } = request;
    match answer(app, &parts, identity, agent, &method, params).await {
        Ok((Answer::Updates(updates), dialect)) => {
            let updates = sse::while_valid(updates, &parts);
            sse::response(updates, dialect, Binding::Rpc(id), app.keep_alive)
        }
        Ok((Answer::Tasks(page), dialect)) => {
            list::response(*page, dialect, Binding::Rpc(id), JSON)
        }
        Ok((answer, dialect)) => rest::json(JSON, &Success::new(&id, &Written(&answer, dialect))),
        Err(failure) => error::rpc(&id, &failure),
    }
}

async fn answer(
    app: &App,
    parts: &Parts,
    (client, authenticated): (String, bool),
    agent: Option<String>,
    method: &str,
    params: Value,
) -> Result<(Answer, Dialect), Failure> {
    let asked = version::asked(parts)?;
    let Some((needed, operation)) = Operation::from_method(method) else {
        return Err(method::unknown(method).into());
    };
    if needed != asked {
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
    let agent = handle::agent(app, agent, tenant).await?;
    let dialect = Dialect::new(needed, Transport::JsonRpc);
    let call = method::call(operation, dialect, params)?;
    let caller = Caller {
        client,
        authenticated,
        version: needed,
        agent,
    };
    let base = handle::base(app, parts);
    let answer = call::answer(app, &caller, dialect, base, call).await?;
    Ok((answer, dialect))
}

/// A request that is none.
fn invalid(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::InvalidRequest, text)
}
