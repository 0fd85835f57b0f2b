//! Any JSON from a caller or a peer causes exactly one envelope.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use openclaw_remote_agent::plugin::CallInput;
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
    test_runner::{Config, TestCaseError, TestRunner},
};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::faults::tool_fixture::{
    ToolFixture, WAIT_TIMEOUT, card, message, parse, peers, result, send_request, status,
    stream_request, task,
};

const FIELDS: &str = "action target_alias target_url task_handle task_id context_id continuation parts blocking follow_updates \
    task_requirement timeout_ms history_length metadata service_parameters accepted_output_modes \
    push_notification_config reference_task_ids message_id card_path";

/// Texts with a meaning in requests or responses.
const STRINGS: &str = "send watch status cancel list_targets main required optional text file data task message status-update \
    artifact-update working completed input-required agent ROLE_AGENT TASK_STATE_WORKING \
    TASK_STATE_COMPLETED 1.0 0.3 JSONRPC t-1 rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0 http://127.0.0.1:1/";

const KEYS: &str = "kind id taskId contextId status state message parts text role messageId artifacts artifact artifactId \
    history metadata append final result error code data jsonrpc file uri bytes task target conversation \
    task_id target_url url skills capabilities streaming additionalInterfaces supportedInterfaces \
    protocolBinding tenant securitySchemes extensions required raw preferredTransport protocolVersion";

fn any_word(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split(' ').collect::<Vec<_>>())
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..100).prop_map(Value::from),
        any_word(STRINGS).prop_map(Value::from),
        select(&["", "{{origin}}", "\u{0}\r\n"][..]).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof![3 => any_word(KEYS).prop_map(str::to_owned), 1 => any::<String>()];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(key, inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Requests that sometimes pass the first checks.
fn any_request() -> impl Strategy<Value = Value> {
    let parts = || {
        vec(
            prop_oneof![
                Just(json!({"kind": "text", "text": "hello"})),
                any_json(),
                any_json().prop_map(|data| json!({"kind": "data", "data": data})),
            ],
            0..4,
        )
        .prop_map(Value::from)
    };
    let field = (any_word(FIELDS), any_json());
    let action = prop_oneof![4 => any_word("send watch status cancel list_targets").prop_map(Value::from), 1 => any_json()];
    let plausible_request = (action, option::weighted(0.7, parts()), vec(field, 0..4)).prop_map(
        |(action, parts, fields)| {
            let mut request = json!({"action": action});
            for (name, value) in fields {
                request[name] = value;
            }
            if let Some(parts) = parts {
                request["parts"] = parts;
            }
            // A random timeout could be days.
            if request["timeout_ms"].as_u64().is_some_and(|ms| ms > 500) {
                request["timeout_ms"] = json!(500);
            }
            request
        },
    );
    prop_oneof![4 => plausible_request, 1 => any_json()]
}

/// Runs one call and counts its envelopes.
pub(crate) fn one_envelope(fixture: &ToolFixture, request: String) -> Result<Value, TestCaseError> {
    let (sender, receiver) = mpsc::channel();
    let count = Arc::new(AtomicUsize::new(0));
    let call = CallInput {
        request,
        updates: Some(Arc::new(|update| {
            parse(update);
        })),
        ..CallInput::default()
    };
    let counter = Arc::clone(&count);
    fixture.plugin.start_with(call, move |envelope| {
        counter.fetch_add(1, Ordering::SeqCst);
        let _ = sender.send(envelope);
    });
    let envelope = receiver
        .recv_timeout(WAIT_TIMEOUT)
        .map_err(|_| TestCaseError::fail("no envelope arrived"))?;
    prop_assert_eq!(count.load(Ordering::SeqCst), 1);
    let envelope = parse(&envelope);
    prop_assert_ne!(&envelope["error"]["reason"], "internal", "{}", envelope);
    Ok(envelope)
}

pub(crate) fn check<S: Strategy>(
    cases: u32,
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&strategy, test)
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_request_gives_one_envelope() {
    let runtime = Runtime::new().unwrap();
    let answers = json!({"card": card(), "rpc": {
        "message/send": result(message("pong")),
        "message/stream": {"sse": [result(task("working")), result(status("completed", true))]},
        "tasks/resubscribe": {"sse": [result(status("completed", true))]},
        "tasks/get": result(task("working")),
        "tasks/cancel": result(task("canceled")),
    }});
    let peers = runtime.block_on(peers(json!({"main": answers})));
    let fixture = ToolFixture::with_peers(&peers);
    check(400, any_request(), |request| {
        one_envelope(&fixture, request.to_string()).map(|_| ())
    });
}

#[test]
fn any_text_as_request_gives_one_envelope() {
    let fixture = ToolFixture::with_target(json!({"baseUrl": "http://127.0.0.1:1"}));
    check(200, any::<String>(), |text| {
        one_envelope(&fixture, text).map(|_| ())
    });
}

/// Returns a peer that answers a message with `answer`, as the result, as the whole body, or as events of a stream.
fn check_answer(runtime: &Runtime, answer: &Value, card: &Value) -> Result<(), TestCaseError> {
    // Removes braces that the script would replace.
    let literal = |value: &Value| value.to_string().replace("{{", "{ {");
    let body_script =
        json!({"body": literal(answer), "headers": {"content-type": "application/json"}});
    let event = json!({"raw": format!("data: {}\n\n", literal(answer))});
    let result_script = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}\n\n",
        literal(answer)
    );
    let script = |reply: Value, events: Value| {
        json!({"card": card, "rpc": {
            "message/send": reply,
            "tasks/get": reply,
            "message/stream": events,
        }})
    };
    let result = json!({"body": format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}", literal(answer)), "headers": {"content-type": "application/json"}});
    let peers = runtime.block_on(peers(json!({
        "whole": script(body_script.clone(), body_script),
        "result": script(result, json!({"sse": [event, {"raw": result_script}]})),
        "events": script(json!({"end": "destroy"}), json!({"sse": [{"raw": result_script}, {"raw": result_script}, event]})),
    })));
    for name in ["whole", "result", "events"] {
        let fixture =
            ToolFixture::with_target(json!({"baseUrl": peers.origin(name), "timeoutMs": 5000}));
        for request in [
            send_request(),
            stream_request(),
            json!({"action": "status", "task_id": "t-1"}),
        ] {
            one_envelope(&fixture, request.to_string())?;
        }
    }
    Ok(())
}

