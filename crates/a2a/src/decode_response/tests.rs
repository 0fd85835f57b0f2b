//! Both versions and their bindings, and what servers mix.

#![allow(clippy::panic)]

use serde_json::{Value, json};

use super::{Reader, read};
use crate::{Dialect, Event, Reply, TaskState, V03Dialect};

const RPC: Reader = Reader(Dialect::V0_3(V03Dialect::Rpc));
const REST: Reader = Reader(Dialect::V0_3(V03Dialect::Rest));
const V1_0: Reader = Reader(Dialect::V1_0);

fn part_1_0(part: Value) -> Value {
    match part {
        Value::Object(part) => read(part, Dialect::V1_0),
        other => other,
    }
}

#[test]
fn task_is_read_in_camel_and_snake_case() {
    let expected = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": {"state": "canceled", "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "why"}]}},
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "file", "file": {"bytes": "aGk=", "mimeType": "x/y"}}, {"kind": "data", "data": {"k": 1}}]}]
    });
    let camel = json!({
        "id": "t", "contextId": "c",
        "status": {"state": "TASK_STATE_CANCELLED", "message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "why"}]}},
        "artifacts": [{"artifactId": "a", "parts": [{"file": {"fileWithBytes": "aGk=", "mimeType": "x/y"}}, {"data": {"data": {"k": 1}}}]}]
    });
    let snake = json!({
        "id": "t", "context_id": "c",
        "status": {"state": "TASK_STATE_CANCELLED", "update": {"message_id": "m", "role": "ROLE_AGENT", "content": [{"text": "why"}]}},
        "artifacts": [{"artifact_id": "a", "parts": [{"file": {"file_with_bytes": "aGk=", "mime_type": "x/y"}}, {"data": {"data": {"k": 1}}}]}]
    });
    assert_eq!(REST.task(camel), expected);
    assert_eq!(REST.task(snake), expected);
    let wrapped = REST.reply(json!({"task": expected.clone()}), None);
    assert_eq!(wrapped, Ok(expected));
}

#[test]
fn flags_that_are_absent_are_false() {
    let update = REST.reply(
        json!({"statusUpdate": {"taskId": "t", "contextId": "", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}),
        None,
    );
    assert_eq!(
        update,
        Ok(
            json!({"kind": "status-update", "taskId": "t", "final": false, "status": {"state": "input-required"}})
        )
    );
    assert_eq!(REST.reply(json!({}), None), Err(json!({})));
    assert_eq!(REST.reply(json!([]), None), Err(json!([])));
}

#[test]
fn task_has_the_names_of_0_3() {
    let task = json!({
        "id": "t", "contextId": "c", "weather": "fine",
        "status": {
            "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-01-01T00:00:00Z",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which?", "mood": "kind"}]}
        },
        "artifacts": [{"artifactId": "a", "name": "", "parts": [{"raw": "aGk=", "mediaType": "x/y", "filename": "f"}]}],
        "history": [{"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "hi", "filename": "", "mediaType": ""}], "taskId": ""}],
        "metadata": {"k": 1}
    });
    assert_eq!(
        V1_0.task(task),
        json!({
            "kind": "task", "id": "t", "contextId": "c", "weather": "fine",
            "status": {
                "state": "input-required", "timestamp": "2026-01-01T00:00:00Z",
                "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "which?", "mood": "kind"}]}
            },
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "file", "file": {"bytes": "aGk=", "mimeType": "x/y", "name": "f"}}]}],
            "history": [{"kind": "message", "messageId": "q", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}],
            "metadata": {"k": 1}
        })
    );
}

