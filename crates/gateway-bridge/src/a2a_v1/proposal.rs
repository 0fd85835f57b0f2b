//! A proposal to the triad (000 §10.3). The gateway hands it to the members, counts their votes and decides.

use serde_json::json;
use tokio::time::Instant;

use crate::About;
use crate::ledger::{Awaited, Entry, Sending, What};
use crate::proposal::Proposal;
use a2a::SendRequest;
use collective::{Envelope, Kind};
use peer::PeerError;

use super::line::Line;
use super::message::{context, described, expires, framed, hand_over};

/// Sends a proposal and notes it. It fails where nothing was sent.
pub(super) async fn propose(
    line: &Line,
    about: &About,
    outgoing: &SendRequest,
) -> Result<Awaited, PeerError> {
    let usual = line.settings.triad.deadline;
    let proposal = Proposal::read(&outgoing.parts, line.env.system_time(), usual)?;
    let by = Instant::now() + proposal.open_for;
    let now = line.millis();
    let left = u64::try_from(proposal.open_for.as_millis()).unwrap_or(u64::MAX);
    let id = format!("prop-{}", line.env.uuid());
    let context_id = context(line, about, outgoing)?;
    let mut content = json!({"proposal": proposal.text, "deadline": now.saturating_add(left)});
    if let Some(reasoning) = proposal.reasoning {
        content["reasoning"] = reasoning.into();
    }
    let envelope = Envelope::new(Kind::Proposal, content)
        .with("id", id.clone())
        .with("sessionId", context_id.clone());
    let envelope = described(line, about, outgoing, envelope)
        .with("timestamp", now)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires = expires(line, about, &envelope)?;
    let frame = framed(line, envelope)?;
    let sending = Sending {
        frame: String::new(),
        expires,
        while_awaited: false,
    };
    let agent = about.agent.clone();
    let entry = Entry::new(
        id.clone(),
        id,
        agent,
        context_id,
        What::Proposal { by },
        sending,
    );
    hand_over(line, entry, frame).await
}
