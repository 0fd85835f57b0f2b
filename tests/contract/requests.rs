//! The fields of each action, with and without a continuation or a handle.

use openclaw_remote_agent::plugin::{CallInput, Plugin};
use serde_json::{Value, json};
use testkit::conformance::{Peers, peers::Recorded};

use crate::contract::in_process::InProcess;
use crate::support::{assert_has, merge};

const ACTIONS: [&str; 5] = ["list_targets", "send", "watch", "status", "cancel"];

/// The action accepts the field.
const OK: &str = "ok";
/// The action never accepts the field: one error at the root.
const NO: &str = "no";
/// The action uses the value of its continuation: one error at the field.
const AT: &str = "at";
/// The field requires another field: one error at the root.
const LACKS: &str = "lacks";

/// The verdict on each field, by action in the order of [`ACTIONS`].
type Table = [(&'static str, [&'static str; 5])];

/// Without a continuation. `watch`, `status` and `cancel` name the task by `task_id`.
const WITHOUT_CONTINUATION: &Table = &[
    ("query", [OK, NO, NO, NO, NO]),
    ("target_alias", [NO, OK, OK, OK, OK]),
    ("target_aliases", [NO, OK, NO, NO, NO]),
    ("mode", [NO, LACKS, NO, NO, NO]),
    ("quorum", [NO, LACKS, NO, NO, NO]),
    ("choices", [NO, LACKS, NO, NO, NO]),
    ("choice_pointer", [NO, LACKS, NO, NO, NO]),
    ("target_url", [NO, OK, OK, OK, OK]),
    ("parts", [NO, OK, NO, NO, NO]),
    ("task_handle", [NO, OK, OK, OK, OK]),
    ("message_id", [NO, OK, NO, NO, NO]),
    ("task_id", [NO, OK, OK, OK, OK]),
    ("context_id", [NO, OK, NO, NO, NO]),
    ("reference_task_ids", [NO, OK, NO, NO, NO]),
    ("task_requirement", [NO, OK, NO, NO, NO]),
    ("follow_updates", [NO, OK, NO, NO, NO]),
    ("notify", [NO, OK, NO, NO, NO]),
    ("accepted_output_modes", [NO, OK, NO, NO, NO]),
    ("blocking", [NO, OK, NO, NO, NO]),
    ("history_length", [NO, OK, NO, OK, NO]),
    ("artifact_id", [NO, NO, NO, OK, NO]),
    ("offset", [NO, NO, NO, LACKS, NO]),
    ("timeout_ms", [NO, OK, OK, OK, OK]),
    ("service_parameters", [NO, OK, OK, OK, OK]),
    ("metadata", [NO, OK, NO, NO, NO]),
    ("push_notification_config", [NO, OK, NO, NO, NO]),
];

/// The fields that a continuation replaces.
const ROUTING: [&str; 6] = [
    "task_handle",
    "task_id",
    "context_id",
    "target_alias",
    "target_url",
    "target_aliases",
];

/// Beside a continuation, which no request for `list_targets` accepts.
fn with_continuation() -> Vec<(&'static str, [&'static str; 5])> {
    let rows = WITHOUT_CONTINUATION.iter();
    let rows = rows.map(|(field, verdicts)| match ROUTING.contains(field) {
        true => (*field, [NO, AT, AT, AT, AT]),
        false => (*field, *verdicts),
    });
    rows.chain([("continuation", [NO, OK, OK, OK, OK])])
        .collect()
}

/// Two agents, the first with a task, and the continuation of the task.
struct Desk {
    peers: Peers,
    plugin: InProcess,
    continuation: Value,
}

