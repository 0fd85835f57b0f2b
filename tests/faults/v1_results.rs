//! Results have the contract's shape for any valid answer of A2A 1.0.

use base::validation;
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::TestCaseError};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::faults::any_json::{any_json, check, one_envelope};
use crate::faults::dialect::v1_card;
use crate::faults::tool_fixture::{ToolFixture, peers, result, send_request, stream_request};

/// Returns an object of members that are present, `null` or absent.
fn optional_members(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let member = |(name, value): (&'static str, BoxedStrategy<Value>)| {
        prop_oneof![Just(None), Just(Some(Value::Null)), value.prop_map(Some)]
            .prop_map(move |value| Some((name.to_owned(), value?)))
            .boxed()
    };
    let members: Vec<_> = members.into_iter().map(member).collect();
    members
        .prop_map(|members| Value::Object(members.into_iter().flatten().collect::<Map<_, _>>()))
        .boxed()
}

/// Returns such an object with additional required members.
fn with_members(base: BoxedStrategy<Value>, required: Value) -> BoxedStrategy<Value> {
    base.prop_map(move |mut value| {
        let fields = value.as_object_mut().unwrap();
        fields.extend(required.as_object().unwrap().clone());
        value
    })
    .boxed()
}

fn any_text() -> BoxedStrategy<Value> {
    select(vec![
        "",
        "alpha",
        "text/plain",
        "c-1",
        "2026-01-01T00:00:00.000000001Z",
    ])
    .prop_map(Value::from)
    .boxed()
}

fn part() -> BoxedStrategy<Value> {
    let part_fields = || {
        optional_members(vec![
            ("filename", any_text()),
            ("mediaType", any_text()),
            ("metadata", Just(json!({"k": [1]})).boxed()),
            ("unknown", Just(json!("value")).boxed()),
        ])
    };
    let content = prop_oneof![
        any_text().prop_map(|text| json!({ "text": text })),
        select(vec!["aGk=", "aGk", "-_-_", ""]).prop_map(|raw| json!({ "raw": raw })),
        Just(json!({"url": "https://files.example/x"})),
        any_json().prop_map(|data| json!({ "data": data })),
        Just(json!({"text": "", "raw": "", "url": "", "data": {"k": 1}})),
    ];
    (part_fields(), content)
        .prop_map(|(mut part, content)| {
            part.as_object_mut()
                .unwrap()
                .extend(content.as_object().unwrap().clone());
            part
        })
        .boxed()
}

fn parts() -> BoxedStrategy<Value> {
    vec(part(), 0..3).prop_map(Value::from).boxed()
}

fn message() -> BoxedStrategy<Value> {
    let role = select(vec!["ROLE_AGENT", "ROLE_USER", "ROLE_UNSPECIFIED"]).prop_map(Value::from);
    let message = optional_members(vec![
        ("messageId", any_text()),
        ("contextId", any_text()),
        ("taskId", Just(json!("t-1")).boxed()),
        ("role", role.boxed()),
        ("metadata", Just(json!({})).boxed()),
        ("extensions", Just(json!(["https://x.example/e"])).boxed()),
        ("referenceTaskIds", Just(json!([])).boxed()),
    ]);
    (message, parts())
        .prop_map(|(mut message, parts)| {
            message["parts"] = parts;
            message
        })
        .boxed()
}

fn artifact() -> BoxedStrategy<Value> {
    let artifact = optional_members(vec![
        ("name", any_text()),
        ("description", any_text()),
        ("parts", parts()),
        ("metadata", Just(json!({"k": 1})).boxed()),
        ("extensions", Just(json!([])).boxed()),
    ]);
    with_members(artifact, json!({"artifactId": "a-1"}))
}

fn status() -> BoxedStrategy<Value> {
    let state = select(vec![
        "TASK_STATE_UNSPECIFIED",
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_AUTH_REQUIRED",
        "TASK_STATE_OF_THE_FUTURE",
    ]);
    optional_members(vec![
        ("state", state.prop_map(Value::from).boxed()),
        ("message", message()),
        ("timestamp", any_text()),
    ])
}

fn task() -> BoxedStrategy<Value> {
    let task = optional_members(vec![
        ("contextId", any_text()),
        (
            "artifacts",
            vec(artifact(), 0..3).prop_map(Value::from).boxed(),
        ),
        (
            "history",
            vec(message(), 0..3).prop_map(Value::from).boxed(),
        ),
        ("metadata", Just(json!({"k": 1})).boxed()),
        ("weather", Just(json!("fine")).boxed()),
    ]);
    (with_members(task, json!({"id": "t-1"})), status())
        .prop_map(|(mut task, status)| {
            task["status"] = status;
            task
        })
        .boxed()
}

