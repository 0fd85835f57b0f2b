//! One interface of a peer in one version, over either binding.

use std::sync::Arc;

use serde_json::Value;
use url::Url;

use a2a::{Card, Dialect, Reply, SendRequest, Task, Transport, Version};
use base::redact;
use peer::{BoxFuture, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind};

use super::decoder::{Decoder, shape_error};
use super::events::SingleEvent;
use super::http_binding::Request;
use super::http_binding::{HttpBinding, StreamResponse};
use super::http_json::HttpJson;
use super::jsonrpc::JsonRpc;
use super::negotiate::InterfaceState;

enum Binding {
    JsonRpc(JsonRpc),
    HttpJson(HttpJson),
}

/// An interface in one version.
pub(super) struct BoundPeer {
    http: HttpBinding,
    version: Version,
    tenant: Option<String>,
    binding: Binding,
}

impl BoundPeer {
    /// Creates the peer for the interface at `url`. Only 1.0 has tenants.
    pub(super) fn new(
        http: HttpBinding,
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
            Transport::JsonRpc | Transport::Grpc | Transport::Gateway => {
                Binding::JsonRpc(JsonRpc { url })
            }
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

    async fn call(&self, request: Request<'_>) -> Result<Value, PeerError> {
        let tenant = self.tenant.as_deref();
        let response = match &self.binding {
            Binding::JsonRpc(rpc) => {
                let dialect = self.decoder().dialect;
                rpc.call(&self.http, &request, tenant, dialect).await
            }
            Binding::HttpJson(rest) => rest.call(&self.http, &request).await,
        }?;
        self.decoder()
            .result(self.http.json(&response)?, true, self.http.secrets())
    }

    async fn task(&self, request: Request<'_>) -> Result<Task, PeerError> {
        let task = self.call(request).await?;
        self.decoder().dialect.read_task(task).map_err(shape_error)
    }

    async fn subscribe(&self, request: Request<'_>) -> Result<Box<dyn EventStream>, PeerError> {
        let tenant = self.tenant.as_deref();
        let decoder = self.decoder();
        let response = match &self.binding {
            Binding::JsonRpc(rpc) => {
                rpc.stream(&self.http, &request, tenant, decoder.dialect)
                    .await
            }
            Binding::HttpJson(rest) => rest.stream(&self.http, &request).await,
        }?;
        Ok(match response {
            StreamResponse::Events(reader) => Box::new(self.http.events(reader, decoder)),
            StreamResponse::Plain(response) => {
                let secrets = self.http.secrets();
                let result = decoder.result(self.http.json(&response)?, true, secrets)?;
                let reply = decoder.reply(result, secrets)?;
                Box::new(SingleEvent(Some((reply, response.body.len()))))
            }
        })
    }
}

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

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let json = self.call(Request::Card).await?;
            let json = self.http.verify_card(json).await?;
            Card::read(&json).map_err(|reason| PeerError::new(PeerErrorKind::CardMalformed, reason))
        })
    }

    fn send<'a>(&'a self, request: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let result = self.call(Request::Send(request)).await?;
            self.decoder().reply(result, self.http.secrets())
        })
    }

    fn stream<'a>(
        &'a self,
        request: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.subscribe(Request::Stream(request)))
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.task(Request::Get(task_id, history_length)))
    }

    fn list_tasks(&self) -> BoxFuture<'_, Result<Vec<Task>, PeerError>> {
        Box::pin(async {
            if self.version != Version::V1_0 {
                let message = format!("A2A {} cannot list tasks", self.version.as_str());
                return Err(
                    PeerError::new(PeerErrorKind::UnsupportedVersion, message).undelivered()
                );
            }
            let mut page = self.call(Request::List).await?;
            let Value::Array(tasks) = page["tasks"].take() else {
                // ProtoJSON may omit an empty list.
                return Ok(Vec::new());
            };
            let dialect = self.decoder().dialect;
            let tasks = tasks.into_iter().map(|task| dialect.read_task(task));
            tasks.collect::<Result<_, _>>().map_err(shape_error)
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.task(Request::Cancel(task_id)))
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.subscribe(Request::Subscribe(task_id)))
    }
}