#[test]
fn every_state_is_translated() {
    for (name, expected) in [
        ("TASK_STATE_UNSPECIFIED", "unknown"),
        ("", "unknown"),
        ("TASK_STATE_SUBMITTED", "submitted"),
        ("TASK_STATE_WORKING", "working"),
        ("TASK_STATE_COMPLETED", "completed"),
        ("TASK_STATE_FAILED", "failed"),
        ("TASK_STATE_CANCELED", "canceled"),
        ("TASK_STATE_INPUT_REQUIRED", "input-required"),
        ("TASK_STATE_REJECTED", "rejected"),
        ("TASK_STATE_AUTH_REQUIRED", "auth-required"),
        ("TASK_STATE_PAUSED", "paused"),
    ] {
        let task = V1_0.task(json!({"id": "t", "status": {"state": name}}));
        assert_eq!(task["status"]["state"], expected, "{name}");
    }
    for status in [json!({}), json!({"state": null})] {
        let task = V1_0.task(json!({"id": "t", "status": status}));
        assert_eq!(task["status"]["state"], "unknown");
    }
}

#[test]
fn update_that_ends_a_stream_is_final() {
    for (name, last) in [
        ("TASK_STATE_WORKING", false),
        ("TASK_STATE_UNSPECIFIED", false),
        ("TASK_STATE_COMPLETED", true),
        ("TASK_STATE_INPUT_REQUIRED", true),
    ] {
        let update =
            json!({"statusUpdate": {"taskId": "t", "contextId": "", "status": {"state": name}}});
        let read = V1_0.reply(update, None).unwrap_or_default();
        assert_eq!(read["final"], last, "{name}");
        assert_eq!(read["kind"], "status-update");
        assert!(read.get("contextId").is_none());
    }
}

#[test]
fn artifact_update_has_its_flags_by_value() {
    for (append, flag) in [
        (json!(true), json!(true)),
        (json!("true"), json!(true)),
        (json!("True"), json!(true)),
        (json!("1"), json!(true)),
        (json!("FALSE"), json!(false)),
        (json!(1), json!(true)),
        (json!(0), json!(false)),
        (json!(2), json!(2)),
        (json!("yes"), json!("yes")),
        (json!(["true"]), json!(["true"])),
        (json!(null), json!(null)),
    ] {
        let update = json!({"artifactUpdate": {"taskId": "t", "append": append, "artifact": {"artifactId": "a", "parts": null}}});
        assert_eq!(
            V1_0.reply(update, None),
            Ok(json!({
                "kind": "artifact-update", "taskId": "t", "append": flag, "lastChunk": false,
                "artifact": {"artifactId": "a", "parts": []}
            }))
        );
    }
}

#[test]
fn answer_without_wrapper_follows_from_its_fields() {
    let kind = |bare: Value| V1_0.reply(bare, None).unwrap_or_default()["kind"].clone();
    assert_eq!(kind(json!({"id": "t", "status": {}})), "task");
    assert_eq!(kind(json!({"taskId": "t", "status": {}})), "status-update");
    assert_eq!(
        kind(json!({"taskId": "t", "artifact": {}})),
        "artifact-update"
    );
    assert_eq!(kind(json!({"messageId": "m", "parts": []})), "message");
    assert_eq!(
        V1_0.reply(json!({"weather": 1}), None),
        Err(json!({"weather": 1}))
    );
    assert_eq!(V1_0.reply(json!([]), None), Err(json!([])));
}

#[test]
fn data_that_is_no_object_is_wrapped_in_one() {
    let object = part_1_0(json!({"data": {"a": 1}, "mediaType": "application/json"}));
    assert_eq!(
        object,
        json!({"kind": "data", "data": {"a": 1}, "mediaType": "application/json"})
    );
    for data in [json!([1, 2]), json!("x"), json!(7), json!(false)] {
        let read = part_1_0(json!({ "data": data }));
        assert_eq!(read, json!({"kind": "data", "data": {"value": data}}));
    }
}

#[test]
fn bytes_become_standard_base64() {
    for (sent, expected) in [
        ("-_-_", "+/+/"),
        ("aGk", "aGk="),
        ("aA", "aA=="),
        ("aGk=", "aGk="),
        ("no?", "no?"),
    ] {
        let read = part_1_0(json!({ "raw": sent }));
        assert_eq!(read["file"]["bytes"], expected, "{sent}");
    }
}