impl Desk {
    async fn new() -> Self {
        let task = |state: &str| {
            json!({"result": {"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": state},
                "artifacts": [{"artifactId": "a-1", "parts": [{"kind": "text", "text": "hello"}]}]}})
        };
        let card = json!({
            "protocolVersion": "0.3.0", "name": "Desk", "description": "Answers.", "version": "1.0.0",
            "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
        });
        let rpc = json!({
            "message/send": [task("input-required")], "tasks/get": [task("input-required")],
            "tasks/cancel": [task("canceled")],
            "message/stream": [{"sse": [task("completed")]}],
            "tasks/resubscribe": [{"sse": [task("completed")]}],
        });
        let peer = json!({"card": card, "rpc": rpc});
        let peers = Peers::start(&json!({"peers": {"desk": peer, "other": peer}}))
            .await
            .unwrap();
        let target = |name: &str| json!({"alias": name, "baseUrl": peers.origin(name), "default": name == "desk"});
        let config = json!({"enabled": true, "targets": [target("desk"), target("other")]});
        let plugin = InProcess::started(&config).await;
        let mut desk = Self {
            peers,
            plugin,
            continuation: Value::Null,
        };
        let sent = desk.plugin.call(&send()).await;
        desk.continuation = sent["summary"]["continuation"].clone();
        assert!(desk.continuation["task"].is_object(), "{sent}");
        desk
    }

    /// Returns a value that fits the field.
    fn value(&self, field: &str) -> Value {
        match field {
            "query" => json!("help"),
            "target_alias" => json!("desk"),
            "target_aliases" => json!(["desk", "other"]),
            "mode" => json!("vote"),
            "quorum" => json!(1),
            "choices" => json!(["yes", "no"]),
            "choice_pointer" => json!("/answer"),
            "target_url" => json!(self.peers.origin("desk")),
            "parts" => send()["parts"].clone(),
            "task_handle" => self.continuation["task"]["task_handle"].clone(),
            "continuation" => self.continuation.clone(),
            "message_id" => json!("m-1"),
            "task_id" => json!("t-1"),
            "context_id" => json!("c-1"),
            "reference_task_ids" => json!(["t-0"]),
            "task_requirement" => json!("required"),
            "follow_updates" => json!(true),
            "notify" => json!(false),
            "accepted_output_modes" => json!(["text/plain"]),
            "blocking" => json!(false),
            "history_length" => json!(1),
            "artifact_id" => json!("a-1"),
            "offset" => json!(0),
            "timeout_ms" => json!(20_000),
            "service_parameters" => json!({"x-team": "a"}),
            "metadata" => json!({"k": "v"}),
            "push_notification_config" => json!({"url": "https://callback.example/"}),
            other => panic!("no value for `{other}`"),
        }
    }

    /// Returns the outcomes of actions with fields that differ from the table.
    async fn violations(&self, table: &Table, continued: bool) -> Vec<String> {
        let mut violations = Vec::new();
        for (field, verdicts) in table {
            for (action, expected) in ACTIONS.into_iter().zip(verdicts) {
                let mut request = json!({ "action": action });
                if action == "send" {
                    request["parts"] = self.value("parts");
                }
                if continued {
                    request["continuation"] = self.continuation.clone();
                } else if !matches!(action, "send" | "list_targets") {
                    request["task_id"] = self.value("task_id");
                }
                // The request for `list_targets` has only this field.
                if action == "list_targets" {
                    request = json!({ "action": action });
                }
                request[*field] = self.value(field);
                let envelope = self.plugin.call(&request).await;
                let got = verdict(&envelope, action, field);
                if got != *expected {
                    violations.push(format!("{action} {field}: {got}, not {expected}"));
                }
            }
        }
        violations
    }

    fn sent(&self) -> usize {
        let log = self.peers.log("desk");
        log.iter().filter_map(Recorded::rpc_method).count()
    }
}

fn send() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "hello"}]})
}

/// Returns the outcome of a request as in the tables; else its errors.
fn verdict(envelope: &Value, action: &str, field: &str) -> String {
    if envelope["ok"] == true {
        return OK.to_owned();
    }
    let error = &envelope["error"];
    let errors = error["details"]["errors"].as_array();
    let [one] = errors.map(Vec::as_slice).unwrap_or_default() else {
        return error.to_string();
    };
    let refused = json!({"property": field, "action": action});
    let reported = (
        one["keyword"].as_str().unwrap_or_default(),
        one["instancePath"].as_str().unwrap_or_default(),
    );
    match reported {
        _ if error["code"] != "VALIDATION_ERROR" => error.to_string(),
        ("not", "") if one["params"] == refused => NO.to_owned(),
        ("not", place) if place == format!("/{field}") && one["params"] == refused => AT.to_owned(),
        ("required", "") => LACKS.to_owned(),
        _ => one.to_string(),
    }
}

