//! One interface of a peer in one version, over either binding.

use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use serde_json::{Map, Value};
use url::Url;

use a2a::{Card, Dialect, Reply, SendRequest, Task, Transport, Version};
use base::redact;
use peer::{EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind, TaskPage};

use super::decoder::{Decoder, parse_error};
use super::events::SingleEvent;
use super::http_json::HttpJson;
use super::interface_client::Request;
use super::interface_client::{InterfaceClient, PlainResponse, StreamResponse};
use super::jsonrpc;
use super::negotiate::InterfaceState;

enum Binding {
    JsonRpc(Url),
    HttpJson(HttpJson),
}

/// An interface in one version.
pub(super) struct BoundPeer {
    http: InterfaceClient,
    version: Version,
    tenant: Option<String>,
    binding: Binding,
}

impl BoundPeer {
    /// Creates the peer for the interface at `url`. Only 1.0 has tenants.
    pub(super) fn new(
        http: InterfaceClient,
        transport: Transport,
        url: Url,
        version: Version,
        tenant: Option<String>,
        state: &Arc<InterfaceState>,
    ) -> Self {
        let tenant = tenant.filter(|_| version == Version::V1_0);
        let binding = match transport {
            Transport::HttpJson => Binding::HttpJson(HttpJson {
                base: url,
                tenant: tenant.clone(),
                version,
                state: Arc::clone(state),
            }),
            Transport::JsonRpc | Transport::Grpc | Transport::Gateway => Binding::JsonRpc(url),
        };
        Self {
            http,
            version,
            tenant,
            binding,
        }
    }

    fn decoder(&self) -> Decoder {
        let transport = match self.binding {
            Binding::JsonRpc(_) => Transport::JsonRpc,
            Binding::HttpJson(_) => Transport::HttpJson,
        };
        Decoder {
            transport,
            dialect: Dialect::new(self.version, transport),
        }
    }

    async fn response(&self, request: &Request<'_>) -> Result<PlainResponse, PeerError> {
        let tenant = self.tenant.as_deref();
        match &self.binding {
            Binding::JsonRpc(url) => {
                let body = jsonrpc::body(request, tenant, self.decoder().dialect)?;
                let (idempotency, url) = (request.idempotency(), url.clone());
                let call = self
                    .http
                    .call(idempotency, Method::POST, url, Some(body), parse_error);
                call.await
            }
            Binding::HttpJson(rest) => rest.call(&self.http, request).await,
        }
    }

    /// Returns the result in a response. Some servers answer with events: the result is that of the last one that has a task,
    /// a message or an error, else of the last one.
    async fn result(&self, response: &PlainResponse) -> Result<Value, PeerError> {
        let decoder = self.decoder();
        let result = |response: &PlainResponse| self.http.result(response, decoder);
        let url = match &self.binding {
            Binding::JsonRpc(url) => url,
            Binding::HttpJson(rest) => &rest.base,
        };
        let Some(documents) = self.http.documents(response, url).await? else {
            return result(response);
        };
        // The check consumes the value, so that memory holds one at a time; the only document needs none.
        let is_answer = |document: &&PlainResponse| match result(document) {
            Ok(found) => decoder.is_reply(found),
            Err(error) => error.kind == PeerErrorKind::Rpc,
        };
        let answer = match &*documents {
            [only] => Some(only),
            all => all.iter().rev().find(is_answer).or(all.last()),
        };
        result(answer.unwrap_or(response))
    }

    async fn call(&self, request: Request<'_>) -> Result<Value, PeerError> {
        self.result(&self.response(&request).await?).await
    }

    /// Reads the answer to a message. Requests the task of an answer that names it and cannot be read otherwise: the peer has
    /// the message.
    async fn reply(&self, result: Value) -> Result<Reply, PeerError> {
        let task_id = named_task(&result);
        let error = match self.decoder().reply(result, self.http.secrets()) {
            Err(error) if error.kind == PeerErrorKind::InvalidResponse => error,
            reply => return reply,
        };
        let Some(task_id) = task_id else {
            return Err(error);
        };
        match self.get_task(&task_id, None).await {
            Ok(task) if task.id().is_none_or(|id| id == task_id) => Ok(Reply::Task(task)),
            _ => Err(error),
        }
    }