const ALL: [Reader; 3] = [RPC, REST, V1_0];

#[test]
fn state_is_read_by_value_in_every_dialect() {
    for (sent, expected) in [
        (json!("TASK_STATE_COMPLETED"), TaskState::Completed),
        (json!("COMPLETED"), TaskState::Completed),
        (json!("Completed"), TaskState::Completed),
        (json!(3), TaskState::Completed),
        (json!(3.0), TaskState::Completed),
        (json!("3"), TaskState::Completed),
        (json!("STATE_COMPLETED"), TaskState::Completed),
        (json!("TaskState.completed"), TaskState::Completed),
        (
            json!("lf.a2a.v1.TaskState.TASK_STATE_INPUT_REQUIRED"),
            TaskState::InputRequired,
        ),
        (json!("TaskState::Failed"), TaskState::Failed),
        (json!(42), TaskState::Other("42".into())),
        (json!("cancelled"), TaskState::Canceled),
        (json!("TASK_STATE_CANCELLED"), TaskState::Canceled),
        (json!("INPUT_REQUIRED"), TaskState::InputRequired),
        (json!("input_required"), TaskState::InputRequired),
        (json!("inputRequired"), TaskState::InputRequired),
        (json!(8), TaskState::AuthRequired),
        (json!("UNKNOWN"), TaskState::Other("unknown".into())),
        (json!("paused"), TaskState::Other("paused".into())),
        (
            json!("x".repeat(500)),
            TaskState::Other("x".repeat(64).into()),
        ),
    ] {
        for reader in ALL {
            for task in [
                json!({"kind": "task", "id": "t", "status": {"state": sent}}),
                json!({"id": "t", "status": {"state": sent}}),
                json!({"task": {"id": "t", "status": {"state": sent}}}),
            ] {
                let Ok(Reply::Task(read)) = reader.0.read_reply(task.clone()) else {
                    panic!("{task}");
                };
                assert_eq!(read.state(), expected, "{task}");
                assert_eq!(read.json()["kind"], "task");
                let read = reader.0.read_task(task).map(|task| task.state());
                assert_eq!(read, Ok(expected.clone()));
            }
            for event in [
                json!({"kind": "status-update", "taskId": "t", "status": {"state": sent}}),
                json!({"statusUpdate": {"taskId": "t", "status": {"state": sent}}}),
                json!({"status_update": {"task_id": "t", "status": {"state": sent}}}),
                json!({"payload": {"$case": "statusUpdate", "value": {"taskId": "t", "status": {"state": sent}}}}),
            ] {
                let Ok(Some(Event::Status(read))) = reader.0.read_event(event.clone()) else {
                    panic!("{event}");
                };
                assert_eq!(read.state(), expected, "{event}");
                assert_eq!(read.task_id(), Some("t"), "{event}");
            }
        }
    }
}

