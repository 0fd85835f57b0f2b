#![allow(clippy::unwrap_used)]
use base::jws::{KeySet, SigningKey};
use serde_json::{Value, json};

use super::*;

/// The vectors of the documentation, which Node.js made.
const VECTORS: &str = include_str!("../../../../docs/reference/a2a-v1-signatures.json");

fn key() -> (SigningKey, KeySet) {
    let key = SigningKey::parse(SigningKey::generate_pem().unwrap().as_bytes()).unwrap();
    let keys = KeySet::of_messages(&[key.public_key()]).unwrap();
    (key, keys)
}

fn envelope(json: &Value) -> Envelope {
    Envelope::from_value(json.clone()).unwrap()
}

fn message() -> Value {
    json!({
        "type": "message", "id": "msg-1", "from": "alpha", "agent": "beta", "timestamp": 1_711_843_200_000_u64,
        "content": {"role": "agent", "content": "hello"}, "metadata": {"priority": "high", "correlationId": "c"},
    })
}

fn signed(message: &Value, key: &SigningKey) -> Value {
    sign(envelope(message), key).unwrap().into_json()
}

fn status(message: &Value, keys: &KeySet) -> SignatureStatus {
    match verify(&envelope(message), Some(keys)) {
        Ok(()) => SignatureStatus::Verified,
        Err(error) => error.status,
    }
}

fn reason(message: &Value, keys: &KeySet) -> String {
    verify(&envelope(message), Some(keys)).unwrap_err().reason
}

/// Returns a message with a signature whose header and covered members the test chooses.
fn with_header(message: &Value, key: &SigningKey, header: &Value) -> Value {
    let names: Vec<String> = serde_json::from_value(header["signed"].clone()).unwrap_or_default();
    let payload = payload(&envelope(message), &names).unwrap_or_default();
    let parts = key.sign_detached(header, &payload).unwrap();
    let text = format!(
        "{}..{}",
        parts["protected"].as_str().unwrap(),
        parts["signature"].as_str().unwrap()
    );
    let mut message = message.clone();
    message["metadata"]["signature"] = text.into();
    message
}

#[test]
fn h_51_documented_vectors_verify_and_have_their_canonical_form() {
    let vectors: Vec<Value> = base::json::from_str(VECTORS, base::json::Limits::NONE).unwrap();
    assert_eq!(vectors.len(), 2);
    for vector in vectors {
        let keys = KeySet::of_messages(&[vector["publicKey"].clone()]).unwrap();
        assert_eq!(
            status(&vector["message"], &keys),
            SignatureStatus::Verified,
            "{}",
            vector["name"]
        );
        let names: Vec<String> =
            serde_json::from_value(vector["header"]["signed"].clone()).unwrap();
        let canonical = payload(&envelope(&vector["message"]), &names).unwrap();
        assert_eq!(
            String::from_utf8(canonical).unwrap(),
            vector["canonical"].as_str().unwrap()
        );
    }
}

#[test]
fn h_51_signature_covers_what_the_sender_sends_and_survives_additions() {
    let (key, keys) = key();
    let sent = signed(&message(), &key);
    assert_eq!(status(&sent, &keys), SignatureStatus::Verified);
    // What a gateway adds or replaces on the way.
    let mut delivered = sent.clone();
    delivered["sessionId"] = "sess-1".into();
    delivered["metadata"]["correlationId"] = "c~1".into();
    delivered["metadata"]["parentId"] = "msg-0".into();
    delivered["metadata"]["signatureStatus"] = "verified".into();
    assert_eq!(status(&delivered, &keys), SignatureStatus::Verified);
    for (place, value) in [
        ("/id", json!("msg-2")),
        ("/from", json!("gamma")),
        ("/agent", json!("gamma")),
        ("/timestamp", json!(1)),
        ("/type", json!("broadcast")),
        ("/content/content", json!("hello ")),
        ("/metadata/priority", json!("low")),
    ] {
        let mut changed = sent.clone();
        *changed.pointer_mut(place).unwrap() = value;
        assert_eq!(status(&changed, &keys), SignatureStatus::Invalid, "{place}");
    }
    for name in ["id", "from", "agent", "timestamp", "content"] {
        let mut reduced = sent.clone();
        reduced.as_object_mut().unwrap().remove(name);
        assert_eq!(status(&reduced, &keys), SignatureStatus::Invalid, "{name}");
    }
}

