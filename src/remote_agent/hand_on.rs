//! What a message says about the delegations before it, and when there have been enough of them.

use std::sync::Arc;

use crate::delegation::{Delegation, KEY};
use crate::peer::Delivered;

use super::RemoteAgent;
use super::bounds::Bounds;
use super::caller::Caller;
use super::error::{Reason, ToolError};
use super::request::Request;

/// Writes into the metadata of `request` where its message stands in the row of delegations.
///
/// # Errors
/// Policy allows no more of them, or the call ends first.
pub(super) async fn mark(
    tool: &RemoteAgent,
    request: &mut Request,
    caller: &Caller,
    bounds: &Bounds,
) -> Result<(), ToolError> {
    let unsent = |error: ToolError| error.delivered(Delivered::No).of_send();
    let incoming = bounds.run(incoming(tool, caller)).await.map_err(unsent)?;
    let next = Delegation::next(incoming, || tool.world.uuid());
    let most = tool.policy.max_delegation_depth;
    if next.hop > most {
        let message = format!(
            "this would be delegation {} in a row, and the operator allows {most}; do the work yourself or answer with what you have, and do not delegate it further",
            next.hop
        );
        return Err(unsent(ToolError::new(Reason::DelegationTooDeep, message)));
    }
    let metadata = request.metadata.get_or_insert_default();
    metadata.insert(KEY.to_owned(), next.json());
    Ok(())
}

/// The message that the caller works on: what its host says with the call, else what it has left in its state directory
/// for the session.
async fn incoming(tool: &RemoteAgent, caller: &Caller) -> Option<Delegation> {
    if caller.chain.is_some() {
        return caller.chain.clone();
    }
    let (state_dir, session) = caller
        .state_dir
        .as_deref()
        .zip(caller.session_key.as_deref())?;
    let log = Arc::clone(&tool.log);
    let now = tool.world.wall();
    tool.delegations.find(state_dir, session, now, &log).await
}
