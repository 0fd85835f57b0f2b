#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;
use egress::{AddressPolicy, BoxFuture, NetError, Response};
use peer::CardLocation;

/// Cards that the official Python SDK signed and serves, with its additions for A2A 0.3, and their keys.
const PYTHON: &str = include_str!("recorded/python_sdk_1_3_0.json");
/// A card that the official JavaScript SDK signed.
const JAVASCRIPT: &str = include_str!("recorded/js_sdk_1_3_0.json");

/// Answers every request with one body, and records the requests.
struct Answers {
    status: StatusCode,
    body: String,
    requests: Mutex<Vec<Request>>,
}

impl Answers {
    fn new(status: StatusCode, body: impl ToString) -> Self {
        Self {
            status,
            body: body.to_string(),
            requests: Mutex::default(),
        }
    }

    fn no_content() -> Self {
        Self::new(StatusCode::NOT_FOUND, "")
    }

    fn requested_urls(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|r| r.url.to_string()).collect()
    }
}

impl HttpClient for Answers {
    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        self.requests.lock().unwrap().push(request);
        let body = Bytes::from(self.body.clone());
        let response = Response {
            status: self.status,
            headers: HeaderMap::new(),
            body: Box::pin(futures_util::stream::iter([Ok(body)])),
        };
        Box::pin(std::future::ready(Ok(response)))
    }
}

fn config(card_keys: CardKeys) -> PeerConfig {
    PeerConfig {
        configured: true,
        card_keys: Some(card_keys),
        ..PeerConfig::new(
            Url::parse("https://agent.example/").unwrap(),
            CardLocation::Path("/card".into()),
        )
    }
}

fn jwks_config(jwks: &Value) -> PeerConfig {
    let keys = KeySet::parse(jwks.to_string().as_bytes()).unwrap();
    config(CardKeys::Configured(Arc::new(keys)))
}

/// A signer with a key of the tests.
struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn jwks(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]})
    }

    fn sign(&self, header: &Value, payload: &str) -> Value {
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let message = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes()));
        json!({"protected": protected, "signature": signature})
    }

    /// Returns the card with a signature over `payload`.
    fn signed(&self, mut card: Value, header: &Value, payload: &str) -> Value {
        card["signatures"] = json!([self.sign(header, payload)]);
        card
    }
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "k", "typ": "JOSE"})
}

/// The signed form of A2A 1.0 §8.4.1: a required field stays even if it is empty, an optional one only if it was set.
const PAYLOAD: &str = r#"{"capabilities":{"streaming":false},"defaultInputModes":[],"description":"","name":"Desk","skills":[],"supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"https://agent.example/rpc"}],"version":"1"}"#;

fn card() -> Value {
    json!({
        "name": "Desk", "description": "", "version": "1", "skills": [], "defaultInputModes": [],
        "capabilities": {"streaming": false, "extensions": []}, "securitySchemes": {},
        "supportedInterfaces": [{"url": "https://agent.example/rpc", "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0", "tenant": ""}],
    })
}

async fn check(config: &PeerConfig, card: &Value) -> Result<Value, PeerError> {
    let verified = verify(&Answers::no_content(), config, card.clone()).await;
    verified.map(|verified| verified.json)
}

async fn verify_error(config: &PeerConfig, card: &Value) -> String {
    let error = check(config, card).await.unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::CardSignature, "{error}");
    error.message
}

#[tokio::test]
async fn cards_of_the_official_sdks_verify_with_every_algorithm() {
    for recorded in [PYTHON, JAVASCRIPT] {
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        let config = jwks_config(&recorded["jwks"]);
        for (algorithm, card) in recorded["cards"].as_object().unwrap() {
            let used = check(&config, card).await;
            assert_eq!(used.expect(algorithm)["name"], "Übersetzer", "{algorithm}");
        }
    }
}

/// Returns the signers of a card, with the form that they signed.
async fn signers(config: &PeerConfig, net: &Answers, card: &Value) -> Vec<(String, String)> {
    let verified = verify(net, config, card.clone()).await.unwrap();
    let bytes = serde_jcs::to_vec(&verified.json).unwrap();
    let forms = canonical_cards(card).unwrap();
    let form = forms.iter().find(|form| form.bytes == bytes).unwrap().name;
    let signers = verified.signers.into_iter();
    signers
        .map(|signer| (signer.alg, form.to_owned()))
        .collect()
}

