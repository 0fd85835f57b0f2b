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
use super::message::{
    MAX_ID_CHARS, encode_frame, expires_at, session_id, submit, with_call_metadata,
};

/// The prefix of proposal ids. The bridge keeps an id with this prefix: a gateway repeats its decision for a repeated
/// proposal with the same id (H-45).
const ID_PREFIX: &str = "prop-";

/// Sends a proposal and stores its task. Fails only if nothing was sent.
pub(super) async fn propose(
    connection: &A2aV1Connection,
    call: &CallContext,
    outgoing: &SendRequest,
) -> Result<AwaitGuard, PeerError> {
    let default_duration = connection.settings.triad.deadline;
    let proposal = Proposal::read(
        &outgoing.parts,
        connection.env.system_time(),
        default_duration,
    )?;
    let deadline = Instant::now() + proposal.open_for;
    let now = connection.unix_millis();
    let remaining_ms = u64::try_from(proposal.open_for.as_millis()).unwrap_or(u64::MAX);
    let id = match outgoing.message_id.strip_prefix(ID_PREFIX) {
        Some(rest) if !rest.is_empty() && outgoing.message_id.len() <= MAX_ID_CHARS => {
            outgoing.message_id.clone()
        }
        _ => format!("{ID_PREFIX}{}", connection.env.uuid()),
    };
    let context_id = session_id(connection, call, outgoing)?;
    let deadline_ms = proposal
        .deadline
        .unwrap_or(now.saturating_add(remaining_ms));
    let mut content = json!({"proposal": proposal.text, "deadline": deadline_ms});
    if let Some(reasoning) = proposal.reasoning {
        content["reasoning"] = reasoning.into();
    }
    let envelope = Envelope::new(Kind::Proposal, content)
        .with("id", id.clone())
        .with("sessionId", context_id.clone());
    let envelope = with_call_metadata(connection, call, outgoing, envelope)
        .with("timestamp", now)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires_at = expires_at(connection, call, &envelope)?;
    let frame = encode_frame(connection, envelope)?;
    let resend = Resend {
        frame: String::new(),
        expires_at,
        while_awaited: false,
    };
    let agent = call.agent.clone();
    let entry = PendingTask::new(
        id.clone(),
        id,
        agent,
        context_id,
        TaskKind::Proposal { deadline },
        resend,
    );
    submit(connection, entry, frame).await
}
