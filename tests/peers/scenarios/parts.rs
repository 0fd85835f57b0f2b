//! Files and data in both directions, with the losses of servers.

use serde_json::{Value, json};

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::sdk::Sdk;
use crate::servers::Vendor;

pub fn binary_file_and_data_reach_the_agent(mut peer: Peer) -> Run {
    let sent = [
        json!({"kind": "file", "bytes": "AP9oZWxsbw==", "name": "a.bin", "mime_type": "application/octet-stream"}),
        json!({"kind": "file", "uri": "https://files.test/b.png", "name": "b.png", "mime_type": "image/png"}),
        json!({"kind": "data", "data": {"count": 2, "nested": {"list": ["x", null, true]}}}),
    ];
    send_parts(&mut peer, &sent, parts())
}

pub fn text_file_reaches_the_agent(mut peer: Peer) -> Run {
    let sent = [
        json!({"kind": "file", "bytes": "aGVsbG8gw6k=", "name": "a.txt", "mime_type": "text/plain"}),
        json!({"kind": "data", "data": {"count": 2}}),
    ];
    let expected = json!([
        {"kind": "file", "file": {"bytes": "aGVsbG8gw6k=", "name": "a.txt", "mimeType": "text/plain"}},
        {"kind": "data", "data": {"count": 2}},
    ]);
    send_parts(&mut peer, &sent, expected)
}

/// Checks the agent's report about its input.
fn send_parts(peer: &mut Peer, parts: &[Value], mut expected: Value) -> Run {
    let mut all = vec![json!({"kind": "text", "text": "parts:"})];
    all.extend_from_slice(parts);
    let sending = json!({"action": "send", "target_alias": "peer", "parts": all});
    let (answer, _) = peer.plugin.call(&sending);

    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let text = answer["summary"]["message_text"]
        .as_str()
        .expect("what the agent saw");
    if peer.column.vendor == Vendor::OpenClaw {
        // The channel forwards data as text, and drops files.
        let data = parts.last().expect("data")["data"].to_string();
        assert!(text.contains(&data), "{answer:#}");
        assert!(
            !text.contains("a.bin") && !text.contains("a.txt"),
            "{answer:#}"
        );
        return Ok(Outcome::Deviates("data only"));
    }
    let seen: Value = serde_json::from_str(text).expect("JSON");
    if ![Sdk::Py03, Sdk::Js03].iter().any(|sdk| peer.is_sdk(*sdk)) {
        // These agents use 1.0 internally, for every version of the request.
        expected = expected.as_array().unwrap().iter().map(in_1_0).collect();
    }
    Ok(compare(&seen, &expected))
}

pub fn file_and_data_come_back(mut peer: Peer) -> Run {
    let (answer, _) = peer.send("gift", json!({}));

    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let got = &answer["raw"]["artifacts"][0]["parts"];
    assert_eq!(
        got, &answer["summary"]["artifacts"][0]["parts"],
        "{answer:#}"
    );
    Ok(compare(got, &parts()))
}

/// Returns a binary file, a file by URL, and data.
fn parts() -> Value {
    json!([
        {"kind": "file", "file": {"bytes": "AP9oZWxsbw==", "name": "a.bin", "mimeType": "application/octet-stream"}},
        {"kind": "file", "file": {"uri": "https://files.test/b.png", "name": "b.png", "mimeType": "image/png"}},
        {"kind": "data", "data": {"count": 2, "nested": {"list": ["x", null, true]}}},
    ])
}

/// Returns a part in the form of 1.0.
fn in_1_0(part: &Value) -> Value {
    let file = &part["file"];
    let mut written = json!({});
    for (field, value) in [
        ("raw", &file["bytes"]),
        ("url", &file["uri"]),
        ("filename", &file["name"]),
        ("mediaType", &file["mimeType"]),
        ("data", &part["data"]),
    ] {
        if !value.is_null() {
            written[field] = value.clone();
        }
    }
    written
}

/// Compares the parts with the expected ones, and returns the server's changes.
fn compare(seen: &Value, expected: &Value) -> Outcome {
    if same(seen, expected) {
        return Outcome::Green;
    }
    let mut relaxed = expected.clone();
    remove_names(&mut relaxed);
    if same(seen, &relaxed) {
        // js03 drops file names over HTTP+JSON, in both directions.
        return Outcome::Deviates("file names are lost");
    }
    let mut relaxed = expected.clone();
    for part in relaxed.as_array_mut().expect("a list of parts") {
        v0_3_form(part);
    }
    if same(seen, &relaxed) {
        // py03 over HTTP+JSON: its SDK decodes the base64 that its agent should receive, and encodes the base64 of the
        // agent once more.
        return Outcome::Deviates("bytes are recoded");
    }
    panic!("parts are {seen:#}, and {expected:#} is expected");
}

/// Compares JSON, with 2 equal to 2.0: ProtoJSON has only doubles.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

fn remove_names(parts: &mut Value) {
    for part in parts.as_array_mut().expect("a list of parts") {
        let part = part.as_object_mut().expect("a part");
        part.remove("filename");
        if let Some(file) = part.get_mut("file").and_then(Value::as_object_mut) {
            file.remove("name");
        }
    }
}

/// Returns the bytes of a file as py03 encodes them over HTTP+JSON.
fn v0_3_form(part: &mut Value) {
    let Some(bytes) = part.pointer_mut("/file/bytes") else {
        return;
    };
    match bytes.as_str() {
        Some("aGVsbG8gw6k=") => *bytes = json!("hello é"),
        Some("AP9oZWxsbw==") => *bytes = json!("QVA5b1pXeHNidz09"),
        _ => {}
    }
}
