//! Requests to HTTP services (Heretek A2A §6.4), and to the service `gateway`, which lets the command manage a running gateway.
//!
//! `content.operation` is an operation of `manage.rs` or one of these:
//! - `agents.create` with `content.agent`, `content.role` and optionally `content.description` registers an agent until the
//!   gateway stops. The command writes the configuration.
//! - `agents.restart` with `content.agent` sends `disconnect` with the reason `shutdown` to the agent's connection and
//!   closes it, so that the client reconnects.
//!
//! The gateway refuses a request whose `content.stateDir` is not its own state directory.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};
use url::Url;

use crate::access::Operation;
use crate::audit::Outcome;
use crate::channels::delivery;
use crate::config::AgentConfig;
use crate::connected_client::Client;
use crate::frames::{ReplyContext, RequestError};
use crate::manage::ManageError;
use crate::outbox::Close;
use crate::state::GatewayState;
use crate::{agent, frames, manage};
use base::json;
use collective::{Envelope, ErrorCode, FRAME_LIMITS, GATEWAY, Kind};
use egress::{AddressPolicy, NetError, Request, Sent};

/// The size of an envelope without the service's response, in bytes.
const ENVELOPE_BYTES: usize = 4096;

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
        let from = client.name(envelope.from());
        let envelope = self.check_signature(client, envelope.with("from", &*from))?;
        let name = envelope.content_str("service").unwrap_or_default();
        if name == GATEWAY {
            let done = self.gateway_service(client, &envelope, context).await;
            let may_pass = |error: &RequestError| {
                matches!(error.code, ErrorCode::AgentBusy | ErrorCode::AgentOffline)
            };
            if done.as_ref().is_err_and(may_pass) {
                self.signing.forget(&envelope);
            }
            return done;
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
        self.publish(delivery("request", &envelope, name).with("from", &*from));
        let busy = || {
            self.signing.forget(&envelope);
            let message = "too many requests to services are running; send the request again later";
            RequestError::busy(message, Duration::from_secs(1))
        };
        let share = self.shares.open_service_request(&client.share_key());
        let share = share.ok_or_else(busy)?;
        let permit = Arc::clone(&self.services.permits).try_acquire_owned();
        let permit = permit.map_err(|_| busy())?;
        let name = name.to_owned();
        let body = envelope.to_text();
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
            headers,
            // The operator configured this address.
            ..Request::post(url, AddressPolicy::AnyAddress, body)
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
        let max_bytes = self.max_content_bytes();
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

impl GatewayState {
    /// Handles a request to the service `gateway`.
    async fn gateway_service(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        self.authorize(client, envelope.from(), Operation::Request(GATEWAY))?;
        let operation = envelope.content_str("operation").unwrap_or_default();
        if let Some(agent) = envelope.content_str("agent") {
            self.authorize(client, envelope.from(), Operation::Workspace(agent))?;
        }
        if operation == "agents.restart" {
            let result = self.restart_agent(envelope.content_str("agent").unwrap_or_default())?;
            self.send_result(client, context, result).await;
            return Ok(Outcome::Done);
        }
        if operation == "agents.create" {
            self.check_state_dir(envelope)?;
            let result = self.create_agent(client, envelope)?;
            self.send_result(client, context, result).await;
            return Ok(Outcome::Done);
        }
        let Some(operation) = manage::Operation::from_name(operation) else {
            let message = format!(
                "unknown `content.operation`; the operations of the gateway are `agents.create`, `agents.restart`, {}",
                manage::Operation::NAMES
                    .map(|name| format!("`{name}`"))
                    .join(", ")
            );
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        };
        self.check_state_dir(envelope)?;
        let max_bytes = self.max_content_bytes();
        let identity = client.share_key();
        let share = self.shares.open_management(&identity);
        let share = share.ok_or_else(|| {
            let message =
                "this client waits for other session operations; send the request again later";
            RequestError::busy(message, Duration::from_secs(1))
        })?;
        let permit = self.management.acquire().await;
        let (sessions, arguments) = (&self.sessions, envelope.content());
        let result = manage::manage_for(&identity, sessions, operation, arguments, max_bytes).await;
        drop((permit, share));
        let mut result = result.map_err(|error: ManageError| {
            RequestError::new(error.code(), error.public_message())
        })?;
        if let Some(listed) = result["sessions"].as_array_mut() {
            // Without `content.agent`, the list contains all workspaces.
            listed.retain(|session| {
                let agent = session["agent"].as_str().unwrap_or_default();
                let operation = Operation::Workspace(agent);
                self.authorize(client, envelope.from(), operation).is_ok()
            });
        }
        self.send_result(client, context, result).await;
        Ok(Outcome::Done)
    }

    async fn send_result(&self, client: &Arc<Client>, context: &ReplyContext, result: Value) {
        let content = json!({"service": GATEWAY, "result": result});
        let response = context.reply(Kind::Response, content).with("from", GATEWAY);
        self.send(client, response).await;
    }

    /// Returns the maximum size of a result in a frame, in bytes.
    fn max_content_bytes(&self) -> usize {
        let frame_bytes = self.config.limits.frame_bytes;
        frame_bytes.saturating_sub(ENVELOPE_BYTES)
    }

    /// Refuses a request for a gateway with another state directory.
    fn check_state_dir(&self, envelope: &Envelope) -> Result<(), RequestError> {
        let Some(state_dir) = envelope.content_str("stateDir") else {
            return Ok(());
        };
        let real = |path: &Path| path.canonicalize().ok();
        if real(Path::new(state_dir)).is_some()
            && real(Path::new(state_dir)) == real(&self.config.state_dir)
        {
            return Ok(());
        }
        Err(RequestError::new(
            ErrorCode::InvalidContent,
            "this gateway has another state directory; ask the gateway of `content.stateDir`",
        ))
    }

    fn create_agent(&self, client: &Client, envelope: &Envelope) -> Result<Value, RequestError> {
        let text = |field: &str| {
            envelope.content_str(field).ok_or_else(|| {
                let message = format!("`content.{field}` is missing or not a string");
                RequestError::new(ErrorCode::MissingField, message)
            })
        };
        let (name, role) = (text("agent")?, text("role")?);
        agent::validate_client_name(name)
            .map_err(|(code, message)| RequestError::new(code, message))?;
        let agent = AgentConfig {
            name: name.to_owned(),
            role: role.to_owned(),
            description: envelope.content_str("description").map(str::to_owned),
            permissions: None,
            backend: None,
            signing: None,
            keys: Vec::new(),
        };
        self.registry_mut().add_agent(&agent, client.share_key())?;
        Ok(json!({"agent": name, "role": role}))
    }

    fn restart_agent(&self, agent: &str) -> Result<Value, RequestError> {
        let now = self.env.now();
        let (server, run) = {
            let registry = self.registry();
            if !registry.contains(agent) {
                return Err(RequestError::unknown_agent(agent));
            }
            let run = registry.run_status(agent);
            let run = run.map(|run| run.to_json(now, true));
            (registry.server(agent).cloned(), run)
        };
        let Some(server) = server else {
            let mut message = format!("cannot restart `{agent}`: it is offline");
            if let Some(run) = &run {
                let (wait, reason) = (run["startsInMs"].as_u64(), run["lastExit"].as_str());
                if let (Some(wait), Some(reason)) = (wait, reason) {
                    let _ = write!(
                        message,
                        ", and starts again in {wait} ms; it ended last: {reason}"
                    );
                }
            }
            return Err(RequestError::new(ErrorCode::AgentOffline, message));
        };
        let _ = server
            .outbox
            .try_send(frames::disconnect("shutdown", Close::RESTART.reason));
        server.outbox.close(Close::RESTART);
        let clients = server.names();
        let names: Vec<&str> = clients.iter().map(|name| &**name).collect();
        let mut result = json!({"agent": agent, "reconnects": names});
        if let Some(run) = run {
            result["run"] = run;
        }
        Ok(result)
    }
}
