//! Rules that the schema of requests cannot express: which fields an action takes, in which combinations, and on which
//! target.

pub(super) mod group;

use base::validation::{escape, schema_violation, violation};
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use gateway_bridge::delegation;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::remote_agent::request::Request;
use crate::targets::{Callbacks, Catalog, Target, TargetError};
use crate::trace;

pub(super) use group::{GROUP_FIELDS, MAX_CHOICES, MAX_MEMBERS, normalized};

/// Base64 in either alphabet's common form, padded or not.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

/// The fields that only some actions take, in the order of their errors.
const RESTRICTED: [(&str, &[&str]); 20] = [
    ("query", &["list_targets"]),
    ("target_aliases", &["send"]),
    ("mode", &["send"]),
    ("quorum", &["send"]),
    ("choices", &["send"]),
    ("choice_pointer", &["send"]),
    ("parts", &["send"]),
    ("message_id", &["send"]),
    ("context_id", &["send"]),
    ("metadata", &["send"]),
    ("blocking", &["send"]),
    ("follow_updates", &["send"]),
    ("notify", &["send"]),
    ("accepted_output_modes", &["send"]),
    ("reference_task_ids", &["send"]),
    ("task_requirement", &["send"]),
    ("push_notification_config", &["send"]),
    ("history_length", &["send", "status"]),
    ("artifact_id", &["status"]),
    ("offset", &["status"]),
];

/// The fields that a continuation replaces, in the order of their errors.
const ROUTING: [&str; 6] = [
    "task_handle",
    "task_id",
    "context_id",
    "target_alias",
    "target_url",
    "target_aliases",
];

/// Headers that no request may set: they carry credentials, frame the connection, or identify the call. So do all names
/// that begin with `content-` or `a2a-`.
const RESERVED_HEADERS: [&str; 14] = [
    "authorization",
    "cookie",
    "host",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    trace::HEADER,
    trace::STATE_HEADER,
];

/// Returns every violation of a request that fits the schema.
pub(super) fn violations(
    request: &Map<String, Value>,
    catalog: &Catalog,
    callbacks: &Callbacks,
) -> Vec<Value> {
    let mut out = Vec::new();
    let action = request
        .get("action")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let continued = action != "list_targets" && request.contains_key("continuation");
    if continued {
        routing(request, action, &mut out);
    } else {
        target(request, catalog, &mut out);
    }
    restricted(request, action, continued, &mut out);
    if action == "send" {
        send(request, &mut out);
        group::violations(request, &mut out);
        callback(request, callbacks, &mut out);
    }
    if action == "status" {
        page(request, &mut out);
    }
    continuation(request, action, &mut out);
    if action != "list_targets" {
        route(request, action, catalog, &mut out);
    }
    headers(request, &mut out);
    out
}

/// Returns the violation of an invalid URL; `reason` is the end of a sentence.
pub(super) fn invalid_url(place: &str, reason: &str) -> Value {
    let message = format!("the URL {reason}");
    let params = json!({ "format": "uri" });
    violation(place, "format", params, &message)
}

fn target(request: &Map<String, Value>, catalog: &Catalog, out: &mut Vec<Value>) {
    let named = ["target_alias", "target_aliases"];
    let named = named.into_iter().find(|name| request.contains_key(*name));
    if let Some(name) = named
        && catalog.targets().is_empty()
        && catalog.local().is_none()
    {
        let message = "no targets are configured, so there is no alias to use";
        out.push(violation(
            &format!("/{name}"),
            "enum",
            json!({ "allowedValues": [] }),
            message,
        ));
    }
    let Some(url) = request.get("target_url").and_then(Value::as_str) else {
        return;
    };
    match catalog.by_url(url) {
        Err(TargetError::BadUrl(reason)) => out.push(invalid_url("/target_url", &reason)),
        Err(TargetError::NotConfigured) => {
            let params = json!({ "allowTargetUrlOverride": false, "configuredTargetAliases": catalog.aliases() });
            let message = "no target is configured at this URL, and policy does not allow others; use target_alias";
            out.push(violation("/target_url", "anyOf", params, message));
        }
        Err(
            TargetError::Ambiguous(_)
            | TargetError::BadCardPath
            | TargetError::NoGateway
            | TargetError::NotOfGateway,
        )
        | Ok(_) => {}
    }
}

