#![allow(clippy::unwrap_used)]
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::*;

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
}

fn written(key: &EcdsaKeyPair) -> Value {
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let [x, y] = [x, y].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y})
}

fn set(key: &Value) -> Result<KeySet, String> {
    KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes())
}

fn sign(key: &EcdsaKeyPair, payload: &str) -> Signature {
    let protected = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","kid":"k"}"#);
    let message = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Signature::read(&json!({"protected": protected, "signature": signature})).unwrap()
}

#[test]
fn signature_is_valid_only_for_its_content_and_key() {
    let (mine, other) = (key(), key());
    let signature = sign(&mine, "content");
    let keys = set(&written(&mine)).unwrap();
    signature.verify(&keys, b"content").unwrap();
    signature.verify(&keys, b"contents").unwrap_err();
    let others = set(&written(&other)).unwrap();
    signature.verify(&others, b"content").unwrap_err();
}

/// The examples of RFC 7638 §3.1 and RFC 8037 appendix A.3, and a key of the tests against the rule of RFC 7638 §3.2.
#[test]
fn thumbprint_is_that_of_the_rfc() {
    let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    for (key, thumbprint) in [
        (
            json!({"kty": "RSA", "n": n, "e": "AQAB", "kid": "k"}),
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
        ),
        (
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
        ),
    ] {
        let key = set(&key).unwrap();
        assert_eq!(key.keys().next().unwrap().thumbprint(), thumbprint);
    }
    let mine = key();
    let whole = written(&mine);
    let members = format!(
        r#"{{"crv":"P-256","kty":"EC","x":{},"y":{}}}"#,
        whole["x"], whole["y"]
    );
    let hash = ring::digest::digest(&ring::digest::SHA256, members.as_bytes());
    let signature = sign(&mine, "content");
    let keys = set(&whole).unwrap();
    let used = signature.verify(&keys, b"content").unwrap();
    assert_eq!(used.thumbprint(), URL_SAFE_NO_PAD.encode(hash));
}

#[test]
fn unusable_keys_are_skipped() {
    let good = written(&key());
    for (field, value) in [
        ("use", json!("enc")),
        ("alg", json!("ES384")),
        ("alg", json!("RS256")),
        ("crv", json!("P-384")),
        ("kty", json!("oct")),
        ("kid", json!(null)),
        ("x", json!("AAAA")),
        ("y", json!(7)),
    ] {
        let mut key = good.clone();
        key[field] = value;
        assert!(set(&key).is_err(), "{key}");
        let both = json!({"keys": [key, good]}).to_string();
        KeySet::parse(both.as_bytes()).unwrap();
    }
}

#[test]
fn refuses_invalid_key_set() {
    for text in ["", "[]", "{}", r#"{"keys": {}}"#, r#"{"keys": []}"#] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn debug_of_key_set_shows_key_ids() {
    assert_eq!(format!("{:?}", set(&written(&key())).unwrap()), r#"["k"]"#);
}

#[test]
fn key_set_may_begin_with_a_byte_order_mark() {
    let keys = json!({ "keys": [written(&key())] });
    KeySet::parse(format!("\u{feff}{keys}").as_bytes()).unwrap();
    let error = KeySet::parse(b"<html>").unwrap_err();
    assert!(error.contains("line 1, column 1"), "{error}");
}
