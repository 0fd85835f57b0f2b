//! Rules that depend on the target.

use http::HeaderName;
use serde_json::{Value, json};

use crate::remote_agent::request::Request;
use crate::targets::Target;
use base::validation::{escape, violation};

/// Returns the violations of the target's own rules.
pub(in crate::remote_agent) fn target_rules(request: &Request, target: &Target) -> Vec<Value> {
    if target.peer_config.is_local() {
        not_carried(request)
    } else {
        own_headers(request, target)
    }
}

/// Refuses the fields that a gateway cannot carry: it has no HTTP headers, no push notifications, and no fields for
/// media types and other tasks.
fn not_carried(request: &Request) -> Vec<Value> {
    let headers = !request.service_parameters.is_empty();
    let callback = request.push_notification_config.is_some();
    let references = !request.reference_task_ids.is_empty();
    let modes = request
        .accepted_output_modes
        .as_ref()
        .is_some_and(|modes| !modes.is_empty());
    let fields = [
        (
            headers,
            "service_parameters",
            "leave them out, or use metadata",
        ),
        (
            callback,
            "push_notification_config",
            "leave it out, and call watch or status",
        ),
        (
            references,
            "reference_task_ids",
            "leave them out, or name the tasks in the message",
        ),
        (
            modes,
            "accepted_output_modes",
            "leave them out, or name them in the message",
        ),
    ];
    let present = fields.into_iter().filter(|(is_present, _, _)| *is_present);
    present
        .map(|(_, name, instead)| {
            let message = format!("an agent of the local gateway does not take {name}; {instead}");
            let params = json!({ "property": name });
            violation(
                &format!("/{name}"),
                "#/runtime/not",
                "not",
                params,
                &message,
            )
        })
        .collect()
}

/// Refuses headers that the operator set for this target.
fn own_headers(request: &Request, target: &Target) -> Vec<Value> {
    let names = request.service_parameters.keys();
    let taken = names.filter(|name| {
        let closed = target.closed_headers.iter();
        closed
            .map(HeaderName::as_str)
            .any(|closed| name.eq_ignore_ascii_case(closed))
    });
    taken
        .map(|name| {
            let place = format!("/service_parameters/{}", escape(name));
            let message = "cannot be set by a request: the target's credential uses it";
            let params = json!({ "property": name });
            violation(&place, "#/runtime/not", "not", params, message)
        })
        .collect()
}