#[test]
fn part_has_its_kind_in_every_dialect() {
    let text = json!({"kind": "text", "text": "hi"});
    let link = json!({"kind": "file", "file": {"uri": "https://f/x", "mimeType": "a/b"}});
    let bytes = json!({"kind": "file", "file": {"bytes": "aGk=", "name": "f"}});
    let data = json!({"kind": "data", "data": {"a": 1}});
    let typed_link = json!({"type": "file", "file": {"uri": "https://f/x", "mimeType": "a/b"}});
    let flat_link = json!({"kind": "file", "url": "https://f/x", "media_type": "a/b"});
    let proto_link = json!({"file": {"file_with_uri": "https://f/x", "mime_type": "a/b"}});
    let proto_bytes = json!({"file": {"fileWithBytes": "aGk=", "name": "f"}});
    for (sent, expected) in [
        (json!({"text": "hi"}), &text),
        (json!({"type": "text", "text": "hi"}), &text),
        (json!({"kind": "TEXT", "text": "hi"}), &text),
        (json!({"root": {"kind": "text", "text": "hi"}}), &text),
        (json!({"content": {"$case": "text", "value": "hi"}}), &text),
        (json!({"url": "https://f/x", "mediaType": "a/b"}), &link),
        (typed_link, &link),
        (flat_link, &link),
        (proto_link, &link),
        (json!({"raw": "aGk", "filename": "f"}), &bytes),
        (proto_bytes, &bytes),
        (json!({"data": {"a": 1}}), &data),
        (json!({"type": "data", "data": {"a": 1}}), &data),
        (json!({"kind": "text", "content": "hi"}), &text),
        (json!({"kind": "", "text": "hi"}), &text),
        (json!({"kind": "string", "text": "hi"}), &text),
        (json!({"textPart": {"text": "hi"}}), &text),
        (json!({"textPart": {"text": "hi"}, "filePart": null}), &text),
        (json!({"part": {"$case": "text", "value": "hi"}}), &text),
        (json!({"root": {"kind": "TextPart", "text": "hi"}}), &text),
        (
            json!({"part": {"$case": "file", "value": {"file": {"$case": "fileWithBytes", "value": "aGk="}, "name": "f"}}}),
            &bytes,
        ),
        (
            json!({"kind": "file", "bytes": "aGk=", "name": "f"}),
            &bytes,
        ),
        (json!({"filePart": {"bytes": "aGk=", "name": "f"}}), &bytes),
        (
            json!({"kind": "file", "file": {"bytes": "aG\r\nk=", "name": "f"}}),
            &bytes,
        ),
        (
            json!({"file": {"uri": "data:;base64,aGk=", "name": "f"}}),
            &bytes,
        ),
    ] {
        for reader in ALL {
            let message = reader.message(json!({"parts": [sent]}));
            assert_eq!(&message["parts"][0], expected, "{sent}");
            let artifact = reader.artifact(json!({"artifactId": "a", "parts": [sent]}));
            assert_eq!(&artifact["parts"][0], expected, "{sent}");
        }
    }
}

#[test]
fn text_in_the_place_of_parts_is_read_everywhere() {
    let parts = json!([{"kind": "text", "text": "hi"}]);
    for reader in ALL {
        for message in [
            json!({"kind": "message", "content": "hi"}),
            json!({"kind": "message", "text": "hi"}),
            json!({"kind": "message", "text": "hi", "parts": []}),
            json!({"kind": "message", "message": {"parts": [{"text": "hi"}]}}),
        ] {
            let read = reader.reply(message.clone(), None).unwrap_or_default();
            assert_eq!(read["parts"], parts, "{message}");
        }
        let task = json!({
            "kind": "task", "id": "t", "status": {"state": "working", "message": "hi"},
            "artifacts": [{"content": "hi"}, {"text": "hi"}], "history": [{"role": "agent", "content": "hi"}]
        });
        let read = reader.task(task);
        for place in [
            "/status/message/parts",
            "/artifacts/0/parts",
            "/artifacts/1/parts",
            "/history/0/parts",
        ] {
            assert_eq!(read.pointer(place), Some(&parts), "{place}");
        }
    }
}

#[test]
fn data_url_has_bytes_and_media_type() {
    for (url, file) in [
        (
            "data:a/b;base64,aGk",
            json!({"bytes": "aGk=", "mimeType": "a/b"}),
        ),
        (
            "DATA:a/b;charset=x;base64,aGk=",
            json!({"bytes": "aGk=", "mimeType": "a/b"}),
        ),
        ("data:a/b,hi", json!({"uri": "data:a/b,hi"})),
        ("https://f/;base64,x", json!({"uri": "https://f/;base64,x"})),
    ] {
        let read = part_1_0(json!({ "url": url }));
        assert_eq!(read["file"], file, "{url}");
    }
}

