#![allow(clippy::unwrap_used)]

use super::*;

fn client(name: &str, token: &str) -> RegisteredClient {
    RegisteredClient {
        name: name.into(),
        proof: Proof::Token(TokenDigest::new(token)),
        operator: false,
    }
}

fn shows(values: &[&'static str]) -> HeaderMap {
    let values = values
        .iter()
        .map(|value| (AUTHORIZATION, value.parse().unwrap()));
    values.collect()
}

#[test]
fn token_identifies_its_client() {
    let clients = ClientRegistry::new(vec![client("ada", "secret-a"), client("bob", "secret-b")]);
    let name = |value| {
        clients
            .identify(&shows(&[value]), None)
            .map(|who| who.name.to_string())
    };
    assert_eq!(name("Bearer secret-a").as_deref(), Ok("ada"));
    assert_eq!(name("bearer secret-b").as_deref(), Ok("bob"));
}

#[test]
fn unknown_token_is_rejected_and_not_repeated() {
    let clients = ClientRegistry::new(vec![client("ada", "secret-a")]);
    for values in [
        &["Bearer secret-b"][..],
        &["Basic secret-a"],
        &["Bearer "],
        &["secret-a"],
        &["Bearer secret-a", "Bearer secret-a"],
        &[],
    ] {
        let error = clients.identify(&shows(values), None).unwrap_err();
        assert_eq!(error.reason, ErrorReason::Unauthenticated, "{values:?}");
        assert!(!format!("{error:?}").contains("secret-"));
    }
}

#[test]
fn empty_registry_still_requires_tokens() {
    let clients = ClientRegistry::new(vec![client("ada", "secret-a")]);
    clients.replace(Vec::new());
    assert!(
        clients
            .identify(&shows(&["Bearer secret-a"]), None)
            .is_err()
    );
    assert!(clients.identify(&HeaderMap::new(), None).is_err());
}

#[test]
fn replaced_token_is_revoked_and_kept_one_is_not() {
    let clients = ClientRegistry::new(vec![client("ada", "secret-a"), client("bob", "secret-b")]);
    let who = |value| clients.identify(&shows(&[value]), None).unwrap();
    let (ada, bob) = (who("Bearer secret-a"), who("Bearer secret-b"));
    clients.replace(vec![client("ada", "secret-c"), client("bob", "secret-b")]);
    assert!(ada.revoked.is_cancelled() && !bob.revoked.is_cancelled());
    let new = who("Bearer secret-c").revoked.clone();
    assert!(!new.is_cancelled());
    clients.replace(vec![client("eve", "secret-c")]);
    assert!(new.is_cancelled() && bob.revoked.is_cancelled());
}

#[test]
fn requests_of_an_operator_end_when_it_becomes_a_client() {
    let operator = |operator| RegisteredClient {
        operator,
        ..client("ada", "secret-a")
    };
    let clients = ClientRegistry::new(vec![operator(false)]);
    let who = || {
        clients
            .identify(&shows(&["Bearer secret-a"]), None)
            .unwrap()
    };
    let as_client = who();
    clients.replace(vec![operator(true)]);
    let as_operator = who();
    assert!(!as_client.revoked.is_cancelled() && as_operator.operator);
    clients.replace(vec![operator(false)]);
    assert!(as_operator.revoked.is_cancelled());
    assert!(!who().revoked.is_cancelled() && !who().operator);
}

#[test]
fn digest_round_trips_through_hex() {
    let digest = TokenDigest::new("secret-a");
    assert_eq!(TokenDigest::parse(&digest.hex()), Some(digest));
    assert_eq!(
        TokenDigest::parse(&digest.hex().to_uppercase()),
        Some(digest)
    );
    assert_eq!(TokenDigest::parse("00"), None);
    assert_eq!(TokenDigest::parse(&"g".repeat(64)), None);
    assert_eq!(
        TokenDigest::new("abc").hex(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn debug_output_redacts_digest() {
    let client = client("ada", "secret-a");
    let digest = TokenDigest::new("secret-a");
    assert!(!format!("{client:?}").contains(&digest.hex()[..8]));
}
