#![allow(clippy::unwrap_used)]
use super::*;
use serde_json::json;

#[test]
fn card_with_only_a_url_is_usable() {
    let card = read(&json!({ "url": " http://a.example/rpc " })).unwrap();
    assert_eq!(
        card.interfaces,
        [Interface {
            version: Some("0.3".into()),
            ..Interface::new("JSONRPC", "http://a.example/rpc")
        }]
    );
    assert_eq!(card.streaming, None);
}

#[test]
fn card_without_an_address_is_refused() {
    for json in [json!(null), json!([]), json!({}), json!({ "url": 7 })] {
        assert!(read(&json).is_err(), "{json}");
    }
}

/// Returns the URLs of a card with their declared versions.
fn versions(card: &Value) -> Vec<(String, Option<String>)> {
    let interfaces = read(card).unwrap().interfaces.into_iter();
    interfaces.map(|one| (one.url, one.version)).collect()
}

fn interface(url: &str, version: Option<&str>) -> (String, Option<String>) {
    (url.into(), version.map(str::to_owned))
}

#[test]
fn newer_card_lists_its_interfaces_with_version_and_tenant() {
    let card = json!({ "supportedInterfaces": [
        { "url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "acme" },
        { "url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3", "tenant": "" },
        { "url": "http://a/rest", "protocolBinding": "HTTP+JSON" },
        { "url": "", "protocolBinding": "HTTP+JSON" }, null, 7
    ]});
    let interfaces = read(&card).unwrap().interfaces;
    assert_eq!(
        versions(&card),
        [
            interface("http://a/rpc", Some("1.0")),
            interface("http://a/rpc", Some("0.3")),
            interface("http://a/rest", None)
        ]
    );
    assert_eq!(interfaces[0].tenant.as_deref(), Some("acme"));
    assert_eq!(interfaces[1].tenant, None);
}

#[test]
fn transport_of_an_interface_has_the_name_of_either_version() {
    let of = |name: &str| json!([{"url": "http://a/rest", name: "HTTP+JSON"}]);
    let empty = json!([{"url": "", "transport": "HTTP+JSON"}]);
    for card in [
        json!({ "supportedInterfaces": of("protocolBinding") }),
        json!({ "supportedInterfaces": of("transport") }),
        json!({ "supportedInterfaces": empty }),
        json!({ "additionalInterfaces": of("transport") }),
        json!({ "additionalInterfaces": of("protocol_binding") }),
    ] {
        let interfaces = read(&card).unwrap().interfaces;
        assert_eq!(interfaces[0].transport, "HTTP+JSON", "{card}");
    }
}

#[test]
fn newer_interfaces_replace_older_ones() {
    let card = json!({
        "url": "http://a/old", "preferredTransport": "JSONRPC", "protocolVersion": "0.3",
        "additionalInterfaces": [{ "url": "http://a/older", "transport": "JSONRPC" }],
        "supportedInterfaces": [{ "url": "http://a/new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]
    });
    assert_eq!(versions(&card), [interface("http://a/new", Some("1.0"))]);
    let mut broken = card.clone();
    broken["supportedInterfaces"] = json!([{}]);
    let old = [
        interface("http://a/old", Some("0.3")),
        interface("http://a/older", Some("0.3")),
    ];
    assert_eq!(versions(&broken), old);
}

#[test]
fn older_card_without_version_is_0_3() {
    assert_eq!(
        versions(&json!({ "url": "http://a/" })),
        [interface("http://a/", Some("0.3"))]
    );
    assert_eq!(
        versions(&json!({ "url": "http://a/", "protocolVersion": "1.0" })),
        [interface("http://a/", Some("1.0"))]
    );
}

#[test]
fn newer_card_has_the_view_of_an_older_one() {
    let view = |card: Value| read(&card).unwrap().view.unwrap();
    let newer = view(
        json!({ "name": "A", "skills": null, "supportedInterfaces": [
            { "url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            { "url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
            { "url": "http://a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }
        ]}),
    );
    assert_eq!(newer.preferred_transport.as_deref(), Some("JSONRPC"));
    assert_eq!(
        newer.additional_interfaces,
        [Interface::new("HTTP+JSON", "http://a/rest")]
    );
}

#[test]
fn extended_card_is_announced_in_either_place() {
    let announced = |more: Value| {
        let mut card = json!({ "url": "http://a/" });
        card.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        read(&card).unwrap().has_extended_card
    };
    assert!(announced(
        json!({ "supportsAuthenticatedExtendedCard": true })
    ));
    assert!(announced(
        json!({ "capabilities": { "extendedAgentCard": true } })
    ));
    assert!(!announced(json!({ "capabilities": {} })));
}

#[test]
fn required_extensions_are_listed() {
    let card = json!({ "url": "http://a/", "capabilities": { "extensions": [
        { "uri": "https://x/one", "required": true },
        { "uri": "https://x/two", "required": false },
        { "uri": "https://x/three" },
        { "required": true }
    ]}});
    let extensions = read(&card).unwrap().extensions;
    let required: Vec<_> = extensions.iter().filter(|one| one.required).collect();
    assert_eq!(extensions.len(), 4);
    assert_eq!(
        required.iter().map(|one| &*one.uri).collect::<Vec<_>>(),
        ["https://x/one", ""]
    );
}

#[test]
fn invalid_skill_does_not_prevent_calls() {
    let card = read(&json!({ "url": "http://a/", "skills": [null] })).unwrap();
    assert!(card.view.is_err());
}

#[test]
fn names_in_snake_case_are_read() {
    let camel = json!({
        "supportedInterfaces": [{"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "extendedAgentCard": true, "pushNotifications": true},
        "defaultInputModes": ["text/plain"], "skills": [{"id": "s", "inputModes": ["a/b"]}]
    });
    let snake = json!({
        "supported_interfaces": [{"url": "https://a.example/rpc", "protocol_binding": "json_rpc", "protocol_version": "1.0"}],
        "capabilities": {"streaming": true, "extended_agent_card": true, "push_notifications": true},
        "default_input_modes": ["text/plain"], "skills": [{"id": "s", "input_modes": ["a/b"]}]
    });
    let (camel, mut snake) = (Card::read(&camel).unwrap(), Card::read(&snake).unwrap());
    assert_eq!(
        snake.interfaces[0].transport.parse(),
        Ok(crate::Transport::JsonRpc)
    );
    snake.interfaces[0].transport = "JSONRPC".into();
    let view = snake.view.as_mut().unwrap();
    view.preferred_transport = Some("JSONRPC".into());
    assert_eq!(snake, camel);
}

#[test]
fn empty_url_is_that_of_the_card() {
    for (card, version) in [
        (json!({"url": ""}), "0.3"),
        (json!({"url": "", "protocolVersion": "0.2.5"}), "0.2.5"),
        (
            json!({"supportedInterfaces": [{"url": "", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}),
            "1.0",
        ),
    ] {
        let interfaces = Card::read(&card).unwrap().interfaces;
        assert_eq!(interfaces.len(), 1, "{card}");
        assert_eq!(interfaces[0].url, "");
        assert_eq!(interfaces[0].version.as_deref(), Some(version));
    }
    let other = json!({"url": "", "additionalInterfaces": [{"transport": "JSONRPC", "url": "https://b.example/"}]});
    assert_eq!(
        Card::read(&other).unwrap().interfaces[0].url,
        "https://b.example/"
    );
}
