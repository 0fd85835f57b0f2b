//! A2A over JSON-RPC 2.0 (A2A 0.3 §3.2.1, 1.0 §9): one address, one POST a call.

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use url::Url;

use a2a::{Dialect, SendParams, Version};
use peer::{PeerError, PeerErrorKind};

use super::decoder::{ID, explain};
use super::line::{Answer, Heard, HttpBinding};
use super::request::Request;

/// What most calls fit into, in bytes.
const USUAL: usize = 1024;

/// Where a peer speaks JSON-RPC.
pub(super) struct JsonRpc {
    pub(super) url: Url,
}

impl JsonRpc {
    pub(super) async fn call(
        &self,
        line: &HttpBinding,
        request: &Request<'_>,
        tenant: Option<&str>,
        dialect: Dialect,
    ) -> Result<Answer, PeerError> {
        let body = written(request, tenant, dialect)?;
        let url = self.url.clone();
        line.ask(request.repeats(), Method::POST, url, Some(body), explain)
            .await
    }

    pub(super) async fn listen(
        &self,
        line: &HttpBinding,
        request: &Request<'_>,
        tenant: Option<&str>,
        dialect: Dialect,
    ) -> Result<Heard, PeerError> {
        let body = written(request, tenant, dialect)?;
        let url = self.url.clone();
        line.listen(request.repeats(), Method::POST, url, Some(body), explain)
            .await
    }
}

fn written(
    request: &Request<'_>,
    tenant: Option<&str>,
    dialect: Dialect,
) -> Result<Bytes, PeerError> {
    let version = match dialect {
        Dialect::V1_0 => Version::V1_0,
        Dialect::V0_3(_) => Version::V0_3,
    };
    let about = |id, history_length| {
        Params::Task(TaskParams {
            tenant,
            id,
            history_length,
        })
    };
    let params = match *request {
        Request::Send(message) | Request::Stream(message) => {
            Params::Send(SendParams::new(message, dialect, tenant))
        }
        Request::Get(task_id, history_length) => about(Some(task_id), history_length),
        Request::Cancel(task_id) | Request::Subscribe(task_id) => about(Some(task_id), None),
        Request::Card => about(None, None),
    };
    body(request.operation().method(version), &params)
}

/// The parameters of a call.
#[derive(Serialize)]
#[serde(untagged)]
enum Params<'a> {
    Send(SendParams<'a>),
    Task(TaskParams<'a>),
}

/// What is asked about a task (0.3 §7.3, §7.4; 1.0 §3.1), and without an id for the card.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u64>,
}

fn body(method: &str, params: &Params<'_>) -> Result<Bytes, PeerError> {
    #[derive(Serialize)]
    struct Call<'a> {
        jsonrpc: &'static str,
        id: u32,
        method: &'a str,
        params: &'a Params<'a>,
    }
    let call = Call {
        jsonrpc: "2.0",
        id: ID,
        method,
        params,
    };
    let mut json = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut json, &call).map_err(unwritable)?;
    Ok(json.into())
}

pub(super) fn unwritable(error: serde_json::Error) -> PeerError {
    let message = format!("the request cannot be written as JSON: {error}");
    PeerError::new(PeerErrorKind::Unaddressable, message).undelivered()
}
