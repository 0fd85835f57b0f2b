//! Proposals to the triad (Heretek A2A §10.3). The gateway forwards them to the members, counts votes and decides.

use serde_json::json;
use tokio::time::Instant;

use crate::CallContext;
use crate::pending_tasks::{AwaitGuard, PendingTask, Resend, TaskKind};
use crate::proposal::Proposal;
use a2a::SendRequest;
use collective::{Envelope, Kind};
use peer::PeerError;

use super::connection::A2aV1Connection;
use super::message::{MAX_ID_CHARS, context, described, expires, framed, submit};

/// The prefix of proposal ids. The bridge keeps an id with this prefix: a gateway repeats its decision for a repeated
/// proposal with the same id (H-45).
const ID_PREFIX: &str = "prop-";

/// Sends a proposal and stores its task. Fails only if nothing was sent.
pub(super) async fn propose(
    connection: &A2aV1Connection,
    about: &CallContext,
    outgoing: &SendRequest,
) -> Result<AwaitGuard, PeerError> {
    let usual = connection.settings.triad.deadline;
    let proposal = Proposal::read(&outgoing.parts, connection.env.system_time(), usual)?;
    let by = Instant::now() + proposal.open_for;
    let now = connection.unix_millis();
    let left = u64::try_from(proposal.open_for.as_millis()).unwrap_or(u64::MAX);
    let id = match outgoing.message_id.strip_prefix(ID_PREFIX) {
        Some(rest) if !rest.is_empty() && outgoing.message_id.len() <= MAX_ID_CHARS => {
            outgoing.message_id.clone()
        }
        _ => format!("{ID_PREFIX}{}", connection.env.uuid()),
    };
    let context_id = context(connection, about, outgoing)?;
    let deadline = proposal.deadline.unwrap_or(now.saturating_add(left));
    let mut content = json!({"proposal": proposal.text, "deadline": deadline});
    if let Some(reasoning) = proposal.reasoning {
        content["reasoning"] = reasoning.into();
    }
    let envelope = Envelope::new(Kind::Proposal, content)
        .with("id", id.clone())
        .with("sessionId", context_id.clone());
    let envelope = described(connection, about, outgoing, envelope)
        .with("timestamp", now)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires = expires(connection, about, &envelope)?;
    let frame = framed(connection, envelope)?;
    let resend = Resend {
        frame: String::new(),
        expires,
        while_awaited: false,
    };
    let agent = about.agent.clone();
    let entry = PendingTask::new(
        id.clone(),
        id,
        agent,
        context_id,
        TaskKind::Proposal { by },
        resend,
    );
    submit(connection, entry, frame).await
}
