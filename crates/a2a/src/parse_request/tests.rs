//! Serializing 1.0 as 0.3 and parsing it again loses nothing that 0.3 can express.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use crate::v1_0::{Message, Part, PartContent, Role, TaskState};
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fields::Fields;
use super::{list, send};
use crate::v0_3::{WRAPPED, as_v0_3};
use crate::{Dialect, ErrorReason, V03Dialect as V0_3};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            hash_map(any::<String>(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn metadata() -> impl Strategy<Value = Option<HashMap<String, Value>>> {
    let key = any::<String>().prop_filter("the SDKs reserve the mark", |key| key != WRAPPED);
    option::of(hash_map(key, value(), 1..3))
}

fn name() -> impl Strategy<Value = Option<String>> {
    option::of(".{1,12}")
}

fn part() -> impl Strategy<Value = Part> {
    let text = any::<String>().prop_map(|text| (PartContent::Text(text), None, None));
    let raw = (vec(any::<u8>(), 0..40), name(), name())
        .prop_map(|(bytes, file, media)| (PartContent::Raw(bytes), file, media));
    let url = (".{1,20}", name(), name())
        .prop_map(|(url, file, media)| (PartContent::Url(url), file, media));
    let data = value().prop_map(|data| (PartContent::Data(data), None, None));
    (prop_oneof![text, raw, url, data], metadata()).prop_map(
        |((content, filename, media_type), metadata)| Part {
            content,
            filename,
            media_type,
            metadata,
        },
    )
}

prop_compose! {
    fn message()(
        message_id in ".{1,12}",
        context_id in name(),
        task_id in name(),
        user in any::<bool>(),
        parts in vec(part(), 1..5),
        metadata in metadata(),
        extensions in option::of(vec(any::<String>(), 1..3)),
        reference_task_ids in option::of(vec(any::<String>(), 1..3)),
    ) -> Message {
        Message {
            message_id,
            context_id,
            task_id,
            role: if user { Role::User } else { Role::Agent },
            parts,
            metadata,
            extensions,
            reference_task_ids,
        }
    }
}

fn read(dialect: Dialect, message: Value) -> Message {
    let mut params = Fields::new(json!({"message": message}), "").unwrap();
    send(dialect, &mut params).unwrap().message
}

proptest! {
    #[test]
    fn json_rpc_of_0_3_round_trips(message in message()) {
        let text = serde_json::to_vec(&as_v0_3(&message, V0_3::Rpc)).unwrap();
        let back = read(Dialect::V0_3(V0_3::Rpc), serde_json::from_slice(&text).unwrap());
        prop_assert_eq!(back, message);
    }

    #[test]
    fn http_json_of_0_3_loses_only_referenced_tasks(message in message()) {
        let text = serde_json::to_vec(&as_v0_3(&message, V0_3::Rest)).unwrap();
        let back = read(Dialect::V0_3(V0_3::Rest), serde_json::from_slice(&text).unwrap());
        prop_assert_eq!(back, Message { reference_task_ids: None, ..message });
    }

    #[test]
    fn reads_all_output_of_the_official_types(message in message()) {
        let back = read(Dialect::V1_0, serde_json::to_value(&message).unwrap());
        prop_assert_eq!(back, message);
    }

    /// Any input is parsed or rejected.
    #[test]
    fn reader_survives_any_input(message in value(), configuration in value(), dialect in 0..3) {
        let dialect = [Dialect::V1_0, Dialect::V0_3(V0_3::Rpc), Dialect::V0_3(V0_3::Rest)][dialect as usize];
        let params = json!({"message": message, "configuration": configuration});
        let mut params = Fields::new(params, "").unwrap();
        if let Err(error) = send(dialect, &mut params) {
            prop_assert!(error.field.is_some());
        }
    }
}

#[test]
fn role_part_and_state_are_read_in_every_spelling() {
    let part = json!({"text": "", "raw": "", "url": "", "data": {"a": 1}, "filename": ""});
    for role in ["USER", "User", "role_user"] {
        let message = json!({"messageId": "m", "role": role, "parts": [part]});
        let read = read(Dialect::V1_0, message);
        assert_eq!(read.role, Role::User, "{role}");
        assert_eq!(read.parts[0].content, PartContent::Data(json!({"a": 1})));
    }
    for (status, expected) in [
        (json!(3), TaskState::Completed),
        (json!("3"), TaskState::Completed),
        (json!("completed"), TaskState::Completed),
        (json!("input-required"), TaskState::InputRequired),
        (json!("TASK_STATE_CANCELLED"), TaskState::Canceled),
    ] {
        let mut params = Fields::new(json!({"status": status}), "").unwrap();
        let request = list(Dialect::V1_0, &mut params).unwrap();
        assert_eq!(request.status, Some(expected), "{status}");
    }
    for status in [json!("pondering"), json!(9), json!(true)] {
        let mut params = Fields::new(json!({"status": status}), "").unwrap();
        assert!(list(Dialect::V1_0, &mut params).is_err(), "{status}");
    }
}

const DIALECTS: [Dialect; 3] = [
    Dialect::V1_0,
    Dialect::V0_3(V0_3::Rpc),
    Dialect::V0_3(V0_3::Rest),
];

/// Returns a message with this part, under the name that parts have in the dialect.
fn message_with(dialect: Dialect, part: &Value) -> Value {
    let parts = match dialect {
        Dialect::V0_3(V0_3::Rest) => "content",
        _ => "parts",
    };
    json!({"messageId": "m", "role": "user", parts: [part]})
}

#[test]
fn part_kind_and_wrapper_are_read_as_in_an_answer() {
    let text = PartContent::Text("hi".into());
    let bytes = PartContent::Raw(b"hi".to_vec());
    let link = PartContent::Url("https://f/x".into());
    let data = PartContent::Data(json!({"a": 1}));
    for (part, expected) in [
        (json!({"text": "hi"}), &text),
        (json!({"kind": "text", "text": "hi"}), &text),
        (json!({"kind": "Text", "text": "hi"}), &text),
        (json!({"kind": "TEXT", "text": "hi"}), &text),
        (json!({"kind": "TextPart", "text": "hi"}), &text),
        (json!({"kind": "text_part", "text": "hi"}), &text),
        (json!({"kind": "", "text": "hi"}), &text),
        (json!({"type": "Text", "text": "hi"}), &text),
        (json!({"kind": "text", "content": "hi"}), &text),
        (json!({"root": {"kind": "text", "text": "hi"}}), &text),
        (json!({"root": {"root": {"text": "hi"}}}), &text),
        (json!({"root": {"text": "hi"}, "metadata": null}), &text),
        (json!({"textPart": {"text": "hi"}}), &text),
        (json!({"part": {"$case": "text", "value": "hi"}}), &text),
        (
            json!({"part": {"$case": "text", "value": "hi"}, "metadata": null}),
            &text,
        ),
        (json!({"content": {"$case": "text", "value": "hi"}}), &text),
        (
            json!({"kind": "FilePart", "file": {"bytes": "aGk="}}),
            &bytes,
        ),
        (json!({"kind": "File", "bytes": "aGk="}), &bytes),
        (json!({"filePart": {"file": {"uri": "https://f/x"}}}), &link),
        (
            json!({"part": {"$case": "file", "value": {"file": {"$case": "fileWithUri", "value": "https://f/x"}}}}),
            &link,
        ),
        (json!({"kind": "DATA", "data": {"a": 1}}), &data),
        (
            json!({"root": {"kind": "DataPart", "data": {"a": 1}}}),
            &data,
        ),
    ] {
        for dialect in DIALECTS {
            let message = read(dialect, message_with(dialect, &part));
            assert_eq!(message.parts[0].content, *expected, "{dialect:?}: {part}");
        }
    }
}

#[test]
fn file_with_members_in_the_part_keeps_its_name_and_type() {
    for part in [
        json!({"kind": "file", "bytes": "aGk=", "name": "f", "mimeType": "a/b"}),
        json!({"kind": "file", "bytes": "aGk=", "filename": "f", "mediaType": "a/b"}),
    ] {
        for dialect in DIALECTS {
            let message = read(dialect, message_with(dialect, &part));
            let found = &message.parts[0];
            assert_eq!(found.filename.as_deref(), Some("f"), "{part}");
            assert_eq!(found.media_type.as_deref(), Some("a/b"), "{part}");
        }
    }
}

#[test]
fn part_of_another_kind_is_not_supported() {
    for part in [
        json!({"kind": "video", "video": "x"}),
        json!({"kind": "video", "text": "caption"}),
        json!({"type": "image_url", "text": "caption"}),
        json!({"root": {"kind": "audio", "audio": "x"}}),
        json!({"part": {"$case": "audio", "value": "x"}}),
        json!({"videoPart": {"text": "x"}}),
        json!({"root": "hi"}),
        json!({}),
    ] {
        for dialect in DIALECTS {
            let message = message_with(dialect, &part);
            let mut params = Fields::new(json!({"message": message}), "").unwrap();
            let error = send(dialect, &mut params).unwrap_err();
            let reason = error.reason;
            assert_eq!(reason, ErrorReason::ContentTypeNotSupported, "{part}");
        }
    }
}

#[test]
fn flag_is_read_in_every_case() {
    for (text, flag) in [("true", true), ("True", true), ("FALSE", false)] {
        let mut fields = Fields::new(json!({"f": text}), String::new()).unwrap();
        assert_eq!(fields.flag("f").unwrap(), Some(flag), "{text}");
    }
    let mut fields = Fields::new(json!({"f": "yes"}), String::new()).unwrap();
    assert!(fields.flag("f").is_err());
}

#[test]
fn refused_time_has_an_example() {
    let mut fields = Fields::new(json!({"at": "yesterday"}), String::new()).unwrap();
    let message = fields.time("at").unwrap_err().text;
    assert!(
        message.ends_with("must be a time of RFC 3339, such as `2026-01-31T12:00:00Z`"),
        "{message}"
    );
}

#[test]
fn part_with_two_contents_is_refused() {
    let part = json!({"text": "a", "url": "https://f/x"});
    let message = json!({"messageId": "m", "role": "user", "parts": [part]});
    let mut params = Fields::new(json!({"message": message}), "").unwrap();
    assert!(send(Dialect::V1_0, &mut params).is_err());
}
