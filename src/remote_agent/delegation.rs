//! The delegation chain in a message's metadata, and its limit.

use std::path::Path;
use std::sync::Arc;

use gateway_bridge::delegation::{Delegation, METADATA_KEY};
use peer::Delivered;

use super::RemoteAgent;
use super::caller::Caller;
use super::deadline::Deadline;
use super::error::{Reason, ToolError};
use super::request::Request;

/// Writes the position of this message in the chain of delegations into the metadata of `request`: after the message
/// that the caller works on, which the host names in the call or records in its state directory.
///
/// # Errors
/// The chain has reached the limit of the policy, or the call ends first.
pub(super) async fn add_delegation(
    tool: &RemoteAgent,
    request: &mut Request,
    caller: &Caller,
    deadline: &Deadline,
) -> Result<(), ToolError> {
    let unsent = |error: ToolError| error.delivered(Delivered::No).for_send();
    deadline.check_cancelled().map_err(unsent)?;
    let incoming = match &caller.chain {
        Some(collected) => Some(collected.clone()),
        None => match caller
            .state_dir
            .as_deref()
            .zip(caller.session_key.as_deref())
        {
            Some((state_dir, session)) => {
                Box::pin(deadline.run(find_incoming(tool, state_dir, session)))
                    .await
                    .map_err(unsent)?
            }
            None => None,
        },
    };
    let next = Delegation::next(incoming, || tool.env.uuid());
    let most = tool.policy.max_delegation_depth;
    if next.hop > most {
        let message = format!(
            "this would be delegation {} in a row, and the operator allows {most}; do the work yourself or answer with what you have, and do not delegate it further",
            next.hop
        );
        return Err(unsent(ToolError::local(Reason::DelegationTooDeep, message)));
    }
    let metadata = request.metadata.get_or_insert_default();
    metadata.insert(METADATA_KEY.to_owned(), next.json());
    Ok(())
}

/// Returns the message that the caller works on, as the host recorded it for the session.
async fn find_incoming(tool: &RemoteAgent, state_dir: &Path, session: &str) -> Option<Delegation> {
    let log = Arc::clone(&tool.log);
    let now = tool.env.system_time();
    tool.delegations.find(state_dir, session, now, &log).await
}
