//! Lists the agents and applies their status messages (Heretek A2A §6).

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::dial::failed;
use crate::{ListPurpose, members};
use collective::{Envelope, ErrorCode, GATEWAY, Kind};
use peer::{Member, MemberStatus, PeerError, excerpt};

use super::connection::A2aV1Connection;
use super::registry::is_valid_name;

/// The timeout of a caller that requests the list.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Lists the agents. If the gateway does not answer, returns the agents of its last list. A message does not wait for the
/// list if the previous request had no answer.
///
/// # Errors
/// The gateway refused the request, or it did not answer and no agent is known yet.
pub(super) async fn list(
    connection: &A2aV1Connection,
    purpose: ListPurpose,
) -> Result<Vec<Member>, PeerError> {
    let registry = &connection.agents;
    let wait = match purpose {
        ListPurpose::List => LIST_TIMEOUT.min(connection.settings.timeout),
        ListPurpose::Send if registry.is_silent() => Duration::ZERO,
        ListPurpose::Send => connection.settings.list_wait(),
    };
    let answer = if wait.is_zero() {
        None
    } else {
        let exchange = async {
            let _turn = registry.list_lock.lock().await;
            request(connection).await
        };
        timeout(wait, exchange).await.ok()
    };
    if answer.is_none() {
        registry.set_silent();
    }
    let agents = registry.snapshot();
    match answer {
        Some(Err(error)) if agents.is_empty() || !connection.is_open() => return Err(error),
        None if agents.is_empty() => {
            let message = format!(
                "the gateway at `{}` does not list its agents",
                connection.settings.display_url()
            );
            return Err(failed(ErrorCode::ConnectionTimeout, message));
        }
        _ => {}
    }
    let member = |(name, agent): (&String, &super::registry::AgentEntry)| {
        members::member(
            name,
            agent.role.as_deref(),
            agent.description.as_deref(),
            agent.status,
            &connection.settings,
        )
    };
    Ok(agents.iter().map(member).collect())
}

async fn request(connection: &A2aV1Connection) -> Result<(), PeerError> {
    let correlation_id = format!("disc-{}", connection.env.uuid());
    let request = connection
        .envelope(Kind::Discovery, json!({"action": "list"}))
        .with_metadata("correlationId", correlation_id.clone());
    let id = request.id().unwrap_or_default().to_owned();
    let mut pending = connection.agents.start_list(&id, correlation_id);
    connection.send(request).await?;
    let answer = (&mut pending.response).await;
    answer.unwrap_or_else(|_| {
        Err(failed(
            ErrorCode::ConnectionReset,
            "the connection to the gateway was lost",
        ))
    })
}

/// Applies a list of agents.
pub(super) fn handle_list(connection: &A2aV1Connection, envelope: &Envelope) {
    if !connection.agents.replace(envelope) {
        connection.warn("ignored a `discovery` without `agents`");
    }
}

/// Applies a status message from the gateway or from the agent itself, and reports the change on the agent's tasks.
pub(super) fn handle_status(connection: &A2aV1Connection, envelope: &Envelope) {
    let sender = envelope.from().filter(|from| *from != GATEWAY);
    let Some(agent) = envelope
        .content_str("agent")
        .or(sender)
        .filter(|agent| is_valid_name(agent))
    else {
        return connection.debug(|| "ignored a `status` that names no agent".to_owned());
    };
    if sender.is_some_and(|sender| sender != agent) {
        return connection.warn(&format!(
            "ignored a status of `{}` that another agent sent",
            excerpt(agent)
        ));
    }
    let status = MemberStatus::from_name(envelope.content_str("status").unwrap_or_default());
    if !connection.agents.set_status(agent, status) {
        return;
    }
    for task in connection.tasks.unfinished() {
        if task.agent == agent {
            let data = json!({"agent": agent, "status": status.as_str()});
            task.step(&format!("{agent} is {}", status.as_str()), Some(data));
        }
    }
}