#[test]
fn role_is_read_by_value_in_every_dialect() {
    for (sent, expected) in [
        (json!("ROLE_AGENT"), json!("agent")),
        (json!("AGENT"), json!("agent")),
        (json!("assistant"), json!("agent")),
        (json!(2), json!("agent")),
        (json!("ROLE_USER"), json!("user")),
        (json!("moderator"), json!("moderator")),
    ] {
        for reader in ALL {
            let message = reader.message(json!({"role": sent, "parts": []}));
            assert_eq!(message["role"], expected, "{sent}");
        }
    }
}

#[test]
fn canonical_values_of_0_3_stay_unchanged() {
    for value in [
        json!({"kind": "task", "id": "t", "status": {"state": "working"}, "artifacts": [{"artifactId": "a", "name": "", "parts": [{"kind": "data", "data": [1]}]}]}),
        json!({"kind": "status-update", "taskId": "t", "status": {"state": "working", "message": {"kind": "message", "role": "agent"}}}),
        json!({"kind": "artifact-update", "taskId": "t", "artifact": {"parts": [{"kind": "image", "text": 7}]}}),
    ] {
        assert_eq!(RPC.reply(value.clone(), None), Ok(value));
    }
}

#[test]
fn value_that_is_no_event_is_none() {
    for value in [
        json!(null),
        json!({}),
        json!([]),
        json!("ping"),
        json!({"type": "heartbeat"}),
    ] {
        for reader in ALL {
            assert_eq!(reader.0.read_event(value.clone()), Ok(None), "{value}");
        }
    }
}

