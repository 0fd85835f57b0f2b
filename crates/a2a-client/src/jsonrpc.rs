//! A2A over JSON-RPC 2.0 (A2A 0.3 §3.2.1, 1.0 §9): one address, one POST a call.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use a2a::{Card, Event, Reply, SendRequest, ShapeError, Task, Transport, Version};
use common::redact;
use peer::{BoxFuture, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind, excerpt};

use super::error_body::KEPT_DATA;
use super::events::{Answered, Decode};
use super::line::{Heard, HttpBinding, Idempotency};
use super::secrets::Secrets;
use super::{card, v0_3, v1};

/// What most calls fit into, in bytes.
const USUAL: usize = 1024;

/// Each exchange has a connection of its own, so one id tells every answer from noise, and an answer without one is its own.
const ID: u32 = 1;

/// What a version writes and reads over JSON-RPC.
struct Dialect {
    version: Version,
    send: &'static str,
    stream: &'static str,
    get: &'static str,
    cancel: &'static str,
    subscribe: &'static str,
    card: &'static str,
    /// Turns a result into an answer of the model.
    reply: fn(Value) -> Value,
    /// Turns a result into a task of the model.
    task: fn(Value) -> Value,
    event: Decode,
}

/// A2A 0.3 §3.5.6. What it writes is the model's own shape.
static V0_3: Dialect = Dialect {
    version: Version::V0_3,
    send: "message/send",
    stream: "message/stream",
    get: "tasks/get",
    cancel: "tasks/cancel",
    subscribe: "tasks/resubscribe",
    card: "agent/getAuthenticatedExtendedCard",
    reply: |result| result,
    task: |result| result,
    event: |data, secrets| Event::read(event(data, secrets)?).map_err(misshapen),
};

/// A2A 1.0 §5.3.
static V1_0: Dialect = Dialect {
    version: Version::V1_0,
    send: "SendMessage",
    stream: "SendStreamingMessage",
    get: "GetTask",
    cancel: "CancelTask",
    subscribe: "SubscribeToTask",
    card: "GetExtendedAgentCard",
    reply: v1_reply,
    task: |result| v1::read::READER.task(result),
    event: |data, secrets| Event::read(v1_reply(event(data, secrets)?)).map_err(misshapen),
};

fn v1_reply(result: Value) -> Value {
    v1::read::READER
        .reply(result)
        .unwrap_or_else(|unknown| unknown)
}

/// A peer's JSON-RPC interface.
pub(super) struct JsonRpc {
    line: HttpBinding,
    url: Url,
    tenant: Option<String>,
    dialect: &'static Dialect,
}

impl JsonRpc {
    /// The interface at `url` in `version`. Only 1.0 knows tenants.
    pub(super) fn new(
        line: HttpBinding,
        url: Url,
        version: Version,
        tenant: Option<String>,
    ) -> Self {
        let (dialect, tenant) = match version {
            Version::V0_3 => (&V0_3, None),
            Version::V1_0 => (&V1_0, tenant),
        };
        Self {
            line,
            url,
            tenant,
            dialect,
        }
    }

