//! Discovery, workspaces and subscriptions (Heretek A2A §6).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use collective::{Channel, Envelope, ErrorCode, GATEWAY, Kind};

use crate::access::Operation;
use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::frames::{ReplyContext, RequestError};
use crate::sessions::Summary;
use crate::state::GatewayState;
use crate::{frames, sessions};

/// The maximum number of agents in one subscription.
const MAX_SUBSCRIBED_AGENTS: usize = 1024;

/// The maximum number of sessions in one reply.
const MAX_LISTED_SESSIONS: usize = 1000;

impl GatewayState {
    /// Lists agents and services (Heretek A2A §6.1, §6.4).
    pub(super) async fn handle_discovery(
        &self,
        client: &Client,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        check_action(envelope, &["list"])?;
        let listed = self.registry().list();
        let now = self.env.now();
        // The reason of an exit is only for clients that may manage the gateway. Without roles, all clients may.
        let operation = Operation::Request(GATEWAY);
        let is_operator = self.authorize(client, envelope.from(), operation).is_ok();
        let agents: Vec<Value> = listed
            .iter()
            .filter(|agent| client.may_see(&agent.name))
            .map(|agent| {
                let mut entry = json!({
                    "name": &*agent.name,
                    "role": &*agent.role,
                    "status": agent.status.as_str(),
                });
                match agent.name.rsplit_once('@') {
                    Some((_, link)) => entry["link"] = link.into(),
                    // A relative path, so that clients do not learn the gateway's directory.
                    None => entry["workspace"] = format!("agents/{}", agent.name).into(),
                }
                if let Some(description) = &agent.description {
                    entry["description"] = (**description).into();
                }
                if let Some(backend) = agent.backend {
                    entry["backend"] = backend.into();
                }
                if let Some(run) = &agent.run {
                    entry["run"] = run.to_json(now, is_operator);
                }
                entry
            })
            .collect();
        let mut content = json!({"agents": agents});
        match client.link() {
            // The name tells the other gateway that this one knows links.
            Some(link) => content["link"] = link.config.name.as_str().into(),
            None => content["services"] = self.services.list().into(),
        }
        if let Some(links) = self
            .links
            .to_json()
            .filter(|_| is_operator && client.link().is_none())
        {
            content["links"] = links;
        }
        self.send(client, context.reply(Kind::Discovery, content))
            .await;
        Ok(Outcome::Done)
    }

    /// Lists workspaces, or the sessions of one (Heretek A2A §6.3).
    pub(super) async fn handle_workspace(
        &self,
        client: &Client,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        check_action(envelope, &["list", "get"])?;
        let content = match (
            envelope.content_str("action"),
            envelope.content_str("agent"),
        ) {
            (Some("get"), None) => {
                let message = "`content.agent` is missing; it names the workspace";
                return Err(RequestError::new(ErrorCode::MissingField, message));
            }
            (Some("get"), Some(agent)) => {
                if !self.registry().contains(agent) {
                    return Err(RequestError::unknown_agent(agent));
                }
                self.authorize(client, envelope.from(), Operation::Workspace(agent))?;
                let mut workspace = self.describe_workspace(agent);
                workspace["sessionList"] = self.session_list(agent).await?;
                json!({"workspaces": [workspace]})
            }
            _ => {
                let listed = self.registry().list();
                let own = listed.iter().filter(|agent| !agent.name.contains('@'));
                let visible = own.filter(|agent| {
                    let operation = Operation::Workspace(&agent.name);
                    self.authorize(client, envelope.from(), operation).is_ok()
                });
                let workspaces: Vec<Value> = visible
                    .map(|agent| self.describe_workspace(&agent.name))
                    .collect();
                json!({"workspaces": workspaces})
            }
        };
        self.send(client, context.reply(Kind::Workspace, content))
            .await;
        Ok(Outcome::Done)
    }

    fn describe_workspace(&self, agent: &str) -> Value {
        json!({
            "agent": agent,
            // Relative, as in `discovery`.
            "path": format!("agents/{agent}"),
            "sessions": self.sessions.count(agent),
        })
    }