fn event() -> BoxedStrategy<Value> {
    let part_fields = || {
        optional_members(vec![
            ("contextId", any_text()),
            ("metadata", Just(json!({})).boxed()),
        ])
    };
    let status = (part_fields(), status()).prop_map(|(mut update, status)| {
        update["taskId"] = json!("t-1");
        update["status"] = status;
        json!({ "statusUpdate": update })
    });
    let flags = || option::of(any::<bool>());
    let artifact = (part_fields(), artifact(), flags(), flags()).prop_map(
        |(mut update, artifact, append, last)| {
            update["taskId"] = json!("t-1");
            update["artifact"] = artifact;
            update["append"] = json!(append);
            update["lastChunk"] = json!(last);
            json!({ "artifactUpdate": update })
        },
    );
    prop_oneof![
        status,
        artifact,
        task().prop_map(|task| json!({ "task": task })),
        message().prop_map(|message| json!({ "message": message })),
    ]
    .boxed()
}

/// Checks that every member has its name of 0.3.
fn is_0_3(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_0_3),
        Value::Object(fields) => {
            let named = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
            let old = !named("state").starts_with("TASK_STATE_")
                && !named("role").starts_with("ROLE_")
                && !["statusUpdate", "artifactUpdate"]
                    .iter()
                    .any(|key| fields.contains_key(*key));
            // The peer chooses the members of data.
            old && fields
                .iter()
                .all(|(key, value)| key == "data" || is_0_3(value))
        }
        _ => true,
    }
}

#[test]
fn any_reply_of_1_0_fits_the_contract() {
    let runtime = Runtime::new().unwrap();
    let schema: Value =
        serde_json::from_str(include_str!("../../schema/result.schema.json")).unwrap();
    let schema = validation::compile_value(&schema).unwrap();
    let cases = (task(), event(), vec(event(), 0..4));
    check(60, cases, |(task, reply, events)| {
        let literal = |value: &Value| {
            serde_json::from_str::<Value>(&value.to_string().replace("{{", "{ {")).unwrap()
        };
        let reply = match reply.get("task").or_else(|| reply.get("message")) {
            Some(_) => reply,
            None => json!({ "task": task }),
        };
        let end =
            json!({"statusUpdate": {"taskId": "t-1", "status": {"state": "TASK_STATE_COMPLETED"}}});
        let events: Vec<Value> = events
            .iter()
            .chain([&end])
            .map(|event| result(literal(event)))
            .collect();
        let peers = runtime.block_on(peers(json!({"main": {"card": v1_card("JSONRPC"), "rpc": {
            "GetTask": result(literal(&task)),
            "SendMessage": result(literal(&reply)),
            "SendStreamingMessage": {"sse": events},
        }}})));
        let fixture = ToolFixture::with_peers(&peers);
        let look = json!({"action": "status", "task_id": "t-1"});
        for request in [look, send_request(), stream_request()] {
            let envelope = one_envelope(&fixture, request.to_string())?;
            prop_assert_eq!(&envelope["ok"], true, "{}", envelope);
            prop_assert!(schema.is_valid(&envelope), "{}", envelope);
            prop_assert!(is_0_3(&envelope["raw"]), "{}", envelope);
        }
        Ok::<(), TestCaseError>(())
    });
}

#[test]
fn any_invalid_reply_of_1_0_gives_one_envelope() {
    let runtime = Runtime::new().unwrap();
    let wrapped = (
        select(vec!["task", "message", "statusUpdate", "artifactUpdate"]),
        any_json(),
    )
        .prop_map(|(wrapper, inner)| json!({ (wrapper): inner }));
    check(60, prop_oneof![any_json(), wrapped], |answer| {
        let literal = answer.to_string().replace("{{", "{ {");
        let body = json!({"body": format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{literal}}}"), "headers": {"content-type": "application/json"}});
        let event = json!({"raw": format!("data: {{\"result\":{literal}}}\n\n")});
        let peers = runtime.block_on(peers(json!({"main": {"card": v1_card("JSONRPC"), "rpc": {
            "GetTask": body, "SendMessage": body, "SendStreamingMessage": {"sse": [event]},
        }}})));
        let fixture =
            ToolFixture::with_target(json!({"baseUrl": peers.origin("main"), "timeoutMs": 5000}));
        for request in [
            json!({"action": "status", "task_id": "t-1"}),
            send_request(),
            stream_request(),
        ] {
            one_envelope(&fixture, request.to_string())?;
        }
        Ok(())
    });
}
