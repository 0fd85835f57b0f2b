//! Requests to HTTP services (Heretek A2A §6.4).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use url::Url;

use base::json;
use collective::{Envelope, ErrorCode, FRAME_LIMITS, GATEWAY, Kind};
use egress::{AddressPolicy, NetError, Request, Sent};

use crate::access::Operation;
use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::error::RequestError;
use crate::events::delivery;
use crate::reply_context::ReplyContext;
use crate::state::GatewayState;

/// The size of an envelope without the service's response, in bytes.
pub(super) const ENVELOPE_BYTES: usize = 4096;

impl GatewayState {
    /// Handles a request to an agent, to the gateway or to a service. Returns before the response of a service arrives.
    pub(super) async fn handle_request(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        if envelope.agent().is_some() {
            return self.forward(client, envelope, context).await;
        }
        let name = envelope.content_str("service").unwrap_or_default();
        if name == GATEWAY {
            return self.gateway_service(client, &envelope, context).await;
        }
        let Some(service) = self.services.get(name) else {
            let message = format!("there is no service `{name}`; `discovery` lists the services");
            return Err(RequestError::new(ErrorCode::AgentNotFound, message));
        };
        self.authorize(client, envelope.from(), Operation::Request(name))?;
        if envelope.is_expired(self.now_millis()) {
            let message = "the request is older than its `ttl` and was not forwarded";
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        let endpoint = Url::parse(&service.endpoint).map_err(|_| {
            let message =
                format!("the service `{name}` has an invalid endpoint; ask the gateway's operator to correct it");
            RequestError::new(ErrorCode::AgentError, message)
        })?;
        let from = client.name(envelope.from());
        self.publish(delivery("request", &envelope, name).with("from", &*from));
        let busy = || {
            let message = "too many requests to services are running; send the request again later";
            RequestError::busy(message, Duration::from_secs(1))
        };
        let share = self.shares.open_service_request(&client.share_key());
        let share = share.ok_or_else(busy)?;
        let permit = Arc::clone(&self.services.permits).try_acquire_owned();
        let permit = permit.map_err(|_| busy())?;
        let name = name.to_owned();
        let from = client.name(envelope.from());
        let body = envelope.with("from", &*from).to_text();
        let (state, client, context) = (Arc::clone(self), Arc::clone(client), context.clone());
        self.tasks.spawn(async move {
            let call = state.call_service(&name, endpoint, body.into());
            let result = tokio::select! {
                result = tokio::time::timeout(state.timeouts.service, call) => result.unwrap_or_else(|_| {
                    let message = format!("the service `{name}` did not respond within {} s; it may still carry out the request", state.timeouts.service.as_secs());
                    Err(RequestError::new(ErrorCode::AgentError, message))
                }),
                () = state.stopping.cancelled() => Err(RequestError::shutting_down()),
            };
            match result {
                Ok(result) => {
                    let content = json!({"service": name, "result": result});
                    let response = context.reply(Kind::Response, content).with("from", GATEWAY);
                    state.send(&client, response).await;
                }
                Err(error) => state.send_error(&client, &context, &error).await,
            }
            // The permit bounds the number of responses in memory.
            drop((permit, share));
        });
        Ok(Outcome::Delivered)
    }

    async fn call_service(&self, name: &str, url: Url, body: Bytes) -> Result<Value, RequestError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        let response = self.net.exchange(Request {
            method: Method::POST,
            url,
            headers,
            body: Some(body),
            // The operator configured this address.
            access: AddressPolicy::AnyAddress,
            trust: None,
            repeatable: false,
            authorization: None,
        });
        let response = response
            .await
            .map_err(|error| service_error(name, &error))?;
        if !response.status.is_success() {
            let message = format!(
                "the service `{name}` responded with HTTP {}",
                response.status.as_u16()
            );
            return Err(RequestError::new(ErrorCode::AgentError, message));
        }
        let max_bytes = self
            .config
            .limits
            .frame_bytes
            .saturating_sub(ENVELOPE_BYTES);
        let (mut body, mut read) = (response.body, Vec::new());
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| service_error(name, &error))?;
            if read.len() + chunk.len() > max_bytes {
                let message = format!(
                    "the response of the service `{name}` is larger than {max_bytes} bytes"
                );
                return Err(RequestError::new(ErrorCode::AgentError, message));
            }
            read.extend_from_slice(&chunk);
        }
        Ok(json::from_slice(&read, FRAME_LIMITS)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&read).into_owned())))
    }
}

fn service_error(name: &str, error: &NetError) -> RequestError {
    match error.sent() {
        Sent::No => {
            let message =
                format!("cannot reach the service `{name}`; the request was not delivered");
            RequestError::new(ErrorCode::AgentOffline, message)
        }
        _ => {
            let message = format!(
                "the service `{name}` closed the connection; it may have carried out the request"
            );
            RequestError::new(ErrorCode::AgentError, message)
        }
    }
}
