#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use serde_json::{Value, json};

fn catalog(config: Value) -> Catalog {
    Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap()
}

fn two_on_one_url() -> Catalog {
    catalog(json!({"targets": [
        {"alias": "a", "baseUrl": "https://x.example/"},
        {"alias": "b", "baseUrl": "https://x.example", "cardPath": "/b.json"},
    ]}))
}

const RPC: &[Transport] = &[Transport::JsonRpc, Transport::HttpJson];

#[test]
fn a_url_means_its_target_whatever_its_spelling() {
    let catalog =
        catalog(json!({"targets": [{"alias": "a", "baseUrl": "https://X.example:443/base"}]}));
    for url in [
        "https://x.example/base",
        "https://x.example/base/",
        "HTTPS://x.example:443/base",
    ] {
        assert_eq!(
            catalog.by_url(url).unwrap().alias.as_deref(),
            Some("a"),
            "{url}"
        );
    }
    assert_eq!(
        catalog.by_url("https://x.example/").unwrap_err(),
        Refused::NotConfigured
    );
}

#[test]
fn urls_are_compared_letter_by_letter_on_request() {
    let catalog = catalog(
        json!({"targets": [{"alias": "a", "baseUrl": "https://x.example"}], "policy": {"normalizeBaseUrl": false}}),
    );
    assert!(catalog.by_url("https://x.example").is_ok());
    assert_eq!(
        catalog.by_url("https://x.example/").unwrap_err(),
        Refused::NotConfigured
    );
}

#[test]
fn among_several_at_one_url_the_alias_decides_then_the_card_path() {
    let catalog = two_on_one_url();
    let alias = |card_path, alias| {
        catalog
            .by_continuation("https://x.example/", card_path, RPC, alias)
            .map(|target| target.alias.clone().unwrap())
    };
    assert_eq!(alias("/elsewhere.json", Some("a")), Ok("a".into()));
    assert_eq!(alias("/b.json", None), Ok("b".into()));
    assert_eq!(alias("/b.json", Some("gone")), Ok("b".into()));
    assert_eq!(
        alias("/elsewhere.json", None),
        Err(Refused::Ambiguous(vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        catalog.by_url("https://x.example/").unwrap_err(),
        Refused::Ambiguous(vec!["a".into(), "b".into()])
    );
}

#[test]
fn a_continuation_cannot_lead_to_a_card_elsewhere() {
    let catalog = catalog(json!({"targets": [{"alias": "a", "baseUrl": "https://x.example"}]}));
    let refused = |card_path| {
        catalog
            .by_continuation("https://x.example/", card_path, RPC, None)
            .unwrap_err()
    };
    assert_eq!(refused("http://169.254.169.254/meta"), Refused::BadCardPath);
    assert_eq!(refused("//evil.example/card"), Refused::BadCardPath);
    assert_eq!(refused("/other.json"), Refused::NotConfigured);
}

#[test]
fn a_url_named_by_a_request_gets_no_credential() {
    let catalog = catalog(json!({
        "defaults": {"serviceParameters": {"x-key": "secret"}},
        "targets": [{"alias": "a", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": "secret"}}],
        "policy": {"allowTargetUrlOverride": true}
    }));
    let target = catalog.by_url("https://y.example/").unwrap();
    assert!(target.reach.credential.is_none() && target.reach.headers.is_empty());
    assert!(!target.reach.allow_private);
}

#[test]
fn cards_are_told_apart_by_credential() {
    let catalog = catalog(json!({"targets": [
        {"alias": "a", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": "one"}},
        {"alias": "b", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": "two"}},
    ]}));
    let [a, b] = catalog.targets() else {
        panic!("two targets")
    };
    assert_ne!(a.key, b.key);
}

#[test]
fn a_secret_the_host_did_not_resolve_is_known_by_its_reference() {
    let catalog = catalog(json!({"targets": [
        {"alias": "a", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": {"source": "env", "provider": "default", "id": "TOKEN"}}},
    ]}));
    assert_eq!(
        catalog.targets()[0].unresolved.as_deref(),
        Some("env:TOKEN")
    );
}
