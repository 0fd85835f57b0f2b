//! One interface of a peer in one version: what is asked of it, over either binding, and what its answers say.

use std::sync::Arc;

use serde_json::Value;
use url::Url;

use a2a::{Card, Dialect, Reply, SendRequest, Task, Transport, Version};
use common::redact;
use peer::{BoxFuture, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind};

use super::decoder::{Decoder, misshapen};
use super::events::Answered;
use super::http_json::HttpJson;
use super::jsonrpc::JsonRpc;
use super::line::{Heard, HttpBinding};
use super::memory::Learned;
use super::request::Request;

enum Binding {
    JsonRpc(JsonRpc),
    HttpJson(HttpJson),
}

/// An interface in one version.
pub(super) struct BoundPeer {
    line: HttpBinding,
    version: Version,
    tenant: Option<String>,
    binding: Binding,
}

impl BoundPeer {
    /// The interface at `url`. Only 1.0 knows tenants.
    pub(super) fn new(
        line: HttpBinding,
        transport: Transport,
        url: Url,
        version: Version,
        tenant: Option<String>,
        learned: &Arc<Learned>,
    ) -> Self {
        let tenant = tenant.filter(|_| version == Version::V1_0);
        let binding = match transport {
            Transport::HttpJson => Binding::HttpJson(HttpJson {
                base: url,
                tenant: tenant.clone(),
                version,
                learned: Arc::clone(learned),
            }),
            Transport::JsonRpc | Transport::Grpc | Transport::Gateway => {
                Binding::JsonRpc(JsonRpc { url })
            }
        };
        Self {
            line,
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
        let answer = match &self.binding {
            Binding::JsonRpc(rpc) => {
                let dialect = self.decoder().dialect;
                rpc.call(&self.line, &request, tenant, dialect).await
            }
            Binding::HttpJson(rest) => rest.call(&self.line, &request).await,
        }?;
        self.decoder()
            .result(self.line.json(&answer)?, true, self.line.secrets())
    }

    async fn task(&self, request: Request<'_>) -> Result<Task, PeerError> {
        let task = self.call(request).await?;
        self.decoder().dialect.read_task(task).map_err(misshapen)
    }

    async fn listen(&self, request: Request<'_>) -> Result<Box<dyn EventStream>, PeerError> {
        let tenant = self.tenant.as_deref();
        let decoder = self.decoder();
        let heard = match &self.binding {
            Binding::JsonRpc(rpc) => {
                rpc.listen(&self.line, &request, tenant, decoder.dialect)
                    .await
            }
            Binding::HttpJson(rest) => rest.listen(&self.line, &request).await,
        }?;
        Ok(match heard {
            Heard::Events(reader) => Box::new(self.line.events(reader, decoder)),
            Heard::Answer(answer) => {
                let secrets = self.line.secrets();
                let result = decoder.result(self.line.json(&answer)?, true, secrets)?;
                let reply = decoder.reply(result, secrets)?;
                Box::new(Answered(Some((reply, answer.body.len()))))
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
        self.line.secrets().current()
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let json = self.call(Request::Card).await?;
            let json = self.line.verified(json).await?;
            Card::read(&json).map_err(|why| PeerError::new(PeerErrorKind::CardUnavailable, why))
        })
    }

    fn send<'a>(&'a self, request: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let result = self.call(Request::Send(request)).await?;
            self.decoder().reply(result, self.line.secrets())
        })
    }

    fn stream<'a>(
        &'a self,
        request: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.listen(Request::Stream(request)))
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.task(Request::Get(task_id, history_length)))
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(self.task(Request::Cancel(task_id)))
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.listen(Request::Subscribe(task_id)))
    }
}