/// Who signs which form, in which version of A2A, with which key.
#[tokio::test]
async fn signature_matrix() {
    let mut matrix = Vec::new();
    let mut add = |signer: &str, version: &str, key: &str, found: Vec<(String, String)>| {
        for (alg, form) in found {
            matrix.push(format!("{signer} | {version} | {key} | {alg} | {form}"));
        }
    };
    for (sdk, recorded) in [("Python 1.3.0", PYTHON), ("JavaScript 1.3.0", JAVASCRIPT)] {
        let recorded: Value = serde_json::from_str(recorded).unwrap();
        let config = jwks_config(&recorded["jwks"]);
        for card in recorded["cards"].as_object().unwrap().values() {
            let found = signers(&config, &Answers::no_content(), card).await;
            add(sdk, "1.0", "jwksFile", found);
        }
    }
    let signer = Signer::new();
    let forms_0_3 =
        json!({"url": "https://agent.example/", "name": "Desk", "description": "", "x": [1]});
    for (version, card) in [("1.0", card()), ("0.3", forms_0_3)] {
        for form in canonical_cards(&card).unwrap() {
            // A card of 0.3 has no member that 1.0 requires.
            if version == "0.3" && !form.name.starts_with("unchanged") {
                continue;
            }
            let payload = String::from_utf8(form.bytes).unwrap();
            for (key, url) in [
                ("jwksFile", None),
                ("jku", Some("https://agent.example/jwks.json")),
            ] {
                let mut header = header();
                if let Some(url) = url {
                    header["jku"] = json!(url);
                }
                let signed = signer.signed(card.clone(), &header, &payload);
                let net = Answers::new(StatusCode::OK, signer.jwks());
                let config = match url {
                    None => jwks_config(&signer.jwks()),
                    Some(_) => config(CardKeys::OfOwnOrigin),
                };
                let found = signers(&config, &net, &signed).await;
                assert_eq!(found, [("EdDSA".to_owned(), form.name.to_owned())]);
                add("any", version, key, found);
            }
        }
    }
    let expected = [
        "Python 1.3.0 | 1.0 | jwksFile | ES256 | §8.4.1 without empties",
        "Python 1.3.0 | 1.0 | jwksFile | EdDSA | §8.4.1 without empties",
        "Python 1.3.0 | 1.0 | jwksFile | RS256 | §8.4.1 without empties",
        "JavaScript 1.3.0 | 1.0 | jwksFile | ES256 | §8.4.1 without empties and security schemes",
        "any | 1.0 | jwksFile | EdDSA | unchanged",
        "any | 1.0 | jku | EdDSA | unchanged",
        "any | 1.0 | jwksFile | EdDSA | §8.4.1",
        "any | 1.0 | jku | EdDSA | §8.4.1",
        "any | 1.0 | jwksFile | EdDSA | §8.4.1 without empties",
        "any | 1.0 | jku | EdDSA | §8.4.1 without empties",
        "any | 0.3 | jwksFile | EdDSA | unchanged",
        "any | 0.3 | jku | EdDSA | unchanged",
        "any | 0.3 | jwksFile | EdDSA | unchanged without empties",
        "any | 0.3 | jku | EdDSA | unchanged without empties",
    ];
    assert_eq!(matrix, expected);
}

#[tokio::test]
async fn all_keys_of_one_form_are_signers() {
    let (pinned, newer) = (Signer::new(), Signer::new());
    let mut keys = pinned.jwks()["keys"].as_array().unwrap().clone();
    keys.extend(newer.jwks()["keys"].as_array().unwrap().clone());
    let config = jwks_config(&json!({ "keys": keys }));
    let thumbprints = async |signatures: Value| {
        let mut card = card();
        card["signatures"] = signatures;
        let verified = verify(&Answers::no_content(), &config, card).await.unwrap();
        let signers = verified.signers.into_iter();
        signers
            .filter_map(|signer| signer.thumbprint)
            .collect::<Vec<_>>()
    };
    let [old, new] = [&pinned, &newer].map(|signer| signer.sign(&header(), PAYLOAD));
    let both = thumbprints(json!([old, new])).await;
    assert_eq!(both.len(), 2);
    assert_ne!(both[0], both[1]);
    // A signer that adds fields to a card of another does not sign beside them.
    let whole = String::from_utf8(canonical_cards(&card()).unwrap().swap_remove(0).bytes).unwrap();
    let of_all = newer.sign(&header(), &whole);
    assert_eq!(thumbprints(json!([of_all, old])).await, both[1..]);
    assert_eq!(thumbprints(json!([old, of_all])).await, both[..1]);
}

#[tokio::test]
async fn signers_of_a_card_that_needs_no_signature_are_claims() {
    let signer = Signer::new();
    let mut config = jwks_config(&signer.jwks());
    config.card_keys = None;
    let mut signed = signer.signed(card(), &header(), "another content");
    signed["signatures"].as_array_mut().unwrap().push(json!({}));
    let verified = verify(&Answers::no_content(), &config, signed)
        .await
        .unwrap();
    let claims: Vec<_> = verified
        .signers
        .iter()
        .map(|one| (&*one.alg, &*one.kid))
        .collect();
    assert_eq!(claims, [("EdDSA", "k"), ("", "")]);
    assert!(
        verified
            .signers
            .iter()
            .all(|signer| signer.thumbprint.is_none())
    );
}