    async fn call(
        &self,
        often: Idempotency,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Value, PeerError> {
        let body = body(method, params)?;
        let answer = self
            .line
            .ask(often, Method::POST, self.url.clone(), Some(body), explain)
            .await?;
        self.result(self.line.json(&answer)?)
    }

    fn result(&self, answer: Value) -> Result<Value, PeerError> {
        unwrapped(answer, true, self.line.secrets())
    }

    async fn task(&self, method: &str, params: &TaskParams<'_>) -> Result<Task, PeerError> {
        let result = self.call(Idempotency::Repeatable, method, params).await?;
        Task::read((self.dialect.task)(result)).map_err(misshapen)
    }

    fn reply(&self, result: Value) -> Result<Reply, PeerError> {
        Reply::read((self.dialect.reply)(result)).map_err(misshapen)
    }

    async fn listen(
        &self,
        often: Idempotency,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let body = body(method, params)?;
        let heard = self
            .line
            .listen(often, Method::POST, self.url.clone(), Some(body), explain)
            .await?;
        Ok(match heard {
            Heard::Events(reader) => Box::new(self.line.events(reader, self.dialect.event)),
            Heard::Answer(answer) => {
                let reply = self.reply(self.result(self.line.json(&answer)?)?)?;
                Box::new(Answered(Some((reply, answer.body.len()))))
            }
        })
    }

    fn message<'a>(&'a self, outgoing: &'a SendRequest) -> SendParams<'a> {
        match self.dialect.version {
            Version::V0_3 => SendParams::V0_3(v0_3::json::SendParams::of(outgoing)),
            Version::V1_0 => {
                SendParams::V1_0(v1::write::SendParams::of(outgoing, self.tenant.as_deref()))
            }
        }
    }

    fn about<'a>(&'a self, task_id: &'a str) -> TaskParams<'a> {
        TaskParams {
            tenant: self.tenant.as_deref(),
            id: Some(task_id),
            history_length: None,
        }
    }
}

/// The parameters of a message, in the version that is spoken.
#[derive(Serialize)]
#[serde(untagged)]
enum SendParams<'a> {
    V0_3(v0_3::json::SendParams<'a>),
    V1_0(v1::write::SendParams<'a>),
}

impl Peer for JsonRpc {
    fn spoken(&self) -> NegotiatedProtocol {
        NegotiatedProtocol {
            version: self.dialect.version.as_str(),
            transport: Transport::JsonRpc,
        }
    }

    fn secrets(&self) -> Arc<redact::Secrets> {
        self.line.secrets().current()
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let params = TaskParams {
                tenant: self.tenant.as_deref(),
                id: None,
                history_length: None,
            };
            let json = self
                .call(Idempotency::Repeatable, self.dialect.card, &params)
                .await?;
            let json = self.line.verified(json).await?;
            card::read(&json).map_err(|why| PeerError::new(PeerErrorKind::CardUnavailable, why))
        })
    }

    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let params = self.message(outgoing);
            self.reply(
                self.call(Idempotency::Once, self.dialect.send, &params)
                    .await?,
            )
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let params = self.message(outgoing);
            self.listen(Idempotency::Once, self.dialect.stream, &params)
                .await
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let params = TaskParams {
                history_length,
                ..self.about(task_id)
            };
            self.task(self.dialect.get, &params).await
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move { self.task(self.dialect.cancel, &self.about(task_id)).await })
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let params = self.about(task_id);
            self.listen(Idempotency::Repeatable, self.dialect.subscribe, &params)
                .await
        })
    }
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

fn body(method: &str, params: &impl Serialize) -> Result<Bytes, PeerError> {
    #[derive(Serialize)]
    struct Call<'a, P> {
        jsonrpc: &'static str,
        id: u32,
        method: &'a str,
        params: &'a P,
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

/// What is inside a JSON-RPC answer (JSON-RPC 2.0 §5). In a stream the id is not held against an event: its connection
/// tells what it belongs to.
fn unwrapped(answer: Value, check_id: bool, secrets: &Secrets) -> Result<Value, PeerError> {
    let Value::Object(mut answer) = answer else {
        return Err(misshapen(ShapeError::here(
            "a JSON-RPC answer",
            Some(&answer),
        )));
    };
    if let Some(error) = answer.remove("error").filter(|error| !error.is_null()) {
        return Err(rpc_error(error, secrets));
    }
    if check_id && is_another(answer.get("id")) {
        let message = "the answer's JSON-RPC id is not the request's, so it answers something else";
        return Err(PeerError::new(PeerErrorKind::InvalidResponse, message));
    }
    Ok(answer.remove("result").unwrap_or_default())
}

/// The id of an answer is that of another request. Some peers leave it out or write it as a string.
fn is_another(id: Option<&Value>) -> bool {
    match id {
        None | Some(Value::Null) => false,
        Some(Value::String(id)) => *id != ID.to_string(),
        Some(id) => id.as_f64() != Some(ID.into()),
    }
}

/// The error in a body that came with an error status.
fn explain(mut body: Value, secrets: &Secrets) -> Option<PeerError> {
    let error = body.get_mut("error").filter(|error| error.is_object())?;
    Some(rpc_error(error.take(), secrets))
}

fn rpc_error(mut error: Value, secrets: &Secrets) -> PeerError {
    secrets.scrub_failure(&mut error);
    let code = error.get("code").and_then(Value::as_i64);
    let said = error
        .get("message")
        .or(Some(&error))
        .and_then(Value::as_str)
        .map(excerpt)
        .unwrap_or_default();
    let code_text = code.map_or_else(
        || "an error".into(),
        |code| format!("JSON-RPC error {code}"),
    );
    let mut told = PeerError::new(
        PeerErrorKind::Rpc,
        format!("the peer answered with {code_text}: {said}"),
    );
    told.rpc_code = code;
    told.rpc_data = error
        .get("data")
        .filter(|data| !data.is_null() && data.to_string().len() <= KEPT_DATA)
        .cloned();
    told
}

/// The result in an event's data.
fn event(data: &str, secrets: &Secrets) -> Result<Value, PeerError> {
    let mut answer: Value = serde_json::from_str(data).map_err(|e| {
        PeerError::new(
            PeerErrorKind::InvalidResponse,
            format!("an event of the stream is not JSON: {e}"),
        )
    })?;
    secrets.scrub_answer(&mut answer);
    unwrapped(answer, false, secrets)
}

pub(super) fn misshapen(wrong: ShapeError) -> PeerError {
    PeerError::new(PeerErrorKind::InvalidResponse, wrong.to_string())
}