/// A value of each kind with its 0.3 name, and the members that wrap it.
fn values() -> [(Value, &'static str, &'static [&'static str]); 4] {
    let task = json!({"id": "t", "status": {"state": "completed"}});
    let message = json!({"taskId": "t", "messageId": "m", "parts": [{"text": "hi"}]});
    let status = json!({"taskId": "t", "status": {"state": "completed"}});
    let artifact = json!({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}});
    [
        (task, "task", &["task"]),
        (message, "message", &["message", "msg"]),
        (status, "status-update", &["statusUpdate", "status_update"]),
        (
            artifact,
            "artifact-update",
            &["artifactUpdate", "artifact_update"],
        ),
    ]
}

/// Returns the kind and the task of an event, as every dialect reads it.
fn kind_and_task(event: &Value) -> [Option<(String, Option<String>)>; 3] {
    ALL.map(|reader| {
        let read = reader.0.read_event(event.clone()).ok()??;
        let kind = read.json()["kind"].as_str().unwrap_or_default();
        Some((kind.to_owned(), read.task_id().map(str::to_owned)))
    })
}

#[test]
fn wrapper_decides_the_kind_of_what_it_wraps() {
    for (value, kind, wrappers) in values() {
        for named in [
            json!(kind),
            json!(kind.to_uppercase()),
            json!("TaskStatusUpdateEvent"),
            json!("TaskArtifactUpdateEvent"),
            json!("Task"),
            json!("foo"),
            json!(""),
            json!(null),
            json!(7),
        ] {
            let mut value = value.clone();
            value["kind"] = named;
            let mut events: Vec<_> = wrappers.iter().map(|key| json!({ *key: value })).collect();
            events.push(json!({"payload": {"$case": wrappers[0], "value": value}}));
            for event in events {
                let expected = Some((kind.to_owned(), Some("t".to_owned())));
                assert_eq!(
                    kind_and_task(&event),
                    [(); 3].map(|()| expected.clone()),
                    "{event}"
                );
            }
        }
    }
}

#[test]
fn bare_kind_is_read_by_value() {
    for (value, kind, _) in values() {
        for named in [
            kind.to_owned(),
            kind.to_uppercase(),
            kind.replace('-', "_"),
            kind.replace("-u", "U"),
            String::new(),
        ] {
            let mut event = value.clone();
            event["kind"] = json!(named);
            let expected = Some((kind.to_owned(), Some("t".to_owned())));
            assert_eq!(
                kind_and_task(&event),
                [(); 3].map(|()| expected.clone()),
                "{event}"
            );
        }
    }
    for (name, kind) in [
        ("TaskStatusUpdateEvent", "status-update"),
        ("task-status-update", "status-update"),
        ("TaskArtifactUpdateEvent", "artifact-update"),
        ("task-artifact-update", "artifact-update"),
    ] {
        let event = json!({
            "kind": name, "taskId": "t", "status": {"state": "working"},
            "artifact": {"artifactId": "a", "parts": []},
        });
        let expected = Some((kind.to_owned(), Some("t".to_owned())));
        assert_eq!(
            kind_and_task(&event),
            [(); 3].map(|()| expected.clone()),
            "{event}"
        );
    }
}

#[test]
fn bare_event_of_an_unknown_kind_names_its_task() {
    let event = json!({"kind": "foo", "taskId": "t", "status": {"state": "completed"}});
    for reader in ALL {
        let read = reader.0.read_event(event.clone());
        let Ok(Some(Event::Unknown(_))) = &read else {
            panic!("{read:?}");
        };
        assert_eq!(
            kind_and_task(&event)[0],
            Some(("foo".into(), Some("t".into())))
        );
    }
}

#[test]
fn every_path_reads_the_same_tasks() {
    let task = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    let with_kind = |kind: &str| {
        let mut task = task.clone();
        task["kind"] = json!(kind);
        task
    };
    for answer in [
        task.clone(),
        with_kind("task"),
        with_kind("TASK"),
        with_kind("Task"),
        with_kind(""),
        json!({"task": task}),
        json!({"task": with_kind("TASK")}),
        json!({"task": with_kind("foo")}),
        json!({"kind": "task", "task": task}),
        json!({"payload": {"$case": "task", "value": task}}),
        json!({"payload": {"$case": "task", "value": with_kind("Task")}}),
    ] {
        for reader in ALL {
            let dialect = reader.0;
            let found = dialect.read_task(answer.clone());
            let Ok(found) = found else {
                panic!("{answer}: {found:?}");
            };
            assert_eq!(found.state(), TaskState::Completed, "{answer}");
            assert_eq!(found.json()["kind"], "task", "{answer}");
            assert_eq!(
                dialect.read_reply(answer.clone()),
                Ok(Reply::Task(found.clone()))
            );
            let event = dialect.read_event(answer.clone());
            assert_eq!(event, Ok(Some(Event::Task(found))), "{answer}");
        }
    }
}

#[test]
fn query_refuses_what_is_no_task() {
    let status = json!({"state": "working"});
    for (answer, pointer) in [
        (json!(null), ""),
        (json!({"id": "t"}), "/status"),
        (json!({"kind": "foo", "id": "t", "status": status}), "/kind"),
        (json!({"kind": "message", "parts": []}), "/kind"),
        (json!({"message": {"parts": []}}), "/kind"),
        (
            json!({"statusUpdate": {"taskId": "t", "status": status}}),
            "/kind",
        ),
    ] {
        for reader in ALL {
            let error = reader.0.read_task(answer.clone()).err();
            let found = error.map(|error| error.pointer);
            assert_eq!(found.as_deref(), Some(pointer), "{answer}");
        }
    }
}

#[test]
fn extra_member_of_a_bare_task_is_no_wrapper() {
    let extras = json!({"id": "t", "status": {"state": "working"}, "message": {"parts": []}, "task": {"id": "u"}});
    for reader in ALL {
        let task = reader.0.read_task(extras.clone());
        assert_eq!(
            task.map(|task| task.id().map(str::to_owned)),
            Ok(Some("t".into()))
        );
        assert_eq!(
            kind_and_task(&extras)[0],
            Some(("task".into(), Some("t".into())))
        );
    }
}
