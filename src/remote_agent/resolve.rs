//! Resolves a request to its target, task and conversation.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::handles::{Handle, HandleLookup};
use crate::targets::{Catalog, Target, TargetError, local_name, same_base_url};

use super::error::{Reason, ToolError};
use super::request::{ReceivedTarget, Request};
use super::rules::invalid_url;

/// The target, task and conversation of a request.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The target.
    pub target: Arc<Target>,
    /// The task to continue or query.
    pub task_id: Option<String>,
    /// The conversation to continue.
    pub context_id: Option<String>,
    /// The valid handle of the request.
    pub handle: Option<Handle>,
}

/// Resolves `request`. `lookup` looks up a handle.
///
/// # Errors
/// The request is ambiguous, contradicts itself, or names no usable target.
pub(super) fn resolve(
    request: &Request,
    catalog: &Catalog,
    lookup: impl FnOnce(Handle) -> HandleLookup<Target>,
) -> Result<Resolved, ToolError> {
    let continuation = request.continuation.as_ref();
    let nested = continuation.and_then(|continuation| continuation.task.as_ref());
    let task_id = request
        .task_id
        .as_deref()
        .or(nested.map(|task| task.task_id.as_str()));
    let context_id = request.context_id.as_deref().or_else(|| {
        continuation
            .and_then(|c| c.conversation.as_ref())
            .map(|conversation| conversation.context_id.as_str())
    });

    // An expired or unknown handle ends a request without another reference. A continuation is one, and so is a task id
    // with a target.
    let is_continuation = nested.is_some()
        || (request.task_id.is_some()
            && (request.target_alias.is_some() || request.target_url.is_some()));
    let flat = request.task_handle.as_deref();
    let named = flat.or_else(|| nested.and_then(|task| task.task_handle.as_deref()));
    let found = named.map(|text| {
        (
            text,
            text.parse::<Handle>().map_or(HandleLookup::Unknown, lookup),
        )
    });
    let entry = match (found, flat) {
        (Some((text, HandleLookup::Live(entry))), _) => Some((text, entry)),
        (Some((text, HandleLookup::Expired)), Some(_)) if !is_continuation => {
            return Err(handle_expired(text));
        }
        (Some((text, HandleLookup::Unknown)), Some(_)) if !is_continuation => {
            return Err(handle_unknown(text));
        }
        _ => None,
    };

    let Some((text, entry)) = entry else {
        return Ok(Resolved {
            target: explicit_target(request, catalog)?
                .map_or_else(|| default_target(catalog), Ok)?,
            task_id: task_id.map(str::to_owned),
            context_id: context_id.map(str::to_owned),
            handle: None,
        });
    };
    if let Some(explicit) = task_id.filter(|explicit| **explicit != *entry.task_id) {
        let message = format!(
            "the handle is for task `{}`, not for `{explicit}`",
            entry.task_id
        );
        return Err(ToolError::new(Reason::Contradiction, message)
            .with("task_handle", text)
            .with("handle_task_id", &*entry.task_id)
            .with("explicit_task_id", explicit));
    }
    if let (Some(explicit), Some(stored)) = (context_id, entry.context_id.as_deref())
        && explicit != stored
    {
        let message =
            format!("the handle's task is in conversation `{stored}`, not in `{explicit}`");
        return Err(ToolError::new(Reason::Contradiction, message)
            .with("task_handle", text)
            .with("handle_context_id", stored)
            .with("explicit_context_id", explicit));
    }
    check_same_target(request, catalog, &entry.target).map_err(|explicit| match explicit {
        Mismatch::Other(explicit) => ToolError::local(
            Reason::Contradiction,
            "the handle belongs to another target than the request names",
        )
        .with("task_handle", text)
        .with("handle_target", target_json(&entry.target))
        .with("explicit_target", explicit),
        Mismatch::Refused(error) => error,
    })?;
    Ok(Resolved {
        task_id: Some(entry.task_id.to_string()),
        context_id: context_id
            .map(str::to_owned)
            .or_else(|| entry.context_id.as_deref().map(str::to_owned)),
        handle: text.parse().ok(),
        target: entry.target,
    })
}

enum Mismatch {
    /// The request names another target.
    Other(Value),
    /// The request names a target that cannot be used.
    Refused(ToolError),
}

/// Checks that the target in a request with a handle is the handle's own.
fn check_same_target(
    request: &Request,
    catalog: &Catalog,
    target: &Target,
) -> Result<(), Mismatch> {
    let continuation = request.continuation.as_ref();
    if let Some(named) = continuation.map(|continuation| &continuation.target)
        && !(has_url(&named.target_url, target)
            && (named.target_alias.is_none() || named.target_alias == target.alias)
            && named.card_path == target.card_path
            && named.transports() == target.peer_config.preferred)
    {
        return Err(Mismatch::Other(json!({
            "baseUrl": named.target_url,
            "cardPath": named.card_path,
            "preferredTransports": named.preferred_transports,
            "alias": named.target_alias,
        })));
    }
    let by_alias = request
        .target_alias
        .as_deref()
        .map(|alias| by_alias(alias, catalog));
    let elsewhere = |url: &&str| !has_url(url, target);
    let by_url = request
        .target_url
        .as_deref()
        .filter(elsewhere)
        .map(|url| by_url(url, catalog));
    for named in [by_alias, by_url].into_iter().flatten() {
        let named = named.map_err(Mismatch::Refused)?;
        if named.alias != target.alias
            || named.key != target.key
            || named.peer_config.preferred != target.peer_config.preferred
        {
            return Err(Mismatch::Other(target_json(&named)));
        }
    }
    Ok(())
}

