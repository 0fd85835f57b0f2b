//! A2A over JSON-RPC 2.0 (A2A 0.3 §3.2.1): one address, one POST a call.

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::peer::{
    BoxFuture, Card, Event, EventStream, Fault, Misshape, Outgoing, Peer, PeerError, Reply, Spoken,
    Task, Transport, Version,
};

use super::card;
use super::events::Answered;
use super::line::{Heard, Line, quoted};
use super::secrets::Secrets;
use super::v0_3::json as wire;

/// Each exchange has a connection of its own, so one id tells every answer from noise.
const ID: u32 = 1;

/// The most of a peer's error data that is kept, in bytes of JSON.
const KEPT_DATA: usize = 4096;

/// A peer's JSON-RPC interface.
pub(super) struct JsonRpc {
    line: Line,
    url: Url,
}

impl JsonRpc {
    pub(super) fn new(line: Line, url: Url) -> Self {
        Self { line, url }
    }

    async fn call(&self, method: &str, params: &impl Serialize) -> Result<Value, PeerError> {
        let body = body(method, params)?;
        let answer = self
            .line
            .ask(Method::POST, self.url.clone(), Some(body), explain)
            .await?;
        self.result(self.line.json(&answer)?)
    }

    fn result(&self, answer: Value) -> Result<Value, PeerError> {
        unwrapped(answer, true, self.line.secrets())
    }

    async fn listen(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let body = body(method, params)?;
        let heard = self
            .line
            .listen(Method::POST, self.url.clone(), Some(body), explain)
            .await?;
        Ok(match heard {
            Heard::Events(reader) => Box::new(self.line.events(reader, event)),
            Heard::Answer(answer) => {
                let result = self.result(self.line.json(&answer)?)?;
                let reply = Reply::read(result).map_err(misshapen)?;
                Box::new(Answered(Some((reply, answer.body.len()))))
            }
        })
    }
}

impl Peer for JsonRpc {
    fn spoken(&self) -> Spoken {
        Spoken {
            version: Version::V0_3,
            transport: Transport::JsonRpc,
        }
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let json = self
                .call("agent/getAuthenticatedExtendedCard", &json!({}))
                .await?;
            card::read(&json).map_err(|why| PeerError::new(Fault::CardUnavailable, why))
        })
    }

    fn send<'a>(&'a self, outgoing: &'a Outgoing) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let result = self
                .call("message/send", &wire::SendParams::of(outgoing))
                .await?;
            Reply::read(result).map_err(misshapen)
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a Outgoing,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            self.listen("message/stream", &wire::SendParams::of(outgoing))
                .await
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let params = wire::TaskParams {
                id: task_id,
                history_length,
            };
            Task::read(self.call("tasks/get", &params).await?).map_err(misshapen)
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let params = wire::TaskParams {
                id: task_id,
                history_length: None,
            };
            Task::read(self.call("tasks/cancel", &params).await?).map_err(misshapen)
        })
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let params = wire::TaskParams {
                id: task_id,
                history_length: None,
            };
            self.listen("tasks/resubscribe", &params).await
        })
    }
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
    serde_json::to_vec(&call).map(Bytes::from).map_err(|e| {
        PeerError::new(
            Fault::Unaddressable,
            format!("the request cannot be written as JSON: {e}"),
        )
        .undelivered()
    })
}

/// What is inside a JSON-RPC answer (JSON-RPC 2.0 §5). In a stream the id is not held against an event: its connection
/// tells what it belongs to.
fn unwrapped(answer: Value, check_id: bool, secrets: &Secrets) -> Result<Value, PeerError> {
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<Value>,
        #[serde(default)]
        result: Value,
        error: Option<Value>,
    }
    if !answer.is_object() {
        return Err(misshapen(Misshape::here(
            "a JSON-RPC answer",
            Some(&answer),
        )));
    }
    let envelope: Envelope = serde_json::from_value(answer)
        .map_err(|e| PeerError::new(Fault::InvalidResponse, e.to_string()))?;
    if let Some(error) = envelope.error {
        return Err(rpc_error(error, secrets));
    }
    if check_id && envelope.id != Some(json!(ID)) {
        let message = "the answer's JSON-RPC id is not the request's, so it answers something else";
        return Err(PeerError::new(Fault::InvalidResponse, message));
    }
    Ok(envelope.result)
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
        .map(quoted)
        .unwrap_or_default();
    let code_text = code.map_or_else(
        || "an error".into(),
        |code| format!("JSON-RPC error {code}"),
    );
    let mut told = PeerError::new(
        Fault::Rpc,
        format!("the peer answered with {code_text}: {said}"),
    );
    told.rpc_code = code;
    told.rpc_data = error
        .get("data")
        .filter(|data| !data.is_null() && data.to_string().len() <= KEPT_DATA)
        .cloned();
    told
}

fn event(data: &str, secrets: &Secrets) -> Result<Event, PeerError> {
    let mut answer: Value = serde_json::from_str(data).map_err(|e| {
        PeerError::new(
            Fault::InvalidResponse,
            format!("an event of the stream is not JSON: {e}"),
        )
    })?;
    secrets.scrub_answer(&mut answer);
    Event::read(unwrapped(answer, false, secrets)?).map_err(misshapen)
}

pub(super) fn misshapen(wrong: Misshape) -> PeerError {
    PeerError::new(Fault::InvalidResponse, wrong.to_string())
}