    async fn session_list(&self, agent: &str) -> Result<Value, RequestError> {
        let (sessions, agent) = (self.sessions.clone(), agent.to_owned());
        let list = move || sessions.list(&agent, true, MAX_LISTED_SESSIONS);
        let listed = tokio::task::spawn_blocking(list).await;
        let listed = listed.map_err(|_| {
            RequestError::new(ErrorCode::AgentError, "cannot list the sessions; try again")
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

    /// Subscribes to a channel or unsubscribes (Heretek A2A §6.2). A new subscriber to status changes receives the current
    /// status of each agent.
    pub(super) async fn handle_subscription(
        &self,
        client: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let name = envelope.content_str("channel").unwrap_or_default();
        let channel = Channel::from_name(name).ok_or_else(|| {
            let known = Channel::NAMES.map(|name| format!("`{name}`")).join(", ");
            RequestError::new(
                ErrorCode::InvalidContent,
                format!("unknown `content.channel`; the channels are {known}"),
            )
        })?;
        let subscribes = context.kind == Kind::Subscribe;
        if subscribes {
            self.authorize(client, envelope.from(), Operation::Subscribe)?;
        }
        let with_content = envelope.content()["content"] == true;
        if subscribes && channel == Channel::Events {
            self.authorize(client, envelope.from(), Operation::Request(GATEWAY))?;
            if with_content {
                self.authorize(client, envelope.from(), Operation::Workspace("*"))?;
            }
        }
        let agents = envelope.content().get("agents").and_then(Value::as_array);
        if agents.is_some_and(|names| names.len() > MAX_SUBSCRIBED_AGENTS) {
            let message = format!(
                "`content.agents` has more than {MAX_SUBSCRIBED_AGENTS} names; omit it to subscribe to all agents"
            );
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        if subscribes && channel == Channel::Events {
            self.events.reserve(client)?;
        }
        let agents: Option<HashSet<String>> = agents.map(|names| {
            let names = names.iter().filter_map(Value::as_str);
            // No agent has another name, and names bound the memory of the subscription.
            let names = names.filter(|name| sessions::is_agent_name(name));
            names.map(str::to_owned).collect()
        });
        let status = if subscribes {
            "subscribed"
        } else {
            "unsubscribed"
        };
        let mut content = json!({"channel": channel.as_str(), "status": status});
        let after = match envelope.content_str("after") {
            Some(cursor) => cursor.to_owned(),
            None => self.events.last_cursor(),
        };
        if subscribes && channel == Channel::Events {
            content["cursor"] = after.as_str().into();
        }
        let answer = context.reply(context.kind, content).with("from", GATEWAY);
        self.send(client, answer).await;
        match (channel, subscribes) {
            (Channel::Events, true) => {
                self.events.subscribe(client, &after, with_content);
            }
            (Channel::Events, false) => self.events.unsubscribe(client),
            _ => {}
        }
        let mut registry = self.registry_mut();
        if !subscribes {
            registry.subscriptions.remove(channel, client);
            return Ok(Outcome::Done);
        }
        if channel == Channel::Status {
            // The registry is locked, so later changes follow these statuses.
            let is_requested = |name: &str| {
                client.may_see(name) && agents.as_ref().is_none_or(|agents| agents.contains(name))
            };
            for agent in registry
                .list()
                .iter()
                .filter(|agent| is_requested(&agent.name))
            {
                let _ = client
                    .outbox
                    .try_send(frames::status(&agent.name, agent.status, None));
            }
        }
        registry.subscriptions.insert(channel, client, agents);
        Ok(Outcome::Done)
    }
}

fn check_action(envelope: &Envelope, known: &[&str]) -> Result<(), RequestError> {
    if envelope
        .content_str("action")
        .is_some_and(|action| known.contains(&action))
    {
        return Ok(());
    }
    let known = known
        .iter()
        .map(|action| format!("`{action}`"))
        .collect::<Vec<_>>();
    let message = format!(
        "`content.action` of `{}` must be {}",
        envelope.kind(),
        known.join(" or ")
    );
    Err(RequestError::new(ErrorCode::InvalidContent, message))
}