#[tokio::test]
async fn id_of_a_key_repeats_no_credential() {
    let signer = Signer::new();
    let mut config = jwks_config(&signer.jwks());
    config.card_keys = None;
    config.headers = vec![("x-key".parse().unwrap(), "s3cret-value".parse().unwrap())];
    let header = json!({"alg": "EdDSA", "kid": "id s3cret-value"});
    let signed = signer.signed(card(), &header, PAYLOAD);
    let verified = verify(&Answers::no_content(), &config, signed)
        .await
        .unwrap();
    let card = verified.read(&PeerSecrets::new(&config)).unwrap();
    assert_eq!(card.fields.signers[0].kid, "id [redacted]");
}

#[tokio::test]
async fn uncovered_fields_are_dropped() {
    let recorded: Value = serde_json::from_str(PYTHON).unwrap();
    let config = jwks_config(&recorded["jwks"]);
    let mut card = recorded["cards"]["ES256"].clone();
    assert!(
        card["url"].is_string(),
        "the card has the fields of 0.3 too"
    );
    card["url"] = json!("https://evil.example/");
    card["capabilities"]["newer"] = json!(true);
    let used = check(&config, &card).await.unwrap();
    assert_eq!(
        (&used["url"], &used["capabilities"]["newer"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        used["supportedInterfaces"][0]["url"],
        "https://agent.example/rpc"
    );
}

#[tokio::test]
async fn changed_card_is_rejected() {
    let recorded: Value = serde_json::from_str(PYTHON).unwrap();
    let config = jwks_config(&recorded["jwks"]);
    for algorithm in ["ES256", "RS256", "EdDSA"] {
        let mut card = recorded["cards"][algorithm].clone();
        card["supportedInterfaces"][0]["url"] = json!("https://evil.example/");
        let message = verify_error(&config, &card).await;
        assert!(
            message.contains("does not belong to this content"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn form_of_the_specification_verifies() {
    let signer = Signer::new();
    let signed = signer.signed(card(), &header(), PAYLOAD);
    let used = check(&jwks_config(&signer.jwks()), &signed).await.unwrap();
    assert_eq!(used, serde_json::from_str::<Value>(PAYLOAD).unwrap());
}

#[tokio::test]
async fn card_of_0_3_is_signed_unchanged() {
    let signer = Signer::new();
    let card = json!({"url": "https://agent.example/", "name": "Desk", "description": ""});
    let payload = r#"{"description":"","name":"Desk","url":"https://agent.example/"}"#;
    let signed = signer.signed(card.clone(), &header(), payload);
    assert_eq!(
        check(&jwks_config(&signer.jwks()), &signed).await.unwrap(),
        card
    );
}

#[tokio::test]
async fn one_valid_signature_suffices() {
    let (signer, other) = (Signer::new(), Signer::new());
    let mut signed = signer.signed(card(), &header(), PAYLOAD);
    let good = signed["signatures"][0].take();
    signed["signatures"] = json!([null, other.sign(&header(), PAYLOAD), good]);
    check(&jwks_config(&signer.jwks()), &signed).await.unwrap();
}

#[tokio::test]
async fn unsigned_card_is_rejected() {
    let config = jwks_config(&Signer::new().jwks());
    for signatures in [json!(null), json!([]), json!("x")] {
        let mut card = card();
        card["signatures"] = signatures;
        let message = verify_error(&config, &card).await;
        assert!(message.contains("is not signed"), "{message}");
    }
}

#[tokio::test]
async fn card_needs_no_signature_by_default() {
    let mut config = jwks_config(&Signer::new().jwks());
    config.card_keys = None;
    assert_eq!(check(&config, &card()).await.unwrap(), card());
}

#[tokio::test]
async fn invalid_signatures_are_listed_with_reasons() {
    let signer = Signer::new();
    let config = jwks_config(&signer.jwks());
    let with = |key: &str, value: Value| {
        let mut header = header();
        header[key] = value;
        signer.sign(&header, PAYLOAD)
    };
    let text = |name: &str, value: &str| {
        let mut signature = signer.sign(&header(), PAYLOAD);
        signature[name] = json!(value);
        signature
    };
    for (signature, reason) in [
        (with("alg", json!("none")), "none of ES256, RS256 and EdDSA"),
        (
            with("alg", json!("HS256")),
            "none of ES256, RS256 and EdDSA",
        ),
        (with("alg", json!("ES256")), "not one for ES256"),
        (with("kid", json!(null)), "names no key"),
        (with("kid", json!("other\u{7}")), "not in the key set"),
        (with("crit", json!(["b64"])), "critical"),
        (text("protected", "***"), "base64url"),
        (text("protected", "W10"), "not a JSON object"),
        (text("signature", "AAAA"), "does not belong"),
        (json!({"protected": "e30"}), "no text `signature`"),
        (signer.sign(&header(), "{}"), "does not belong"),
    ] {
        let mut card = card();
        card["signatures"] = json!([signature]);
        let message = verify_error(&config, &card).await;
        assert!(
            message.contains(reason) && message.contains("signature 1"),
            "{message}"
        );
        assert!(!message.contains('\u{7}'), "{message}");
    }
}

#[tokio::test]
async fn key_is_fetched_without_credential() {
    let signer = Signer::new();
    let mut header = header();
    header["jku"] = json!("https://agent.example/jwks.json");
    let signed = signer.signed(card(), &header, PAYLOAD);
    let net = Answers::new(StatusCode::OK, signer.jwks());
    let mut config = config(CardKeys::OfOwnOrigin);
    config.headers = vec![("x-key".parse().unwrap(), "s3cret".parse().unwrap())];
    verify(&net, &config, signed).await.unwrap();
    assert_eq!(net.requested_urls(), ["https://agent.example/jwks.json"]);
    let requests = net.requests.lock().unwrap();
    assert_eq!(requests[0].access, AddressPolicy::Public);
    assert!(!requests[0].headers.contains_key("x-key"));
}

#[tokio::test]
async fn key_on_other_origin_is_not_fetched() {
    let signer = Signer::new();
    for url in [
        "http://agent.example/jwks.json",
        "https://evil.example/jwks.json",
        "https://agent.example:8443/jwks.json",
        "https://agent.example@evil.example/jwks.json",
        "http://127.0.0.1/jwks.json",
        "file:///etc/passwd",
        "jwks.json",
    ] {
        let mut header = header();
        header["jku"] = json!(url);
        let signed = signer.signed(card(), &header, PAYLOAD);
        let net = Answers::new(StatusCode::OK, signer.jwks());
        let error = verify(&net, &config(CardKeys::OfOwnOrigin), signed).await;
        assert_eq!(
            error.unwrap_err().kind,
            PeerErrorKind::CardSignature,
            "{url}"
        );
        assert!(net.requested_urls().is_empty(), "{url}");
    }
}

#[tokio::test]
async fn keys_of_operator_exclude_others() {
    let (signer, other) = (Signer::new(), Signer::new());
    let mut header = header();
    header["jku"] = json!("https://agent.example/jwks.json");
    let signed = signer.signed(card(), &header, PAYLOAD);
    let net = Answers::new(StatusCode::OK, signer.jwks());
    let error = verify(&net, &jwks_config(&other.jwks()), signed).await;
    assert_eq!(error.unwrap_err().kind, PeerErrorKind::CardSignature);
    assert!(net.requested_urls().is_empty());
}

#[tokio::test]
async fn fetched_key_sets_are_bounded() {
    let signer = Signer::new();
    let mut card = card();
    let signatures = (0..20).map(|i| {
        let mut header = header();
        header["jku"] = json!(format!("https://agent.example/{i}"));
        signer.sign(&header, PAYLOAD)
    });
    card["signatures"] = signatures.collect();
    let net = Answers::no_content();
    let error = verify(&net, &config(CardKeys::OfOwnOrigin), card).await;
    let message = error.unwrap_err().message;
    assert!(message.contains("12 more were not verified"), "{message}");
    assert_eq!(net.requested_urls().len(), MAX_KEY_SETS);
}

#[tokio::test]
async fn card_of_the_settings_is_checked_and_not_fetched() {
    let net = Answers::no_content();
    let discovered = async |card: Value, card_keys: Option<CardKeys>| {
        let config = PeerConfig {
            card: CardLocation::Given(Arc::new(card)),
            card_keys,
            ..config(CardKeys::OfOwnOrigin)
        };
        crate::discover::discover(&net, &config, None, 1 << 20).await
    };
    let recorded: Value = serde_json::from_str(PYTHON).unwrap();
    let keys = jwks_config(&recorded["jwks"]).card_keys;
    let signed = recorded["cards"]["ES256"].clone();
    discovered(signed, keys.clone()).await.unwrap();
    let unsigned = json!({"name": "Desk", "url": "https://agent.example/rpc", "supportsAuthenticatedExtendedCard": true});
    let error = discovered(unsigned.clone(), keys).await.unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::CardSignature);
    match discovered(unsigned, None).await.unwrap() {
        peer::Discovered::Card { card, .. } => assert!(!card.has_extended_card),
        peer::Discovered::Unchanged { .. } => panic!("a card"),
    }
    let error = discovered(json!({"name": "Desk"}), None).await.unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::CardMalformed);
    assert!(error.message.contains("in the settings"), "{error}");
    assert!(net.requested_urls().is_empty());
}
