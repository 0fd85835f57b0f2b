//! A2A over HTTP with JSON bodies (A2A 0.3 §3.2.3): a path for each operation.

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use url::Url;

use crate::peer::{
    BoxFuture, Card, Event, EventStream, Fault, Misshape, Outgoing, Peer, PeerError, Reply, Spoken,
    Task, Transport, Version,
};

use super::card;
use super::events::Answered;
use super::jsonrpc::misshapen;
use super::line::{Heard, Line, quoted};
use super::secrets::Secrets;
use super::v0_3::proto as wire;

/// What may stand in a path as it is (RFC 3986 §2.3, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A peer's HTTP+JSON interface.
pub(super) struct HttpJson {
    line: Line,
    base: Url,
}

impl HttpJson {
    pub(super) fn new(line: Line, base: Url) -> Self {
        Self { line, base }
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// The address of a task, with what is asked of it behind.
    fn task_url(&self, task_id: &str, verb: &str) -> Result<Url, PeerError> {
        if verb.is_empty() && matches!(task_id, "." | "..") {
            let message = format!(
                "the task id `{task_id}` cannot be part of a path, so HTTP+JSON cannot ask for it"
            );
            return Err(PeerError::new(Fault::Unaddressable, message).undelivered());
        }
        let id = utf8_percent_encode(task_id, SEGMENT);
        Ok(self.url(&format!("/v1/tasks/{id}{verb}")))
    }

    async fn ask(&self, method: Method, url: Url, body: Option<Bytes>) -> Result<Value, PeerError> {
        let answer = self.line.ask(method, url, body, explain).await?;
        self.line.json(&answer)
    }

    fn reply(&self, answer: Value) -> Result<Reply, PeerError> {
        if let Some(error) = explained(&answer, self.line.secrets()) {
            return Err(error);
        }
        match wire::unwrap_in(answer) {
            Ok(inner) => Reply::read(inner).map_err(misshapen),
            Err(_) => Err(misshapen(Misshape {
                pointer: String::new(),
                expected: "an object with `task` or `message`",
                found: "something else",
            })),
        }
    }

    async fn listen(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        Ok(match self.line.listen(method, url, body, explain).await? {
            Heard::Events(reader) => Box::new(self.line.events(reader, event)),
            Heard::Answer(answer) => {
                let reply = self.reply(self.line.json(&answer)?)?;
                Box::new(Answered(Some((reply, answer.body.len()))))
            }
        })
    }
}

impl Peer for HttpJson {
    fn spoken(&self) -> Spoken {
        Spoken {
            version: Version::V0_3,
            transport: Transport::HttpJson,
        }
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let json = self.ask(Method::GET, self.url("/v1/card"), None).await?;
            card::read(&json).map_err(|why| PeerError::new(Fault::CardUnavailable, why))
        })
    }

    fn send<'a>(&'a self, outgoing: &'a Outgoing) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let body = bytes(&wire::send_body(outgoing));
            let url = self.url("/v1/message:send");
            self.reply(self.ask(Method::POST, url, Some(body)).await?)
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a Outgoing,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let body = bytes(&wire::send_body(outgoing));
            self.listen(Method::POST, self.url("/v1/message:stream"), Some(body))
                .await
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let mut url = self.task_url(task_id, "")?;
            if let Some(length) = history_length {
                url.query_pairs_mut()
                    .append_pair("historyLength", &length.to_string());
            }
            let answer = self.ask(Method::GET, url, None).await?;
            Task::read(wire::task_in(answer)).map_err(misshapen)
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let url = self.task_url(task_id, ":cancel")?;
            let answer = self.ask(Method::POST, url, Some(bytes(&json!({})))).await?;
            Task::read(wire::task_in(answer)).map_err(misshapen)
        })
    }

    /// The protocol's text says POST, its definition GET, and servers follow one or the other.
    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let url = self.task_url(task_id, ":subscribe")?;
            let posted = self
                .listen(Method::POST, url.clone(), Some(bytes(&json!({}))))
                .await;
            match posted {
                Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                    // The first refusal tells more than the second, where both refuse.
                    self.listen(Method::GET, url, None).await.map_err(|second| {
                        if second.fault == Fault::HttpStatus {
                            error
                        } else {
                            second
                        }
                    })
                }
                other => other,
            }
        })
    }
}

fn bytes(json: &Value) -> Bytes {
    Bytes::from(json.to_string())
}

fn event(data: &str, secrets: &Secrets) -> Result<Event, PeerError> {
    let mut json: Value = serde_json::from_str(data).map_err(|e| {
        PeerError::new(
            Fault::InvalidResponse,
            format!("an event of the stream is not JSON: {e}"),
        )
    })?;
    secrets.scrub_answer(&mut json);
    if let Some(error) = explained(&json, secrets) {
        return Err(error);
    }
    let event = wire::unwrap_in(json).unwrap_or_else(|unknown| unknown);
    Event::read(event).map_err(misshapen)
}

/// The error in a body, in any of the shapes that servers give it: `{code, message}`, the same below `error`, `{detail}`.
fn explained(body: &Value, secrets: &Secrets) -> Option<PeerError> {
    let inner = body.get("error").filter(|e| e.is_object()).unwrap_or(body);
    let code = inner.get("code").and_then(Value::as_i64);
    let said = ["message", "detail"]
        .iter()
        .find_map(|key| inner.get(key).and_then(Value::as_str));
    if code.is_none() && said.is_none() {
        return None;
    }
    let number = code.map(|code| format!(" {code}")).unwrap_or_default();
    let said = said.map_or_else(String::new, |said| quoted(&secrets.scrub(said)));
    let mut error = PeerError::new(
        Fault::Rpc,
        format!("the peer answered with error{number}: {said}"),
    );
    error.rpc_code = code.filter(|code| *code < 0);
    Some(error)
}

fn explain(body: Value, secrets: &Secrets) -> Option<PeerError> {
    explained(&body, secrets)
}