/// Refuses routing fields in a request with a continuation, which names target, task and conversation.
fn routing(request: &Map<String, Value>, action: &str, out: &mut Vec<Value>) {
    for name in ROUTING {
        if request.contains_key(name) {
            let message = format!("does not go with continuation in {action}; leave it out");
            out.push(violation(
                &format!("/{name}"),
                "not",
                json!({ "property": name, "action": action }),
                &message,
            ));
        }
    }
}

/// Refuses the fields that `action` does not accept. If the request is `continued`, [`routing`] has already refused its
/// fields.
fn restricted(request: &Map<String, Value>, action: &str, continued: bool, out: &mut Vec<Value>) {
    let mut refuse = |name: &str| {
        let message = format!("{action} does not take {name}");
        out.push(violation(
            "",
            "not",
            json!({ "property": name, "action": action }),
            &message,
        ));
    };
    if action == "list_targets" {
        request
            .keys()
            .filter(|name| !matches!(name.as_str(), "action" | "query"))
            .for_each(|name| refuse(name));
        return;
    }
    let takes = |name: &str| {
        let restricted = RESTRICTED.iter().find(|(field, _)| *field == name);
        restricted.is_none_or(|(_, actions)| actions.contains(&action))
    };
    // A request has few fields, so iterating over them is faster than looking up each restricted one.
    if request.keys().all(|name| takes(name)) {
        return;
    }
    for (name, actions) in RESTRICTED {
        let refused = continued && ROUTING.contains(&name);
        if request.contains_key(name) && !actions.contains(&action) && !refused {
            refuse(name);
        }
    }
}

fn send(request: &Map<String, Value>, out: &mut Vec<Value>) {
    if !request.contains_key("parts") {
        let message = "send requires parts: the content of the message";
        out.push(violation(
            "",
            "required",
            json!({ "missingProperty": "parts" }),
            message,
        ));
    }
    if request
        .get("metadata")
        .is_some_and(|metadata| metadata.get(delegation::DELEGATION_KEY).is_some())
    {
        let message = "is set by the host, which tracks delegations, and cannot be set by a request; leave it out";
        out.push(violation(
            &format!("/metadata/{}", escape(delegation::DELEGATION_KEY)),
            "not",
            json!({ "property": delegation::DELEGATION_KEY }),
            message,
        ));
    }
    if request.get("follow_updates") == Some(&Value::Bool(true)) && request.contains_key("blocking")
    {
        let message = "blocking does not go with follow_updates=true; leave it out";
        out.push(violation("/blocking", "not", json!({}), message));
    }
    let parts = request
        .get("parts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for (i, part) in parts.enumerate().filter(|(_, part)| part["kind"] == "file") {
        let bytes = part.get("bytes").and_then(Value::as_str);
        if bytes.is_some() && part.get("uri").is_some() {
            let message = "a file is named by uri or carried in bytes, not both";
            out.push(violation(&format!("/parts/{i}"), "not", json!({}), message));
        } else if bytes.is_some_and(|bytes| !is_base64(bytes)) {
            let message = "must be base64";
            let params = json!({ "format": "byte" });
            out.push(violation(
                &format!("/parts/{i}/bytes"),
                "format",
                params,
                message,
            ));
        }
    }
}

/// Refuses a callback URL that the operator does not allow.
fn callback(request: &Map<String, Value>, callbacks: &Callbacks, out: &mut Vec<Value>) {
    let url = request
        .get("push_notification_config")
        .and_then(|config| config.get("url"))
        .and_then(Value::as_str);
    let Some(Err(reason)) = url.map(|url| callbacks.check(url)) else {
        return;
    };
    let message = format!("the callback address {reason}");
    out.push(violation(
        "/push_notification_config/url",
        "format",
        json!({ "format": "uri" }),
        &message,
    ));
}

