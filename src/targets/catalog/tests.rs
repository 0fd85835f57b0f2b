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
fn normalized_url_finds_its_target() {
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
        TargetError::NotConfigured
    );
}

#[test]
fn normalization_can_be_disabled() {
    let catalog = catalog(
        json!({"targets": [{"alias": "a", "baseUrl": "https://x.example"}], "policy": {"normalizeBaseUrl": false}}),
    );
    assert!(catalog.by_url("https://x.example").is_ok());
    assert_eq!(
        catalog.by_url("https://x.example/").unwrap_err(),
        TargetError::NotConfigured
    );
}

#[test]
fn alias_then_card_path_select_a_target() {
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
        Err(TargetError::Ambiguous(vec!["a".into(), "b".into()]))
    );
    assert_eq!(
        catalog.by_url("https://x.example/").unwrap_err(),
        TargetError::Ambiguous(vec!["a".into(), "b".into()])
    );
}

#[test]
fn continuation_with_foreign_card_url_is_refused() {
    let catalog = catalog(json!({"targets": [{"alias": "a", "baseUrl": "https://x.example"}]}));
    let refused = |card_path| {
        catalog
            .by_continuation("https://x.example/", card_path, RPC, None)
            .unwrap_err()
    };
    assert_eq!(
        refused("http://169.254.169.254/meta"),
        TargetError::BadCardPath
    );
    assert_eq!(refused("//evil.example/card"), TargetError::BadCardPath);
    assert_eq!(refused("/other.json"), TargetError::NotConfigured);
}

#[test]
fn requested_url_gets_no_credential() {
    let catalog = catalog(json!({
        "defaults": {"serviceParameters": {"x-key": "secret"}},
        "targets": [{"alias": "a", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": "secret"}}],
        "policy": {"allowTargetUrlOverride": true}
    }));
    let target = catalog.by_url("https://y.example/").unwrap();
    assert!(target.peer_config.credential.is_none() && target.peer_config.headers.is_empty());
    assert!(!target.peer_config.allow_private);
}

#[test]
fn credentials_separate_cached_cards() {
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
fn pins_separate_cached_cards() {
    let catalog = catalog(json!({"stateDir": "/state", "targets": [
        {"alias": "a", "baseUrl": "https://x.example", "pins": "enforce"},
        {"alias": "b", "baseUrl": "https://x.example", "pins": "off"},
        {"alias": "c", "baseUrl": "https://x.example"},
        {"alias": "d", "baseUrl": "http://127.0.0.1:1"},
    ]}));
    let [a, b, c, d] = catalog.targets() else {
        panic!("four targets")
    };
    assert_eq!((&a.key, &a.key), (&b.key, &c.key));
    assert_ne!(a.card_key, b.card_key);
    assert_ne!(a.card_key, c.card_key);
    assert!(c.pins.is_some() && b.pins.is_none() && d.pins.is_none());
}

#[test]
fn unresolved_header_keeps_its_reference() {
    let reference = json!({"source": "env", "provider": "default", "id": "TEAM_KEY"});
    let own =
        json!({"alias": "a", "baseUrl": "https://a.example", "headers": {"X-Key": reference}});
    let with_own = catalog(json!({"targets": [own]}));
    let other = json!({"alias": "a", "baseUrl": "https://a.example"});
    let defaults = json!({"serviceParameters": {"X-Key": reference}});
    let with_default = catalog(json!({"targets": [other], "defaults": defaults}));
    for catalog in [with_own, with_default] {
        let target = &catalog.targets()[0];
        assert_eq!(target.unresolved.as_deref(), Some("env:TEAM_KEY"));
        assert!(target.peer_config.headers.is_empty());
    }
}

#[test]
fn unresolved_secret_keeps_its_reference() {
    let catalog = catalog(json!({"targets": [
        {"alias": "a", "baseUrl": "https://x.example", "auth": {"type": "bearer", "token": {"source": "env", "provider": "default", "id": "TOKEN"}}},
    ]}));
    assert_eq!(
        catalog.targets()[0].unresolved.as_deref(),
        Some("env:TOKEN")
    );
}

#[test]
fn card_of_the_settings_is_that_of_its_file() {
    let given = |card: Value| {
        let target = json!({"alias": "a", "baseUrl": "https://x.example", "card": card});
        let config = json!({ "targets": [target] }).to_string();
        Catalog::new(&Config::parse(&config).unwrap())
    };
    let file = std::env::temp_dir().join(format!("card-{}.json", std::process::id()));
    std::fs::write(&file, "\u{feff}{\"name\": \"A\"}").unwrap();
    let of_file = given(json!(file));
    std::fs::write(&file, "{").unwrap();
    let broken = given(json!(file)).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    let missing = given(json!(file)).unwrap_err();
    let of_file = of_file.unwrap().by_alias("a").unwrap();
    let inline = given(json!({"name": "A"})).unwrap().by_alias("a").unwrap();
    let other = given(json!({"name": "B"})).unwrap().by_alias("a").unwrap();
    assert_eq!(of_file.peer_config.card, inline.peer_config.card);
    assert_eq!(of_file.key, inline.key);
    assert_ne!(other.key, inline.key);
    for (error, part) in [(broken, "as JSON"), (missing, "cannot be read")] {
        assert_eq!(error.path, "/targets/0/card");
        assert!(error.message.contains(part), "{}", error.message);
    }
}
