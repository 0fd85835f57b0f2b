//! What there is: agents, services, workspaces, channels (000 §6).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use collective::{Envelope, ErrorCode, GATEWAY, Kind};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::frames;
use super::hub::Hub;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;
use super::sessions::Summary;
use super::watchers::Channel;

/// So many agents may one subscription name: they are kept as long as it is.
const MAX_SUBSCRIBED_AGENTS: usize = 1024;

/// So many sessions of a workspace are listed in one answer.
const MAX_LISTED_SESSIONS: usize = 1000;

impl Hub {
    /// Lists agents and services (000 §6.1, §6.4).
    pub(super) async fn discovery(
        &self,
        client: &Client,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        only_action(envelope, &["list"])?;
        let listed = self.registry().list();
        let agents: Vec<Value> = listed
            .iter()
            .map(|agent| {
                let mut entry = json!({
                    "name": &*agent.name,
                    "role": &*agent.role,
                    "status": agent.status.as_str(),
                    // Below the gateway's own directory, which is nobody's business here.
                    "workspace": format!("agents/{}", agent.name),
                });
                if let Some(description) = &agent.description {
                    entry["description"] = (**description).into();
                }
                entry
            })
            .collect();
        let content = json!({"agents": agents, "services": self.services.list()});
        self.answer(client, context.answer(Kind::Discovery, content))
            .await;
        Ok(Outcome::Done)
    }

    /// Lists workspaces, or the sessions of one (000 §6.3).
    pub(super) async fn workspace(
        &self,
        client: &Client,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        only_action(envelope, &["list", "get"])?;
        let content = match (envelope.said("action"), envelope.said("agent")) {
            (Some("get"), None) => {
                let message = "`content.agent` is missing: it says whose workspace is meant";
                return Err(Refusal::new(ErrorCode::MissingField, message));
            }
            (Some("get"), Some(agent)) => {
                if !self.registry().knows(agent) {
                    let message = format!("nobody here is called `{agent}`");
                    return Err(Refusal::new(ErrorCode::AgentNotFound, message));
                }
                self.may(client, envelope.from(), Operation::Workspace(agent))?;
                let mut workspace = self.described(agent);
                workspace["sessionList"] = self.session_list(agent).await?;
                json!({"workspaces": [workspace]})
            }
            _ => {
                let listed = self.registry().list();
                let seen = listed.iter().filter(|agent| {
                    let operation = Operation::Workspace(&agent.name);
                    self.may(client, envelope.from(), operation).is_ok()
                });
                let workspaces: Vec<Value> =
                    seen.map(|agent| self.described(&agent.name)).collect();
                json!({"workspaces": workspaces})
            }
        };
        self.answer(client, context.answer(Kind::Workspace, content))
            .await;
        Ok(Outcome::Done)
    }

    fn described(&self, agent: &str) -> Value {
        let path = self.config.state_dir.join("agents").join(agent);
        json!({
            "agent": agent,
            "path": path.display().to_string(),
            "sessions": self.sessions.count(agent),
        })
    }

    async fn session_list(&self, agent: &str) -> Result<Value, Refusal> {
        let (sessions, agent) = (self.sessions.clone(), agent.to_owned());
        // It reads files.
        let list = move || sessions.list(&agent, true, MAX_LISTED_SESSIONS);
        let listed = tokio::task::spawn_blocking(list).await;
        let listed = listed.map_err(|_| {
            Refusal::new(
                ErrorCode::AgentError,
                "the sessions could not be listed; try again",
            )
        })??;
        let entry = |summary: &Summary| {
            json!({
                "sessionId": summary.session_id,
                "state": summary.state.as_str(),
                "entries": summary.entries,
            })
        };
        Ok(listed.iter().map(entry).collect())
    }

    /// Subscribes to a channel, or no longer (000 §6.2). Who subscribes to how agents are is told how they are now.
    pub(super) async fn subscription(
        &self,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let word = envelope.said("channel").unwrap_or_default();
        let channel = Channel::from_word(word).ok_or_else(|| {
            let known = Channel::ALL
                .map(|channel| format!("`{}`", channel.as_str()))
                .join(" and ");
            Refusal::new(
                ErrorCode::InvalidContent,
                format!("there is no such channel; there are {known}"),
            )
        })?;
        let begins = context.kind == Kind::Subscribe;
        if begins {
            self.may(client, envelope.from(), Operation::Subscribe)?;
        }
        let agents = envelope.content().get("agents").and_then(Value::as_array);
        if agents.is_some_and(|names| names.len() > MAX_SUBSCRIBED_AGENTS) {
            let message = format!(
                "`content.agents` names {MAX_SUBSCRIBED_AGENTS} agents at most; leave it out to hear of all"
            );
            return Err(Refusal::new(ErrorCode::InvalidContent, message));
        }
        let agents: Option<HashSet<String>> = agents.map(|names| {
            let names = names.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        });
        let status = if begins { "subscribed" } else { "unsubscribed" };
        let content = json!({"channel": channel.as_str(), "status": status});
        let answer = context.answer(context.kind, content).with("from", GATEWAY);
        self.answer(client, answer).await;
        let mut registry = self.registry_mut();
        if !begins {
            registry.watchers.remove(channel, client);
            return Ok(Outcome::Done);
        }
        if channel == Channel::Status {
            // Under the lock that changes need: what comes next is new.
            let wanted = |name: &str| agents.as_ref().is_none_or(|agents| agents.contains(name));
            for agent in registry.list().iter().filter(|agent| wanted(&agent.name)) {
                let _ = client
                    .outbox
                    .text(frames::status(&agent.name, agent.status, None));
            }
        }
        registry.watchers.add(channel, client, agents);
        Ok(Outcome::Done)
    }
}

fn only_action(envelope: &Envelope, known: &[&str]) -> Result<(), Refusal> {
    if envelope
        .said("action")
        .is_some_and(|action| known.contains(&action))
    {
        return Ok(());
    }
    let known = known
        .iter()
        .map(|action| format!("`{action}`"))
        .collect::<Vec<_>>();
    let message = format!(
        "`content.action` of a `{}` is {}",
        envelope.kind(),
        known.join(" or ")
    );
    Err(Refusal::new(ErrorCode::InvalidContent, message))
}