/// Checks the fields of a page: an offset needs its artifact, and a page has no messages.
fn page(request: &Map<String, Value>, out: &mut Vec<Value>) {
    let has = |name: &str| request.contains_key(name);
    if has("offset") && !has("artifact_id") {
        let message = "offset requires artifact_id: the artifact whose text it counts in";
        let params = json!({ "missingProperty": "artifact_id" });
        out.push(violation("", "required", params, message));
    }
    if has("artifact_id") && has("history_length") {
        let message = "history_length does not go with artifact_id; leave it out";
        let params = json!({});
        out.push(violation("/history_length", "not", params, message));
    }
}

fn is_base64(text: &str) -> bool {
    STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .is_ok()
}

fn continuation(request: &Map<String, Value>, action: &str, out: &mut Vec<Value>) {
    let Some(continuation) = request.get("continuation") else {
        return;
    };
    let has = |name: &str| continuation.get(name).is_some();
    if has("group") {
        return group::continuation_violations(request, action, out);
    }
    if !has("target") {
        out.push(schema_violation(
            "/continuation",
            "#/properties/continuation/required",
            "required",
            json!({ "missingProperty": "target" }),
            "must have required property 'target'",
        ));
    }
    match action {
        "send" if !has("task") && !has("conversation") => {
            let message = "send continues a task or a conversation; this continuation has neither";
            out.push(violation("/continuation", "anyOf", json!({}), message));
        }
        "watch" | "status" | "cancel" if !has("task") => {
            let message = format!(
                "{action} requires a continuation with a task; a conversation alone is for send"
            );
            let params = json!({ "missingProperty": "task" });
            out.push(violation("/continuation", "required", params, &message));
        }
        _ => {}
    }
}

/// Requires a target: in the request, or as the configuration's default.
fn route(request: &Map<String, Value>, action: &str, catalog: &Catalog, out: &mut Vec<Value>) {
    let has = |name: &str| request.contains_key(name);
    let target = ["target_alias", "target_aliases", "target_url"];
    let target = target.into_iter().any(has) || catalog.default_target().is_some();
    let referenced = has("task_handle") || has("continuation");
    let routed = referenced || (target && (action == "send" || has("task_id")));
    if !routed {
        let message = if action == "send" {
            "send requires task_handle, target_alias, target_url, or a configured default target"
                .to_owned()
        } else {
            format!(
                "{action} requires task_handle, a continuation with a task, or task_id with target_alias, target_url or a configured default target"
            )
        };
        out.push(violation("", "anyOf", json!({}), &message));
    }
}

fn headers(request: &Map<String, Value>, out: &mut Vec<Value>) {
    let parameters = request.get("service_parameters").and_then(Value::as_object);
    for (name, value) in parameters.into_iter().flatten() {
        let reason = match HeaderName::try_from(name) {
            Err(_) => Some("cannot be the name of an HTTP header"),
            Ok(name) if is_closed(name.as_str()) => Some(
                "cannot be set by a request: it carries credentials, controls the connection or is set for each call",
            ),
            Ok(_) if HeaderValue::try_from(value.as_str().unwrap_or_default()).is_err() => {
                Some("has characters that an HTTP header cannot contain")
            }
            Ok(_) => None,
        };
        if let Some(reason) = reason {
            let place = format!("/service_parameters/{}", escape(name));
            let params = json!({ "property": name });
            out.push(violation(&place, "not", params, reason));
        }
    }
}

fn is_closed(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name) || name.starts_with("content-") || name.starts_with("a2a-")
}

/// Returns the violations of the target's own rules.
pub(super) fn target_rules(request: &Request, target: &Target) -> Vec<Value> {
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
    #[rustfmt::skip] // One row a line.
    let fields = [
        (headers, "service_parameters", "leave them out, or use metadata"),
        (callback, "push_notification_config", "leave it out, and call watch or status"),
        (references, "reference_task_ids", "leave them out, or name the tasks in the message"),
        (modes, "accepted_output_modes", "leave them out, or name them in the message"),
    ];
    let present = fields.into_iter().filter(|(is_present, _, _)| *is_present);
    present
        .map(|(_, name, instead)| {
            let message = format!("an agent of the local gateway does not take {name}; {instead}");
            let params = json!({ "property": name });
            violation(&format!("/{name}"), "not", params, &message)
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
            violation(&place, "not", params, message)
        })
        .collect()
}