#[test]
fn h_52_other_keys_and_headers_do_not_count() {
    let ((key, keys), (other, _)) = (key(), key());
    let kid = key.public_key()["kid"].clone();
    assert_eq!(status(&message(), &keys), SignatureStatus::Unsigned);
    assert_eq!(
        status(&signed(&message(), &other), &keys),
        SignatureStatus::UnknownKey
    );
    assert!(verify(&envelope(&signed(&message(), &key)), None).is_err());
    let all = json!(["agent", "content", "from", "id", "timestamp", "type"]);
    let good = json!({"alg": "EdDSA", "kid": kid, "signed": all});
    assert_eq!(
        status(&with_header(&message(), &key, &good), &keys),
        SignatureStatus::Verified
    );
    for (name, value, expected) in [
        ("alg", json!("none"), "algorithm"),
        ("alg", json!("HS256"), "algorithm"),
        ("alg", json!("ES256"), "not one for ES256"),
        ("crit", json!(["b64"]), "critical"),
        ("b64", json!(false), "`b64`"),
        ("jku", json!("https://evil.example"), "`jku`"),
        ("signed", json!(null), "no list `signed`"),
        (
            "signed",
            json!(["content", "from", "id", "timestamp", "type"]),
            "`agent`",
        ),
        (
            "signed",
            json!(["agent", "content", "id", "timestamp", "type"]),
            "`from`",
        ),
        (
            "signed",
            json!([
                "agent",
                "content",
                "from",
                "id",
                "timestamp",
                "type",
                "metadata"
            ]),
            "as a whole",
        ),
        (
            "signed",
            json!(["agent", "content", "from", "id", "id", "timestamp", "type"]),
            "twice",
        ),
        (
            "signed",
            json!([
                "agent",
                "content",
                "from",
                "id",
                "metadata.correlationId",
                "timestamp",
                "type"
            ]),
            "changes",
        ),
        (
            "signed",
            json!([
                "agent",
                "content",
                "from",
                "id",
                "sessionId",
                "timestamp",
                "type"
            ]),
            "no `sessionId`",
        ),
    ] {
        let mut header = good.clone();
        header[name] = value;
        let error = reason(&with_header(&message(), &key, &header), &keys);
        assert!(error.contains(expected), "{header}: {error}");
    }
    // With the id of the right key, but by another one.
    assert!(reason(&with_header(&message(), &other, &good), &keys).contains("does not belong"));
    for text in [
        "",
        ".",
        "..",
        "a.b.c",
        "e30..",
        "no",
        &"x".repeat(MAX_SIGNATURE_BYTES + 1),
    ] {
        let mut message = message();
        message["metadata"]["signature"] = text.into();
        assert_eq!(status(&message, &keys), SignatureStatus::Invalid, "{text}");
    }
}

#[test]
fn h_51_canonical_form_is_that_of_ecmascript() {
    let content = |text: &str| -> String {
        let message = format!(r#"{{"type": "message", "content": {{"n": {text}}}}}"#);
        let envelope = Envelope::parse(&message).unwrap();
        match payload(&envelope, &["content".to_owned()]) {
            Ok(bytes) => String::from_utf8(bytes).unwrap()[16..]
                .trim_end_matches('}')
                .to_owned(),
            Err(error) => error,
        }
    };
    for (text, expected) in [
        ("-0", "0"),
        ("-0.0", "0"),
        ("1e21", "1e+21"),
        ("1E30", "1e+30"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
        ("333333333.33333329", "333333333.3333333"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("5e-324", "5e-324"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
        (
            r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#,
            "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"",
        ),
    ] {
        assert_eq!(content(text), expected, "{text}");
    }
    for text in [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740993",
        "1e20",
        "18446744073709551615",
    ] {
        assert!(content(text).contains("2^53"), "{text}: {}", content(text));
    }
}

#[test]
fn h_51_keys_are_sorted_by_code_units_of_utf_16() {
    let content = json!({"\u{ffff}": 1, "\u{1f600}": 2, "b": 3, "a": 4, "": 5, "\u{fb33}": 6});
    let envelope = Envelope::new(Kind::Message, content);
    let canonical = payload(&envelope, &["content".to_owned()]).unwrap();
    let expected =
        "{\"content\":{\"\":5,\"a\":4,\"b\":3,\"\u{1f600}\":2,\"\u{fb33}\":6,\"\u{ffff}\":1}}";
    assert_eq!(String::from_utf8(canonical).unwrap(), expected);
}

#[test]
fn h_51_signature_of_a_lone_surrogate_or_a_duplicate_does_not_hold() {
    let (key, keys) = key();
    let header = json!({"alg": "EdDSA", "kid": key.public_key()["kid"], "signed": ["content", "from", "id", "timestamp", "type"]});
    let frame = |content: &str, payload: &str| {
        let parts = key.sign_detached(&header, payload.as_bytes()).unwrap();
        let signature = format!(
            "{}..{}",
            parts["protected"].as_str().unwrap(),
            parts["signature"].as_str().unwrap()
        );
        let text = format!(
            r#"{{"type":"broadcast","id":"i","from":"alpha","timestamp":1,"content":{content},"metadata":{{"signature":"{signature}"}}}}"#
        );
        verify(&Envelope::parse(&text).unwrap(), Some(&keys))
    };
    let payload = |content: &str| {
        format!(
            r#"{{"content":{content},"from":"alpha","id":"i","timestamp":1,"type":"broadcast"}}"#
        )
    };
    let good = r#"{"message":"a"}"#;
    assert_eq!(frame(good, &payload(good)), Ok(()));
    // RFC 8785 §3.2.2.2 has no canonical form for it, and the parser replaces it.
    let lone = r#"{"message":"\ud800"}"#;
    assert!(frame(lone, &payload(lone)).is_err());
    // The last of two members counts, as in ECMAScript, and a gateway delivers only that.
    let twice = r#"{"message":"b","message":"a"}"#;
    assert_eq!(frame(twice, &payload(good)), Ok(()));
    assert!(frame(twice, &payload(r#"{"message":"b"}"#)).is_err());
}

#[test]
fn h_53_proposals_and_votes_are_signed_without_a_recipient() {
    let (key, keys) = key();
    for kind in ["proposal", "vote"] {
        let mut message = message();
        message["type"] = kind.into();
        let mut sent = signed(&message, &key);
        sent["agent"] = "charlie".into();
        assert_eq!(status(&sent, &keys), SignatureStatus::Verified, "{kind}");
    }
}

#[test]
fn message_without_id_sender_or_time_cannot_be_signed() {
    let (key, _) = key();
    for name in ["id", "from", "timestamp"] {
        let mut message = message();
        message.as_object_mut().unwrap().remove(name);
        let error = sign(envelope(&message), &key).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
    let mut message = message();
    message["metadata"]["x".repeat(4000)] = 1.into();
    assert!(
        sign(envelope(&message), &key)
            .unwrap_err()
            .contains("too many")
    );
}
