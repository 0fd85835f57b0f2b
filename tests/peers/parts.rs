//! Files and data, both ways. What a server itself loses on the way is part of the expectation.

use serde_json::{Value, json};

use super::{Binding, Peer, Sdk, refusal, task};

/// The agent tells what it got.
fn give(peer: &mut Peer, parts: &[Value]) -> Value {
    let mut all = vec![json!({"kind": "text", "text": "parts"})];
    all.extend_from_slice(parts);
    peer.plugin
        .call(&json!({"action": "send", "target_alias": "peer", "parts": all}))
        .0
}

fn seen(answer: &Value) -> Value {
    assert_eq!(task(answer)["status"], "completed", "{answer:#}");
    let text = answer["raw"]["artifacts"][0]["parts"][0]["text"]
        .as_str()
        .expect("what the agent saw");
    serde_json::from_str(text).expect("JSON")
}

pub(super) fn binary_file_and_data_reach_the_agent(mut peer: Peer) {
    let answer = give(
        &mut peer,
        &[
            json!({"kind": "file", "bytes": "AP9oZWxsbw==", "name": "a.bin", "mime_type": "application/octet-stream"}),
            json!({"kind": "file", "uri": "https://files.test/b.png", "name": "b.png", "mime_type": "image/png"}),
            json!({"kind": "data", "data": {"count": 2, "nested": {"list": ["x", null, true]}}}),
        ],
    );

    if (peer.sdk, peer.binding) == (Sdk::Py03, Binding::HttpJson) {
        // The server takes the decoded bytes for UTF-8 text and fails: HTTP 500 `{"message":"unknown exception"}`.
        assert!(
            refusal(&answer).to_string().contains("unknown exception"),
            "{answer:#}"
        );
        return;
    }
    assert_eq!(seen(&answer), as_kept(&peer, "AP9oZWxsbw=="));
}

pub(super) fn a_text_file_reaches_the_agent(mut peer: Peer) {
    let file = json!({"kind": "file", "bytes": "aGVsbG8gw6k=", "name": "a.txt", "mime_type": "text/plain"});
    let data = json!({"kind": "data", "data": {"count": 2}});
    let answer = give(&mut peer, &[file, data]);

    let mut kept = json!([
        {"kind": "file", "file": {"bytes": "aGVsbG8gw6k=", "name": "a.txt", "mimeType": "text/plain"}},
        {"kind": "data", "data": {"count": 2}},
    ]);
    match (peer.sdk, peer.binding) {
        (Sdk::Py03, Binding::HttpJson) => {
            // Not base64 any more, as the agent's own SDK says it should be; numbers become floats.
            kept[0]["file"]["bytes"] = json!("hello é");
            kept[1]["data"]["count"] = json!(2.0);
        }
        (Sdk::Js03, Binding::HttpJson) => forget_names(&mut kept),
        (_, Binding::JsonRpc) => {}
    }
    assert_eq!(seen(&answer), kept);
}

pub(super) fn file_and_data_come_back(mut peer: Peer) {
    let (answer, _) = peer.send("gift", json!({}));

    assert_eq!(task(&answer)["status"], "completed", "{answer:#}");
    let bytes = match (peer.sdk, peer.binding) {
        // base64 of `AP9oZWxsbw==`: the server encodes what is base64 already.
        (Sdk::Py03, Binding::HttpJson) => "QVA5b1pXeHNidz09",
        _ => "AP9oZWxsbw==",
    };
    let mut parts = as_kept(&peer, bytes);
    if (peer.sdk, peer.binding) == (Sdk::Py03, Binding::HttpJson) {
        parts[2]["data"]["count"] = json!(2.0);
    }
    assert_eq!(answer["raw"]["artifacts"][0]["parts"], parts, "{answer:#}");
    assert_eq!(
        answer["summary"]["artifacts"][0]["parts"], parts,
        "{answer:#}"
    );
}

/// A binary file, a file elsewhere and data, as a server keeps them.
fn as_kept(peer: &Peer, bytes: &str) -> Value {
    let mut parts = json!([
        {"kind": "file", "file": {"bytes": bytes, "name": "a.bin", "mimeType": "application/octet-stream"}},
        {"kind": "file", "file": {"uri": "https://files.test/b.png", "name": "b.png", "mimeType": "image/png"}},
        {"kind": "data", "data": {"count": 2, "nested": {"list": ["x", null, true]}}},
    ]);
    if (peer.sdk, peer.binding) == (Sdk::Js03, Binding::HttpJson) {
        forget_names(&mut parts);
    }
    parts
}

/// js03 drops file names over HTTP+JSON, in both directions.
fn forget_names(parts: &mut Value) {
    for part in parts.as_array_mut().expect("a list of parts") {
        if let Some(file) = part.get_mut("file").and_then(Value::as_object_mut) {
            file.remove("name");
        }
    }
}
