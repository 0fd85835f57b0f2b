//! Services that are no agents (000 §6.4): listed by discovery, reached by `request` over HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use collective::{Envelope, ErrorCode, GATEWAY, Kind};
use egress::{Access, Net, NetError, Request, Sent};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::config::ServiceConfig;
use super::hub::Hub;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;

/// So many requests to services go on at a time.
const MAX_CONCURRENT: usize = 64;

/// What an envelope needs around the answer of a service, in bytes.
const ENVELOPE_BYTES: usize = 4096;

/// The services of the configuration.
pub(super) struct Services {
    all: Vec<ServiceConfig>,
    turns: Arc<Semaphore>,
}

/// How a service answers when it is asked for its health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It says so itself.
    Healthy,
    /// It answers, and not with success.
    Unhealthy(u16),
    /// It does not answer. Why, as a sentence.
    Unreachable(String),
    /// It names no endpoint for that.
    Unknown,
}

impl Services {
    pub(super) fn new(services: &[ServiceConfig]) -> Self {
        Self {
            all: services.to_vec(),
            turns: Arc::new(Semaphore::new(MAX_CONCURRENT)),
        }
    }

    fn get(&self, name: &str) -> Option<&ServiceConfig> {
        self.all.iter().find(|service| service.service_id == name)
    }

    /// The services as discovery lists them. The configuration takes no endpoint with user info or a query.
    pub(super) fn list(&self) -> Vec<Value> {
        let listed = |service: &ServiceConfig| {
            json!({
                "serviceId": service.service_id,
                "endpoint": service.endpoint,
                "capabilities": service.capabilities,
                "healthEndpoint": service.health_endpoint,
            })
        };
        self.all.iter().map(listed).collect()
    }
}

/// Asks a service for its health.
pub async fn health(net: &dyn Net, service: &ServiceConfig, within: Duration) -> Health {
    let Some(url) = service
        .health_endpoint
        .as_deref()
        .and_then(|url| Url::parse(url).ok())
    else {
        return Health::Unknown;
    };
    let asked = net.exchange(Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: None,
        // The operator wrote the address.
        access: Access::Private,
        trust: None,
        repeatable: true,
        authorization: None,
    });
    match tokio::time::timeout(within, asked).await {
        Ok(Ok(response)) if response.status.is_success() => Health::Healthy,
        Ok(Ok(response)) => Health::Unhealthy(response.status.as_u16()),
        Ok(Err(error)) => Health::Unreachable(error.to_string()),
        Err(_) => Health::Unreachable(format!(
            "it did not answer within {} ms",
            within.as_millis()
        )),
    }
}

impl Hub {
    /// Asks a service, or, where it names an agent, that agent. The answer comes when it comes: the connection goes on.
    pub(super) async fn request(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        if envelope.agent().is_some() {
            return self.pass_on(client, envelope, context).await;
        }
        let name = envelope.said("service").unwrap_or_default();
        if name == GATEWAY {
            return self.own_service(client, &envelope, context).await;
        }
        let Some(service) = self.services.get(name) else {
            let message =
                format!("there is no service `{name}`; `discovery` lists those there are");
            return Err(Refusal::new(ErrorCode::AgentNotFound, message));
        };
        self.may(client, envelope.from(), Operation::Request(name))?;
        if envelope.is_expired(self.millis()) {
            let message = "the request is older than its `ttl` and was not passed on";
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
        }
        let endpoint = Url::parse(&service.endpoint).map_err(|_| {
            let message =
                format!("the service `{name}` has no usable endpoint; the operator has to mend it");
            Refusal::new(ErrorCode::AgentError, message)
        })?;
        let turn = Arc::clone(&self.services.turns)
            .try_acquire_owned()
            .map_err(|_| {
                let message = "too many requests to services go on; send it again later";
                Refusal::busy(message, Duration::from_secs(1))
            })?;
        let name = name.to_owned();
        let from = client.name(envelope.from());
        let body = envelope.with("from", &*from).to_text();
        let (hub, client, context) = (Arc::clone(self), Arc::clone(client), context.clone());
        self.tasks.spawn(async move {
            let asked = hub.ask_service(&name, endpoint, body.into());
            let asked = tokio::select! {
                asked = tokio::time::timeout(hub.pace.service, asked) => asked.unwrap_or_else(|_| {
                    let message = format!("the service `{name}` did not answer within {} s; it may still do what it was asked", hub.pace.service.as_secs());
                    Err(Refusal::new(ErrorCode::AgentError, message))
                }),
                () = hub.stopping.cancelled() => Err(super::shutdown::going_down()),
            };
            match asked {
                Ok(result) => {
                    let content = json!({"service": name, "result": result});
                    let answer = context.answer(Kind::Response, content).with("from", GATEWAY);
                    hub.answer(&client, answer).await;
                }
                Err(refusal) => hub.refuse(&client, &context, &refusal).await,
            }
            // Until it has been taken, the answer is held.
            drop(turn);
        });
        Ok(Outcome::Delivered)
    }

    async fn ask_service(&self, name: &str, url: Url, body: Bytes) -> Result<Value, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        let asked = self.net.exchange(Request {
            method: Method::POST,
            url,
            headers,
            body: Some(body),
            // The operator wrote the address.
            access: Access::Private,
            trust: None,
            repeatable: false,
            authorization: None,
        });
        let response = asked
            .await
            .map_err(|error| unreachable_service(name, &error))?;
        if !response.status.is_success() {
            let message = format!(
                "the service `{name}` answered HTTP {}",
                response.status.as_u16()
            );
            return Err(Refusal::new(ErrorCode::AgentError, message));
        }
        let most = self
            .config
            .limits
            .frame_bytes
            .saturating_sub(ENVELOPE_BYTES);
        let (mut body, mut read) = (response.body, Vec::new());
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| unreachable_service(name, &error))?;
            if read.len() + chunk.len() > most {
                let message =
                    format!("the answer of the service `{name}` is larger than {most} bytes");
                return Err(Refusal::new(ErrorCode::AgentError, message));
            }
            read.extend_from_slice(&chunk);
        }
        Ok(serde_json::from_slice(&read)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&read).into_owned())))
    }
}

fn unreachable_service(name: &str, error: &NetError) -> Refusal {
    match error.sent() {
        Sent::No => {
            let message =
                format!("the service `{name}` cannot be reached; the request was not delivered");
            Refusal::new(ErrorCode::AgentOffline, message)
        }
        _ => {
            let message =
                format!("the service `{name}` broke off; it may have done what it was asked");
            Refusal::new(ErrorCode::AgentError, message)
        }
    }
}