/// Returns whether `url` is the base URL of `target`, in any spelling.
fn has_url(url: &str, target: &Target) -> bool {
    url == target.url
        || url::Url::parse(url).is_ok_and(|url| same_base_url(&url, &target.peer_config.base_url))
}

fn explicit_target(request: &Request, catalog: &Catalog) -> Result<Option<Arc<Target>>, ToolError> {
    match &request.continuation {
        Some(continuation) => by_continuation(&continuation.target, catalog).map(Some),
        None => flat_target(request, catalog),
    }
}

fn flat_target(request: &Request, catalog: &Catalog) -> Result<Option<Arc<Target>>, ToolError> {
    if let Some(alias) = &request.target_alias {
        return by_alias(alias, catalog).map(Some);
    }
    request
        .target_url
        .as_deref()
        .map(|url| by_url(url, catalog))
        .transpose()
}

pub(super) fn by_alias(alias: &str, catalog: &Catalog) -> Result<Arc<Target>, ToolError> {
    catalog.by_alias(alias).ok_or_else(|| no_target(alias))
}

fn by_url(url: &str, catalog: &Catalog) -> Result<Arc<Target>, ToolError> {
    catalog
        .by_url(url)
        .map_err(|refused| refused_error(refused, url, "/target_url"))
}

pub(super) fn by_continuation(
    named: &ReceivedTarget,
    catalog: &Catalog,
) -> Result<Arc<Target>, ToolError> {
    catalog
        .by_continuation(
            &named.target_url,
            &named.card_path,
            &named.transports(),
            named.target_alias.as_deref(),
        )
        .map_err(|refused| {
            refused_error(
                refused,
                &named.target_url,
                "/continuation/target/target_url",
            )
        })
}

fn default_target(catalog: &Catalog) -> Result<Arc<Target>, ToolError> {
    let target = catalog.default_target().ok_or_else(|| {
        ToolError::local(
            Reason::TargetNotAllowed,
            "the request names no target and none is configured as the default",
        )
    })?;
    Ok(Arc::clone(target))
}

fn no_target(alias: &str) -> ToolError {
    let message = match local_name(alias) {
        // Any name would be allowed if the operator had not listed the agents.
        Some(name) => format!(
            "gateway.agents lists the agents of the local gateway that may be called, and `{name}` is not one of them"
        ),
        None => format!("no target is named `{alias}`"),
    };
    ToolError::local(Reason::TargetNotAllowed, message)
}

/// The hint about a gateway's continuation where no gateway is configured.
const NO_GATEWAY: &str = "Ask the operator to configure the gateway that the continuation names (gateway.enabled, gateway.url), or call list_targets and send to one of its targets.";

/// The hint about a continuation of another gateway.
const NOT_OF_GATEWAY: &str = "A continuation of a local gateway is valid only for that gateway and agent: call list_targets and send to one of its targets, or ask the operator to restore gateway.url.";

/// Returns the error for the URL at `at` of a request.
fn refused_error(refused: TargetError, url: &str, at: &str) -> ToolError {
    // The error repeats only the URL's origin and path: the rest may hold a secret.
    let place = url::Url::parse(url)
        .map(|url| format!("{}{}", url.origin().ascii_serialization(), url.path()));
    let place = place.unwrap_or_else(|_| "the URL".into());
    match refused {
        TargetError::NotConfigured => ToolError::local(
            Reason::TargetNotAllowed,
            format!(
                "no target is configured at `{place}` with that card path, and policy does not allow others"
            ),
        ),
        TargetError::BadCardPath => ToolError::local(
            Reason::TargetNotAllowed,
            "the continuation's card_path is not a path; a card elsewhere can only be configured",
        ),
        TargetError::NoGateway => ToolError::local(
            Reason::TargetNotAllowed,
            "the continuation leads to an agent of a local gateway, and none is configured",
        )
        .with("hint", NO_GATEWAY),
        TargetError::NotOfGateway => ToolError::local(
            Reason::TargetNotAllowed,
            format!(
                "the continuation leads to an agent at `{place}` that the configured local gateway does not have for you"
            ),
        )
        .with("hint", NOT_OF_GATEWAY),
        TargetError::BadUrl(reason) => ToolError::invalid(vec![invalid_url(at, &reason)], 0),
        TargetError::Ambiguous(aliases) => ToolError::local(
            Reason::AmbiguousTarget,
            format!("several targets are configured at `{place}`"),
        )
        .with("reason", "ambiguous_normalized_url_matches")
        .with("normalizedBaseUrl", place)
        .with("aliases", aliases),
    }
}

fn handle_expired(handle: &str) -> ToolError {
    ToolError::local(
        Reason::ExpiredHandle,
        format!("task handle \"{handle}\" has expired"),
    )
    .with_hint(handle)
}

fn handle_unknown(handle: &str) -> ToolError {
    ToolError::local(
        Reason::UnknownHandle,
        format!("task handle \"{handle}\" is not known"),
    )
    .with_hint(handle)
}

impl ToolError {
    /// Adds how to recover from an expired or unknown handle (openclaw-a2a-outbound, "Validation And Actionable
    /// Errors").
    fn with_hint(self, handle: &str) -> Self {
        self.with("taskHandle", handle)
            .with(
                "retryHint",
                "Retry with the same nested continuation so the plugin can fall back to the persisted target plus taskId, or resend the original request after a restart to obtain a new handle.",
            )
            .with("restartInvalidatesHandles", true)
            .with("suggested_actions", json!(["status", "send"]))
    }
}

/// Returns a target for `details`.
fn target_json(target: &Target) -> Value {
    json!({
        "baseUrl": target.url,
        "cardPath": target.card_path,
        "preferredTransports": target.transport_names(),
        "alias": target.alias,
    })
}