    async fn subscribe(&self, request: Request<'_>) -> Result<Box<dyn EventStream>, PeerError> {
        let tenant = self.tenant.as_deref();
        let decoder = self.decoder();
        let response = match &self.binding {
            Binding::JsonRpc(url) => {
                let body = jsonrpc::body(&request, tenant, decoder.dialect)?;
                let (idempotency, url) = (request.idempotency(), url.clone());
                let call =
                    self.http
                        .stream(idempotency, Method::POST, url, Some(body), parse_error);
                call.await
            }
            Binding::HttpJson(rest) => rest.stream(&self.http, &request).await,
        }?;
        Ok(match response {
            StreamResponse::Events(reader) => Box::new(self.http.events(reader, decoder)),
            StreamResponse::Plain(response) => {
                let result = self.result(&response).await?;
                let reply = self.reply(result).await?;
                Box::new(SingleEvent(Some((reply, response.body.len()))))
            }
        })
    }
}

/// Returns the id of the task in an answer, whatever else of it can be read.
fn named_task(answer: &Value) -> Option<String> {
    let task = answer.get("task").unwrap_or(answer);
    task.get("status")?.as_object()?;
    let id = task.get("id")?.as_str()?;
    (!id.is_empty()).then(|| id.to_owned())
}

#[async_trait]
impl Peer for BoundPeer {
    fn protocol(&self) -> NegotiatedProtocol {
        NegotiatedProtocol {
            version: self.version.as_str(),
            transport: self.decoder().transport,
        }
    }

    fn secrets(&self) -> Arc<redact::Secrets> {
        self.http.secrets().current()
    }

    fn confirms_extension(&self, uri: &str) -> bool {
        self.http.confirms_extension(uri)
    }

    async fn card(&self) -> Result<Card, PeerError> {
        let json = self.call(Request::Card).await?;
        let verified = self.http.verify_card(json).await?;
        let read = verified.read(self.http.secrets());
        read.map_err(|reason| PeerError::new(PeerErrorKind::CardMalformed, reason))
    }

    async fn send(&self, request: &SendRequest) -> Result<Reply, PeerError> {
        let result = self.call(Request::Send(request)).await?;
        self.reply(result).await
    }

    async fn stream(&self, request: &SendRequest) -> Result<Box<dyn EventStream>, PeerError> {
        self.subscribe(Request::Stream(request)).await
    }

    async fn get_task(
        &self,
        task_id: &str,
        history_length: Option<u64>,
    ) -> Result<Task, PeerError> {
        let result = self.call(Request::Get(task_id, history_length)).await?;
        self.decoder().task(result, self.http.secrets())
    }

    async fn list_tasks(&self, page_token: Option<&str>) -> Result<TaskPage, PeerError> {
        if self.version != Version::V1_0 {
            let message = format!("A2A {} cannot list tasks", self.version.as_str());
            return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message).undelivered());
        }
        let page = self.call(Request::List(page_token)).await?;
        self.decoder().task_page(page, self.http.secrets())
    }

    async fn cancel(&self, task_id: &str) -> Result<Task, PeerError> {
        let response = self.response(&Request::Cancel(task_id)).await?;
        let result = match response.body.trim_ascii() {
            b"" | b"null" => Value::Null,
            _ => self.result(&response).await?,
        };
        let is_empty = result.is_null() || result.as_object().is_some_and(Map::is_empty);
        if !is_empty {
            return self.decoder().task(result, self.http.secrets());
        }
        // Some servers confirm without the task.
        let task = self.get_task(task_id, None).await;
        task.map_err(|error| error.during("the peer confirmed the cancellation, not the state"))
    }

    async fn resubscribe(&self, task_id: &str) -> Result<Box<dyn EventStream>, PeerError> {
        self.subscribe(Request::Subscribe(task_id)).await
    }
}

#[cfg(test)]
mod tests;
