//! A2A over JSON-RPC 2.0 (A2A 0.3 §3.2.1, 1.0 §9): one URL, one POST per call.

use bytes::Bytes;
use serde::Serialize;

use a2a::{Dialect, SendParams};
use base::json;
use peer::{PeerError, PeerErrorKind};

use super::decoder::ID;
use super::interface_client::Request;

/// The initial capacity of a request body, in bytes.
const BODY_CAPACITY: usize = 1024;

/// Serializes the body of a request.
pub(super) fn body(
    request: &Request<'_>,
    tenant: Option<&str>,
    dialect: Dialect,
) -> Result<Bytes, PeerError> {
    let task = |id, history_length| {
        Params::Task(TaskParams {
            tenant,
            id,
            history_length,
            page_token: None,
        })
    };
    let params = match *request {
        Request::Send(message) | Request::Stream(message) => {
            Params::Send(SendParams::new(message, dialect, tenant))
        }
        Request::Get(task_id, history_length) => task(Some(task_id), history_length),
        Request::Cancel(task_id) | Request::Subscribe(task_id) => task(Some(task_id), None),
        Request::Card => task(None, None),
        Request::List(page_token) => Params::Task(TaskParams {
            tenant,
            id: None,
            history_length: None,
            page_token,
        }),
    };
    #[derive(Serialize)]
    struct Call<'a> {
        jsonrpc: &'static str,
        id: u32,
        method: &'a str,
        params: Params<'a>,
    }
    let call = Call {
        jsonrpc: "2.0",
        id: ID,
        method: request.operation().method(dialect.version()),
        params,
    };
    let mut json = Vec::with_capacity(BODY_CAPACITY);
    json::append(&mut json, &call).map_err(unserializable)?;
    Ok(json.into())
}

/// The parameters of a call.
#[derive(Serialize)]
#[serde(untagged)]
enum Params<'a> {
    Send(SendParams<'a>),
    Task(TaskParams<'a>),
}

/// The parameters of a call about a task (A2A 0.3 §7.3, §7.4; 1.0 §3.1), or about the card or all tasks, without an id.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<&'a str>,
}

pub(super) fn unserializable(error: serde_json::Error) -> PeerError {
    let message = format!("cannot serialize the request: {error}");
    PeerError::new(PeerErrorKind::Unaddressable, message).undelivered()
}
