#![allow(clippy::unwrap_used)]

mod permissions;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::config::ServerConfig;
use collective::ErrorCode;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// The current time, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn sha256(bytes: &[u8]) -> String {
    let bytes = digest(&SHA256, bytes);
    bytes
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

fn load(json: &Value) -> Keyring {
    Keyring::load(&ServerConfig::parse(&json.to_string()).unwrap()).unwrap()
}

/// A temporary key file, removed on drop.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new(content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
        fs::write(&path, content).unwrap();
        Self(path)
    }

    /// Returns a gateway configuration that accepts tokens with this algorithm.
    fn gateway(&self, alg: &str) -> Value {
        let key = if alg == "HS256" {
            "keyFile"
        } else {
            "jwksFile"
        };
        json!({"auth": {"jwt": {"alg": alg, key: self.0, "issuer": "me", "audience": "gateway"}}})
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn hs256(claims: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    token(&json!({"alg": "HS256"}), claims, |signed| {
        hmac::sign(&key, signed).as_ref().to_vec()
    })
}

fn claims() -> Value {
    json!({"sub": "alice", "iss": "me", "aud": ["other", "gateway"], "exp": NOW + 60, "roles": "reader writer",
        "agent": "alpha"})
}

/// Returns the claims with one changed value. Null removes the claim.
fn claims_with(claim: &str, value: Value) -> Value {
    let mut all = claims();
    all[claim] = value;
    all.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    all
}

fn alice() -> Identity {
    Identity {
        name: "alice".into(),
        roles: vec!["reader".into(), "writer".into()],
        agent: Some("alpha".into()),
        kind: IdentityKind::Token,
    }
}

#[track_caller]
fn assert_alice(keyring: &Keyring, credential: &str) {
    let known = keyring.authenticate(credential, now()).unwrap();
    assert_eq!(known.identity, alice());
}

/// Returns a client without an agent.
fn identity(name: &str, roles: &[&str]) -> Identity {
    Identity {
        name: name.into(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        agent: None,
        kind: IdentityKind::Key,
    }
}

fn auth_error(keyring: &Keyring, credential: &str) -> (ErrorCode, String) {
    let denied = keyring.authenticate(credential, now()).unwrap_err();
    (denied.code, denied.message)
}

#[test]
fn authentication_is_required_only_if_configured() {
    let open = load(&json!({}));
    assert!(!open.is_required());
    let anonymous = open.anonymous().unwrap();
    open.authorize(&anonymous, Some("alpha"), Operation::Send("beta"))
        .unwrap();
    open.authorize(&anonymous, None, Operation::Serve("beta"))
        .unwrap();
    let closed = load(&json!({"auth": {"keys": [{"name": "k", "sha256": sha256(b"x")}]}}));
    assert!(closed.is_required());
    assert_eq!(
        closed.anonymous().unwrap_err().code,
        ErrorCode::AuthRequired
    );
}

#[test]
fn api_key_is_matched_by_its_digest() {
    let keyring = load(&json!({
        "roles": {"r": {}},
        "auth": {"keys": [
            {"name": "other", "sha256": sha256(b"other")},
            {"name": "steward", "sha256": sha256(b"key-1").to_lowercase(), "roles": ["r"], "agent": "steward"},
        ]},
    }));
    let known = keyring.authenticate("key-1", now()).unwrap().identity;
    let steward = Identity {
        name: "steward".into(),
        roles: vec!["r".into()],
        agent: Some("steward".into()),
        kind: IdentityKind::Key,
    };
    assert_eq!(known, steward);
    for invalid in ["key-2", "", "key-1 ", &sha256(b"key-1"), "a.b.c"] {
        let (code, message) = auth_error(&keyring, invalid);
        assert_eq!(code, ErrorCode::AuthFailed, "{invalid}");
        assert!(
            invalid.is_empty() || !message.contains(invalid),
            "{message}"
        );
    }
}

#[test]
fn expired_api_key_is_5003() {
    let end = humantime::format_rfc3339(now()).to_string();
    let keyring =
        load(&json!({"auth": {"keys": [{"name": "k", "sha256": sha256(b"x"), "expiresAt": end}]}}));
    keyring
        .authenticate("x", now() - Duration::from_secs(1))
        .unwrap();
    assert_eq!(auth_error(&keyring, "x").0, ErrorCode::TokenExpired);
}

#[test]
fn certificate_is_matched_by_its_fingerprint() {
    let digits = sha256(b"der");
    let pairs: Vec<_> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap())
        .collect();
    let keyring = load(&json!({
        "tls": {"certFile": "c", "keyFile": "k", "clientCaFile": "ca"},
        "auth": {"certificates": [{"name": "beta", "sha256": pairs.join(":"), "agent": "beta"}]},
    }));
    assert_eq!(
        keyring.certificate(b"der").unwrap().agent.as_deref(),
        Some("beta")
    );
    assert_eq!(keyring.certificate(b"other"), None);
    // A certificate is not an API key.
    assert_eq!(auth_error(&keyring, "der").0, ErrorCode::AuthFailed);
}

#[test]
fn credentials_of_two_kinds_never_share() {
    let file = KeyFile::new(SECRET);
    let mut config = file.gateway("HS256");
    let keys = ["alice", "local:alpha"]
        .map(|name| json!({"name": name, "sha256": sha256(name.as_bytes())}));
    config["auth"]["keys"] = json!(keys);
    config["auth"]["certificates"] = json!([{"name": "alice", "sha256": sha256(b"der")}]);
    config["tls"] = json!({"certFile": "c", "keyFile": "k", "clientCaFile": "ca"});
    let keyring = load(&config);
    let of = |credential: &str| keyring.authenticate(credential, now()).unwrap().identity;
    let local = Identity {
        kind: IdentityKind::Local,
        ..identity("alpha", &[])
    };
    let all = [
        of("alice"),
        of("local:alpha"),
        of(&hs256(&claims())),
        of(&hs256(&claims_with("sub", json!("local:alpha")))),
        of(&hs256(&claims_with("sub", json!("key:alice")))),
        keyring.certificate(b"der").unwrap(),
        local,
    ];
    let keys: std::collections::HashSet<_> = all.iter().map(Identity::share_key).collect();
    assert_eq!(keys.len(), all.len(), "{keys:?}");
}

#[test]
fn token_names_its_bearer() {
    let file = KeyFile::new(&[SECRET, b"\n"].concat());
    let keyring = load(&file.gateway("HS256"));
    assert_alice(&keyring, &hs256(&claims()));
    let listed = claims_with("roles", json!(["reader", 7, "writer"]));
    assert_alice(&keyring, &hs256(&listed));
    let bare = json!({"sub": "bob", "iss": "me", "aud": "gateway", "exp": NOW as f64 + 0.5});
    let bob = json!({"exp": NOW + 1, "sub": "bob", "iss": "me", "aud": "gateway"});
    let bob = keyring.authenticate(&hs256(&bob), now()).unwrap();
    let expected = Identity {
        kind: IdentityKind::Token,
        ..identity("bob", &[])
    };
    assert_eq!(bob.identity, expected);
    keyring.authenticate(&hs256(&bare), now()).unwrap();
}

#[test]
fn every_algorithm_verifies_with_its_key() {
    let random = SystemRandom::new();
    let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let p256 =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random).unwrap();
    let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let ed = Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap();
    let (x, y) = p256.public_key().as_ref()[1..].split_at(32);
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let keys = json!({"keys": [
        {"kid": "p", "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y)},
        {"kid": "e", "kty": "OKP", "crv": "Ed25519", "x": text(ed.public_key().as_ref())},
    ]});
    let file = KeyFile::new(keys.to_string().as_bytes());
    let es256 = token(&json!({"alg": "ES256", "kid": "p"}), &claims(), |signed| {
        p256.sign(&random, signed).unwrap().as_ref().to_vec()
    });
    let eddsa = token(&json!({"alg": "EdDSA", "kid": "e"}), &claims(), |signed| {
        ed.sign(signed).as_ref().to_vec()
    });
    let (for_es256, for_eddsa) = (load(&file.gateway("ES256")), load(&file.gateway("EdDSA")));
    assert_alice(&for_es256, &es256);
    assert_alice(&for_eddsa, &eddsa);
    // The configuration determines the algorithm, not the token.
    assert_eq!(auth_error(&for_es256, &eddsa).0, ErrorCode::AuthFailed);
    assert_eq!(auth_error(&for_eddsa, &es256).0, ErrorCode::AuthFailed);
    assert_eq!(
        auth_error(&load(&file.gateway("RS256")), &es256).0,
        ErrorCode::AuthFailed
    );
}

#[test]
fn rsa_token_is_accepted() {
    // A 2048-bit key, its key set, and a token that openssl signed with it.
    let made: Value = serde_json::from_str(include_str!("rs256.json")).unwrap();
    let file = KeyFile::new(made["jwks"].to_string().as_bytes());
    let keyring = load(&file.gateway("RS256"));
    let signed = made["token"].as_str().unwrap();
    assert_alice(&keyring, signed);
    let forged = signed.replacen('.', ".A", 1);
    assert_eq!(auth_error(&keyring, &forged).0, ErrorCode::AuthFailed);
}

#[test]
fn invalid_token_is_5002_with_reason() {
    let file = KeyFile::new(SECRET);
    let keyring = load(&file.gateway("HS256"));
    let good = hs256(&claims());
    let (signed, _) = good.rsplit_once('.').unwrap();
    let unsigned = |alg: &str| token(&json!({"alg": alg}), &claims(), |_| Vec::new());
    let other = hmac::Key::new(hmac::HMAC_SHA256, b"another key of thirty-two bytes!");
    let forged = token(&json!({"alg": "HS256"}), &claims(), |signed| {
        hmac::sign(&other, signed).as_ref().to_vec()
    });
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let critical = token(
        &json!({"alg": "HS256", "crit": ["x"], "x": 1}),
        &claims(),
        |signed| hmac::sign(&key, signed).as_ref().to_vec(),
    );
    for (token, expected) in [
        (unsigned("none"), "HS256"),
        (unsigned("None"), "HS256"),
        (unsigned("RS256"), "HS256"),
        (format!("{signed}."), "signature"),
        (forged, "signature"),
        (critical, "critical"),
        (format!("{signed}.!"), "base64url"),
        ("..".into(), "header"),
        (hs256(&json!([])), "object"),
        (hs256(&claims_with("iss", json!("you"))), "iss"),
        (hs256(&claims_with("iss", Value::Null)), "iss"),
        (hs256(&claims_with("aud", json!("other"))), "aud"),
        (hs256(&claims_with("aud", Value::Null)), "aud"),
        (hs256(&claims_with("exp", Value::Null)), "exp"),
        (hs256(&claims_with("exp", json!("tomorrow"))), "exp"),
        (hs256(&claims_with("exp", json!(-1e300))), "exp"),
        (hs256(&claims_with("nbf", json!(NOW + 1))), "nbf"),
        (hs256(&claims_with("sub", Value::Null)), "sub"),
    ] {
        let (code, message) = auth_error(&keyring, &token);
        assert_eq!(code, ErrorCode::AuthFailed, "{expected}: {message}");
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(
            !message.contains(&token) && !message.contains("alice"),
            "{message}"
        );
    }
}

#[test]
fn expired_token_is_5003() {
    let file = KeyFile::new(SECRET);
    let keyring = load(&file.gateway("HS256"));
    let token = |end: u64| hs256(&claims_with("exp", json!(end)));
    keyring.authenticate(&token(NOW + 1), now()).unwrap();
    assert_eq!(auth_error(&keyring, &token(NOW)).0, ErrorCode::TokenExpired);
    let mut lenient = file.gateway("HS256");
    lenient["auth"]["jwt"]["leewayMs"] = json!(2000);
    let lenient = load(&lenient);
    lenient.authenticate(&token(NOW - 1), now()).unwrap();
    lenient
        .authenticate(&hs256(&claims_with("nbf", json!(NOW + 2))), now())
        .unwrap();
    assert_eq!(
        auth_error(&lenient, &token(NOW - 2)).0,
        ErrorCode::TokenExpired
    );
}

#[test]
fn unusable_key_file_is_named() {
    let invalid = |json: &Value| {
        let config = ServerConfig::parse(&json.to_string()).unwrap();
        Keyring::load(&config).map(drop).unwrap_err()
    };
    let short = KeyFile::new(b"secret");
    let error = invalid(&short.gateway("HS256"));
    assert_eq!(error.path, "/auth/jwt/keyFile");
    assert!(
        error.message.contains("32 bytes") && !error.message.contains("secret"),
        "{error}"
    );
    let error = invalid(&short.gateway("ES256"));
    assert_eq!(error.path, "/auth/jwt/jwksFile");
    let missing = json!({"auth": {"jwt": {"alg": "HS256", "keyFile": "/nowhere/key"}}});
    assert!(invalid(&missing).message.contains("/nowhere/key"));
}
