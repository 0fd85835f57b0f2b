#![allow(clippy::unwrap_used)]
use super::*;
use crate::targets::{Catalog, TargetError};
use serde_json::{Value, json};

fn catalog(gateway: Value) -> Catalog {
    let config =
        json!({"gateway": gateway, "targets": [{"alias": "a", "baseUrl": "https://x.example"}]});
    Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap()
}

fn enabled(more: Value) -> Catalog {
    let mut gateway = json!({"enabled": true});
    let fields = gateway.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    catalog(gateway)
}

const GATEWAY: &[Transport] = &[Transport::Gateway];

#[test]
fn agent_name_is_a_target() {
    let target = enabled(json!({})).by_alias("gateway:alpha").unwrap();
    assert_eq!(target.alias.as_deref(), Some("gateway:alpha"));
    assert_eq!(target.url, "http://127.0.0.1:18789/");
    assert_eq!(target.card_path, "/agents/alpha");
    assert_eq!(
        target.peer_config.card,
        CardLocation::Path("/agents/alpha".into())
    );
    assert!(target.peer_config.is_local() && target.peer_config.configured);
}

#[test]
fn agents_share_no_card() {
    let catalog = enabled(json!({}));
    let [alpha, beta] = ["gateway:alpha", "gateway:beta"].map(|alias| catalog.by_alias(alias));
    assert_ne!(alpha.unwrap().card_key, beta.unwrap().card_key);
}

#[test]
fn disabled_gateway_has_no_targets() {
    assert!(catalog(json!({})).by_alias("gateway:alpha").is_none());
}

#[test]
fn invalid_name_is_no_target() {
    let catalog = enabled(json!({}));
    let long = "a".repeat(64);
    for (name, is_one) in [
        ("A-1_b", true),
        (long.as_str(), true),
        (&format!("{long}a"), false),
        ("", false),
        ("a/b", false),
        ("..", false),
        ("ä", false),
    ] {
        let target = catalog.by_alias(&format!("gateway:{name}"));
        assert_eq!(target.is_some(), is_one, "{name}");
    }
}

#[test]
fn only_listed_agents_and_triad_may_be_called() {
    let catalog = enabled(json!({"agents": ["alpha"]}));
    for (alias, may) in [
        ("gateway:alpha", true),
        ("gateway:triad", true),
        ("gateway:beta", false),
    ] {
        assert_eq!(catalog.by_alias(alias).is_some(), may, "{alias}");
    }
}

#[test]
fn agents_have_distinct_stable_keys() {
    let catalog = enabled(json!({}));
    let key = |alias| Arc::clone(&catalog.by_alias(alias).unwrap().key);
    assert_eq!(key("gateway:alpha"), key("gateway:alpha"));
    assert_ne!(key("gateway:alpha"), key("gateway:beta"));
}

#[test]
fn continuation_finds_its_agent() {
    let catalog = enabled(json!({"url": "wss://gate.example/a", "allowRemote": true}));
    let back = |alias| {
        catalog
            .by_continuation("https://gate.example/a/", "/agents/alpha", GATEWAY, alias)
            .map(|target| target.alias.clone().unwrap())
    };
    assert_eq!(back(Some("gateway:alpha")), Ok("gateway:alpha".into()));
    assert_eq!(back(None), Ok("gateway:alpha".into()));
    assert_eq!(back(Some("gateway:beta")), Err(TargetError::NotOfGateway));
}

#[test]
fn continuation_of_another_gateway_is_refused() {
    let catalog = enabled(json!({"agents": ["alpha"]}));
    let refused = |url, card_path, preferred: &[Transport]| {
        catalog
            .by_continuation(url, card_path, preferred, None)
            .unwrap_err()
    };
    let here = "http://127.0.0.1:18789/";
    for (url, card_path) in [
        ("http://127.0.0.1:18790/", "/agents/alpha"),
        ("https://127.0.0.1:18789/", "/agents/alpha"),
        ("http://gate.example/", "/agents/alpha"),
        ("https://x.example", "/.well-known/agent-card.json"),
        (here, "/agents/beta"),
        (here, "/agents/"),
        (here, "http://169.254.169.254/meta"),
    ] {
        assert_eq!(
            refused(url, card_path, GATEWAY),
            TargetError::NotOfGateway,
            "{url} {card_path}"
        );
    }
    let mixed = [Transport::Gateway, Transport::JsonRpc];
    assert_eq!(
        refused(here, "/agents/alpha", &mixed),
        TargetError::NotOfGateway
    );
}

#[test]
fn gateway_continuation_requires_a_gateway() {
    let refused = catalog(json!({}))
        .by_continuation("http://127.0.0.1:18789/", "/agents/alpha", GATEWAY, None)
        .unwrap_err();
    assert_eq!(refused, TargetError::NoGateway);
}

#[test]
fn requested_url_never_selects_a_gateway_agent() {
    let refused = enabled(json!({}))
        .by_url("http://127.0.0.1:18789/")
        .unwrap_err();
    assert_eq!(refused, TargetError::NotConfigured);
}

#[test]
fn unresolved_secret_keeps_its_reference() {
    let reference = json!({"source": "env", "id": "GATE_SECRET"});
    for gateway in [
        json!({"token": reference}),
        json!({"token": "t", "signing": {"agent": "steward", "key": reference}}),
    ] {
        let catalog = enabled(gateway);
        let target = catalog.by_alias("gateway:alpha").unwrap();
        assert_eq!(target.unresolved.as_deref(), Some("env:GATE_SECRET"));
    }
}