#[tokio::test]
async fn each_action_accepts_the_fields_of_its_table() {
    let desk = Desk::new().await;
    let violations = desk.violations(WITHOUT_CONTINUATION, false).await;
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test]
async fn continuation_replaces_every_routing_field() {
    let desk = Desk::new().await;
    let violations = desk.violations(&with_continuation(), true).await;
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn tables_contain_every_field_of_the_schema() {
    let schema = crate::contract::json("schema/request.schema.json");
    let fields = schema["properties"].as_object().unwrap().keys();
    let fields: Vec<_> = fields.filter(|field| *field != "action").collect();
    let table = with_continuation();
    let named: Vec<_> = table.iter().map(|(field, _)| field).collect();
    assert!(fields.iter().all(|field| named.contains(&&field.as_str())));
    assert_eq!(named.len(), fields.len());
}

#[tokio::test]
async fn each_routing_field_beside_a_continuation_is_an_error() {
    let desk = Desk::new().await;
    let before = desk.sent();
    for action in &ACTIONS[1..] {
        let mut request = json!({"action": action, "continuation": desk.continuation});
        if *action == "send" {
            request["parts"] = desk.value("parts");
        }
        for field in ROUTING {
            request[field] = desk.value(field);
        }
        let envelope = desk.plugin.call(&request).await;
        let errors = envelope["error"]["details"]["errors"].as_array();
        let errors = errors.unwrap_or_else(|| panic!("{envelope}")).iter();
        let places: Vec<_> = errors
            .map(|error| error["instancePath"].as_str().unwrap())
            .collect();
        let expected = ROUTING.map(|field| format!("/{field}"));
        assert_eq!(places, expected, "{action}");
    }
    assert_eq!(desk.sent(), before);
}

#[tokio::test]
async fn handle_that_contradicts_another_field_is_refused_unsent() {
    let desk = Desk::new().await;
    let before = desk.sent();
    let handle = desk.value("task_handle");
    let mut continuation = desk.continuation.clone();
    continuation["conversation"]["context_id"] = json!("c-2");
    let other = desk.peers.origin("other");
    let context = json!({"handle_context_id": "c-1", "explicit_context_id": "c-2"});
    let task = json!({"handle_task_id": "t-1", "explicit_task_id": "t-2"});
    for (actions, fields, details) in [
        (
            &["send"][..],
            json!({"task_handle": handle, "context_id": "c-2"}),
            context.clone(),
        ),
        (
            &ACTIONS[1..],
            json!({ "continuation": continuation }),
            context,
        ),
        (
            &ACTIONS[1..],
            json!({"task_handle": handle, "task_id": "t-2"}),
            task,
        ),
        (
            &ACTIONS[1..],
            json!({"task_handle": handle, "target_alias": "other"}),
            json!({}),
        ),
        (
            &ACTIONS[1..],
            json!({"task_handle": handle, "target_alias": "desk", "target_url": other}),
            json!({}),
        ),
    ] {
        for action in actions {
            let mut request = json!({"action": action});
            if *action == "send" {
                request["parts"] = desk.value("parts");
            }
            merge(&mut request, fields.clone());
            let envelope = desk.plugin.call(&request).await;
            assert_has(
                &envelope["error"],
                json!({"code": "VALIDATION_ERROR", "reason": "contradiction", "details": details}),
            );
        }
    }
    assert_eq!(desk.sent(), before);
}

#[tokio::test]
async fn handle_belongs_to_one_alias_of_its_url() {
    let desk = Desk::new().await;
    let target = |name: &str| json!({"alias": name, "baseUrl": desk.peers.origin("desk")});
    let config = json!({"enabled": true, "targets": [target("desk"), target("twin")]});
    let plugin = InProcess::started(&config).await;
    let send = json!({"action": "send", "target_alias": "desk", "parts": desk.value("parts")});
    let mut continuation = plugin.call(&send).await["summary"]["continuation"].take();
    let handle = continuation["task"]["task_handle"].clone();
    continuation["target"]["target_alias"] = json!("twin");
    for fields in [
        json!({"action": "status", "task_handle": handle, "target_alias": "twin"}),
        json!({"action": "status", "continuation": continuation}),
    ] {
        let envelope = plugin.call(&fields).await;
        assert_eq!(envelope["error"]["reason"], "contradiction", "{envelope}");
    }
}

/// Returns the message, the hint and the text for models of a refused request.
async fn reported(request: &str) -> (String, String, String) {
    let config =
        json!({"targets": [{"alias": "desk", "baseUrl": "https://desk.example", "default": true}]});
    let log = std::sync::Arc::new(base::log::Silent);
    let plugin = std::sync::Arc::new(Plugin::new(&config.to_string(), log).unwrap());
    let job = CallInput {
        request: request.to_owned(),
        ..CallInput::default()
    };
    let envelope = plugin.start(job).await;
    let text = plugin.render(&envelope);
    let envelope: Value = serde_json::from_str(&envelope).unwrap();
    let error = &envelope["error"];
    assert_eq!(error["reason"], "invalid_request", "{envelope}");
    let field = |value: &Value| value.as_str().unwrap().to_owned();
    (
        field(&error["message"]),
        field(&error["details"]["hint"]),
        text,
    )
}

/// Requests with one fault, and the expected error.
const INVALID_REQUESTS: [(&str, &str); 6] = [
    ("{", "the request is not JSON"),
    ("[]", "the request must be object"),
    (r#"{"action":"send"}"#, "send requires parts"),
    (
        r#"{"action":"send","parts":[]}"#,
        "/parts must NOT have fewer than 1 items",
    ),
    (r#"{"action":"status"}"#, "status requires task_handle"),
    (
        r#"{"action":"watch","task_id":"t","message_id":"m"}"#,
        "watch does not take message_id",
    ),
];

#[tokio::test]
async fn invalid_request_has_its_first_error_in_hint_and_model_text() {
    for (request, fault) in INVALID_REQUESTS {
        let (message, hint, text) = reported(request).await;
        assert_eq!(message, "remote_agent input validation failed", "{request}");
        assert!(hint.contains(fault), "{request}: {hint}");
        assert!(text.contains(fault), "{request}: {text}");
    }
}
