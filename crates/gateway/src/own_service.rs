//! The gateway's own service: `request` to the service `gateway`, by which the command manages what runs.
//!
//! `content.operation` is one of `manage.rs`, or one of these. `agents.create` with `content.agent`, `content.role` and perhaps `content.description`: the
//! gateway knows the agent until it ends; its configuration is the command's to write. `agents.restart` with `content.agent`: the connection of whoever
//! serves the agent is told `disconnect` with the reason `shutdown` and closed, upon which clients connect again. Where `content.stateDir` says which
//! directory is meant, another gateway refuses.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::config::AgentConfig;
use super::frames;
use super::hub::Hub;
use super::manage::{self, ManageError};
use super::names;
use super::outbox::Close;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;
use collective::{CloseCode, Envelope, ErrorCode, GATEWAY, Kind};

/// What an envelope needs around the answer, in bytes.
const ENVELOPE_BYTES: usize = 4096;

/// So many at a time do something with sessions, which takes threads and the disk.
pub(super) const MAX_CONCURRENT: usize = 4;

/// What who is sent away to come again is told.
const RESTART_REASON: &str = "connect again: the agent was asked to restart";

impl Hub {
    /// Does what the gateway itself is asked to do.
    pub(super) async fn own_service(
        self: &Arc<Self>,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        self.may(client, envelope.from(), Operation::Request(GATEWAY))?;
        let operation = envelope.said("operation").unwrap_or_default();
        if let Some(agent) = envelope.said("agent") {
            self.may(client, envelope.from(), Operation::Workspace(agent))?;
        }
        if operation == "agents.restart" {
            let result = self.restart(envelope.said("agent").unwrap_or_default())?;
            self.tell_result(client, context, result).await;
            return Ok(Outcome::Done);
        }
        if operation == "agents.create" {
            self.is_here(envelope)?;
            let result = self.learn(envelope)?;
            self.tell_result(client, context, result).await;
            return Ok(Outcome::Done);
        }
        let Some(known) = manage::Operation::from_word(operation) else {
            let known = manage::Operation::ALL.map(|operation| operation.as_str());
            let message = format!(
                "the gateway's own service knows `agents.create`, `agents.restart`, {}",
                known.map(|word| format!("`{word}`")).join(", ")
            );
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
        };
        self.is_here(envelope)?;
        let most = self
            .config
            .limits
            .frame_bytes
            .saturating_sub(ENVELOPE_BYTES);
        let turn = self.managing.acquire().await;
        let done = manage::manage(&self.sessions, known, envelope.content(), most).await;
        drop(turn);
        let mut result =
            done.map_err(|error: ManageError| Refusal::new(error.code(), error.public_message()))?;
        if let Some(listed) = result["sessions"].as_array_mut() {
            // Without `content.agent` it is about every workspace there is.
            listed.retain(|session| {
                let agent = session["agent"].as_str().unwrap_or_default();
                let operation = Operation::Workspace(agent);
                self.may(client, envelope.from(), operation).is_ok()
            });
        }
        self.tell_result(client, context, result).await;
        Ok(Outcome::Done)
    }

    async fn tell_result(&self, client: &Arc<Client>, context: &ReplyContext, result: Value) {
        let content = json!({"service": GATEWAY, "result": result});
        let answer = context
            .answer(Kind::Response, content)
            .with("from", GATEWAY);
        self.answer(client, answer).await;
    }

    /// Refuses where another directory is meant.
    fn is_here(&self, envelope: &Envelope) -> Result<(), Refusal> {
        let Some(meant) = envelope.said("stateDir") else {
            return Ok(());
        };
        let real = |path: &Path| path.canonicalize().ok();
        if real(Path::new(meant)).is_some()
            && real(Path::new(meant)) == real(&self.config.state_dir)
        {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::InvalidContent,
            "this gateway keeps its sessions elsewhere; ask the one that has them",
        ))
    }

    fn learn(&self, envelope: &Envelope) -> Result<Value, Refusal> {
        let text = |field: &str| {
            envelope.said(field).ok_or_else(|| {
                let message = format!("`content.{field}` is missing, or is no text");
                Refusal::new(ErrorCode::MissingField, message)
            })
        };
        let (name, role) = (text("agent")?, text("role")?);
        names::agent(name).map_err(|(code, why)| Refusal::new(code, why))?;
        let agent = AgentConfig {
            name: name.to_owned(),
            role: role.to_owned(),
            description: envelope.said("description").map(str::to_owned),
            permissions: None,
        };
        self.registry_mut().learn(&agent)?;
        Ok(json!({"agent": name, "role": role}))
    }

    fn restart(&self, agent: &str) -> Result<Value, Refusal> {
        let server = {
            let registry = self.registry();
            if !registry.knows(agent) {
                let message = format!("nobody here is called `{agent}`");
                return Err(Refusal::new(ErrorCode::AgentNotFound, message));
            }
            registry.listener(agent).cloned()
        };
        let Some(server) = server else {
            let message = format!("cannot restart `{agent}`: `{agent}` is offline");
            return Err(Refusal::new(ErrorCode::AgentOffline, message));
        };
        let _ = server
            .outbox
            .text(frames::disconnect("shutdown", RESTART_REASON));
        server.outbox.finish(Close {
            code: CloseCode::GoingAway,
            reason: RESTART_REASON,
        });
        let clients = server.names();
        let names: Vec<&str> = clients.iter().map(|name| &**name).collect();
        Ok(json!({"agent": agent, "reconnects": names}))
    }
}
