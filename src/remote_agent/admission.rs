//! Access control: which caller may use which target.

use crate::handles::{Handle, HandleLookup};
use crate::targets::{Catalog, Target};

use super::call_audit::CallAudit;
use super::caller::Caller;
use super::error::{Reason, ToolError};
use super::request::Request;
use super::resolve::{self, Resolved};

/// Resolves `request`, and refuses a target that its caller may not use. A handle or continuation of another caller
/// opens no target. Records the target in `call_audit` either way.
///
/// # Errors
/// The request is ambiguous, or the caller may not use its target.
pub(super) fn resolve(
    request: &Request,
    catalog: &Catalog,
    call_audit: &mut CallAudit<'_>,
    lookup: impl FnOnce(Handle) -> HandleLookup<Target>,
) -> Result<Resolved, ToolError> {
    let mut allowed = Ok(());
    let resolved = resolve::resolve(request, catalog, |handle| {
        let found = lookup(handle);
        if let HandleLookup::Live(entry) = &found {
            call_audit.set_target(&entry.target);
            allowed = authorize(&entry.target, catalog, &call_audit.caller);
        }
        found
    });
    // An error about a handle may reveal where its target is.
    allowed?;
    let resolved = resolved?;
    call_audit.set_target(&resolved.target);
    authorize(&resolved.target, catalog, &call_audit.caller)?;
    Ok(resolved)
}

/// Returns whether `caller` sees a configured target in a listing. An operator without an agent's name sees all.
pub(super) fn may_see(target: &Target, caller: &Caller) -> bool {
    sees_all(caller) || may_use(target, caller)
}

/// Returns whether `caller` is an operator who acts for no agent.
pub(super) fn sees_all(caller: &Caller) -> bool {
    caller.operator.is_some() && caller.agent_id.is_none()
}

/// Returns whether `caller` may use a configured target.
pub(super) fn may_use(target: &Target, caller: &Caller) -> bool {
    let allowed = &target.allowed_agents;
    allowed.is_empty()
        || caller
            .agent_id
            .as_ref()
            .is_some_and(|agent| allowed.contains(agent))
}

/// Refuses a target that `caller` may not use.
///
/// # Errors
/// [`Reason::AgentNotAllowed`].
pub(super) fn authorize(
    target: &Target,
    catalog: &Catalog,
    caller: &Caller,
) -> Result<(), ToolError> {
    let refused = match &target.alias {
        Some(alias) => (!may_use(target, caller)).then(|| format!("the target `{alias}`")),
        // A URL in another spelling or with another card path must not bypass the target's access list.
        None => catalog
            .targets()
            .iter()
            .any(|own| {
                own.peer_config.is_own_origin(&target.peer_config.base_url) && !may_use(own, caller)
            })
            .then(|| "a target at this address".to_owned()),
    };
    let Some(refused) = refused else {
        return Ok(());
    };
    let message = match &caller.agent_id {
        Some(_) => format!("{refused} is not for this agent"),
        None if caller.operator.is_some() => format!("{refused} is for some agents only"),
        None => format!(
            "{refused} is for some agents only, and the host does not name the calling agent"
        ),
    };
    let error = ToolError::local(Reason::AgentNotAllowed, message);
    Err(if target.peer_config.is_local() {
        error.for_gateway()
    } else {
        error
    })
}