#[test]
fn any_answer_of_a_peer_gives_one_envelope() {
    let runtime = Runtime::new().unwrap();
    check(60, any_json(), |answer| {
        check_answer(&runtime, &answer, &card())
    });
}

/// Returns a message, task or event with one value replaced.
fn invalid_variants() -> impl Strategy<Value = Value> {
    let valid = select(vec![
        message("pong"),
        task("working"),
        status("completed", true),
        json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": true,
            "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}}),
        json!({"kind": "task", "id": "t-1", "contextId": "c-1",
            "status": {"state": "input-required", "message": message("which?")},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "data", "data": {}}]}],
            "history": [message("before")]}),
    ]);
    (valid, any::<prop::sample::Index>(), any_json()).prop_map(|(mut value, pointer, other)| {
        let mut all = Vec::new();
        pointers(&value, String::new(), &mut all);
        let pointer = pointer.get(&all).clone();
        *value.pointer_mut(&pointer).unwrap() = other;
        value
    })
}

fn pointers(value: &Value, prefix: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, format!("{prefix}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                pointers(item, format!("{prefix}/{key}"), found);
            }
        }
        _ => {}
    }
    found.push(prefix);
}

#[test]
fn answer_with_invalid_value_gives_one_envelope() {
    let runtime = Runtime::new().unwrap();
    check(60, invalid_variants(), |answer| {
        check_answer(&runtime, &answer, &card())
    });
}

#[test]
fn any_card_gives_one_envelope() {
    let runtime = Runtime::new().unwrap();
    let card_with_invalid_field = (any_word(KEYS), any_json()).prop_map(|(key, value)| {
        let mut card = card();
        card[key] = value;
        card
    });
    check(
        60,
        prop_oneof![card_with_invalid_field, any_json()],
        |card| {
            let literal = card
                .to_string()
                .replace("{{origin}}", "/")
                .replace("{{", "{ {");
            let answer = json!({"body": literal, "headers": {"content-type": "application/json"}});
            let peers = runtime.block_on(peers(json!({"main": {
                "routes": {"GET /.well-known/agent-card.json": answer},
                "rpc": {"message/send": result(message("pong"))},
            }})));
            let fixture = ToolFixture::with_target(
                json!({"baseUrl": peers.origin("main"), "timeoutMs": 5000}),
            );
            one_envelope(&fixture, json!({"action": "list_targets"}).to_string())?;
            one_envelope(&fixture, send_request().to_string())?;
            one_envelope(&fixture, stream_request().to_string()).map(|_| ())
        },
    );
}
