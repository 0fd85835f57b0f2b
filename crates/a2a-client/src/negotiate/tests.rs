#![allow(clippy::unwrap_used)]
use serde_json::Map;

use super::*;
use a2a::CardView;
use peer::CardLocation;

fn config(preferred: &[Transport]) -> PeerConfig {
    PeerConfig {
        configured: true,
        preferred: preferred.to_vec(),
        ..PeerConfig::new(
            Url::parse("http://a.example/").unwrap(),
            CardLocation::Path("/card".into()),
        )
    }
}

const BOTH: [Transport; 2] = Transport::SUPPORTED;

/// Returns a card of interfaces, each with its transport, address and declared version.
fn card(interfaces: &[(&str, &str, &str)]) -> Card {
    let interfaces = interfaces
        .iter()
        .map(|&(transport, url, version)| Interface {
            version: Some(version.into()).filter(|version: &String| !version.is_empty()),
            ..Interface::new(transport, url)
        });
    Card::new(interfaces.collect(), CardView::default())
}

/// Returns the chosen path and version.
fn chosen(config: &PeerConfig, interfaces: &[(&str, &str, &str)]) -> (String, Version) {
    let (route, _) = choose(config, &card(interfaces)).unwrap();
    (route.url.path().to_owned(), route.version)
}

#[test]
fn preference_of_target_wins_over_card() {
    let card = [
        ("JSONRPC", "http://a.example/rpc", "0.3"),
        ("http+json", "http://a.example/rest", "0.3"),
    ];
    let config = config(&[Transport::HttpJson, Transport::JsonRpc]);
    assert_eq!(chosen(&config, &card), ("/rest".into(), Version::V0_3));
}

#[test]
fn preference_of_target_wins_over_version() {
    let card = [
        ("HTTP+JSON", "http://a.example/rest", "1.0"),
        ("JSONRPC", "http://a.example/rpc", "0.3"),
    ];
    assert_eq!(chosen(&config(&BOTH), &card).0, "/rpc");
}

#[test]
fn newer_version_of_a_transport_wins() {
    let card = [
        ("JSONRPC", "http://a.example/old", "0.3"),
        ("JSONRPC", "http://a.example/open", ""),
        ("JSONRPC", "http://a.example/new", "1.0.0"),
    ];
    assert_eq!(
        chosen(&config(&BOTH), &card),
        ("/new".into(), Version::V1_0)
    );
    assert_eq!(
        chosen(&config(&BOTH), &card[..2]),
        ("/open".into(), Version::V1_0)
    );
}

#[test]
fn pinned_version_overrides_card() {
    let interfaces = [
        ("JSONRPC", "http://a.example/new", "1.0"),
        ("JSONRPC", "http://a.example/old", "0.3"),
    ];
    let mut config = config(&BOTH);
    config.version = Some(Version::V0_3);
    assert_eq!(chosen(&config, &interfaces), ("/old".into(), Version::V0_3));
    assert_eq!(
        chosen(&config, &interfaces[..1]),
        ("/new".into(), Version::V0_3)
    );
    assert!(choose(&config, &card(&interfaces)).unwrap().0.pinned);
}

#[test]
fn pinned_version_wins_over_preferred_transport() {
    let interfaces = [
        ("JSONRPC", "http://a.example/old", "0.3"),
        ("HTTP+JSON", "http://a.example/new", "1.0"),
    ];
    let mut config = config(&BOTH);
    config.version = Some(Version::V1_0);
    assert_eq!(chosen(&config, &interfaces), ("/new".into(), Version::V1_0));
}

#[test]
fn unknown_version_is_skipped() {
    let interfaces = [
        ("JSONRPC", "http://a.example/next", "2.0"),
        ("JSONRPC", "http://a.example/old", "0.3"),
    ];
    assert_eq!(chosen(&config(&BOTH), &interfaces).0, "/old");
    let error = choose(&config(&BOTH), &card(&interfaces[..1])).unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::UnsupportedVersion);
    assert!(error.message.contains("2.0"), "{error}");
}

#[test]
fn card_order_applies_without_matching_preference() {
    let card = [
        ("GRPC", "a.example:1", "0.3"),
        ("HTTP+JSON", "http://a.example/rest", "0.3"),
    ];
    assert_eq!(chosen(&config(&[Transport::JsonRpc]), &card).0, "/rest");
}

#[test]
fn without_a_preference_0_3_is_called_over_json_rpc() {
    let card = [
        ("HTTP+JSON", "http://a.example/rest", "0.3"),
        ("JSONRPC", "http://a.example/rpc", "0.3"),
    ];
    assert_eq!(chosen(&config(&[]), &card).0, "/rpc");
    let newer = [
        ("HTTP+JSON", "http://a.example/rest", "1.0"),
        ("JSONRPC", "http://a.example/rpc", "1.0"),
    ];
    assert_eq!(chosen(&config(&[]), &newer).0, "/rest");
}

#[test]
fn tenant_prefers_json_rpc() {
    let card = [
        ("HTTP+JSON", "http://a.example/rest", "1.0"),
        ("JSONRPC", "http://a.example/rpc", "1.0"),
    ];
    let mut config = config(&[]);
    config.tenant = Some("acme".into());
    assert_eq!(chosen(&config, &card).0, "/rpc");
}

#[test]
fn tenant_of_operator_wins_over_card() {
    let mut card = card(&[("JSONRPC", "http://a.example/rpc", "1.0")]);
    card.interfaces[0].tenant = Some("card".into());
    let tenant = |config: &PeerConfig| choose(config, &card).unwrap().0.tenant;
    let mut config = config(&BOTH);
    assert_eq!(tenant(&config).as_deref(), Some("card"));
    config.tenant = Some("configured".into());
    assert_eq!(tenant(&config).as_deref(), Some("configured"));
}

#[test]
fn tenant_of_operator_excludes_0_3() {
    let mut config = config(&BOTH);
    config.tenant = Some("acme".into());
    let old = ("JSONRPC", "http://a.example/old", "0.3");
    let new = ("HTTP+JSON", "http://b.example/new", "1.0");
    let (first, other) = choose(&config, &card(&[old, new])).unwrap();
    assert_eq!((first.url.path(), other), ("/new", None));
    let error = choose(&config, &card(&[old])).unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::UnsupportedVersion);
    assert!(error.message.contains("tenant"), "{error}");
}

#[test]
fn unsupported_transports_are_listed() {
    let error = choose(&config(&[]), &card(&[("GRPC", "a.example:1", "1.0")])).unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::UnsupportedTransport);
    assert_eq!(error.transports.unwrap().unsupported, ["GRPC"]);
}

#[test]
fn required_extension_is_an_error_unless_it_is_active() {
    let mut card = card(&[("JSONRPC", "http://a.example/rpc", "1.0")]);
    card.extensions = vec![a2a::CardExtension {
        uri: "https://x/ext".into(),
        required: true,
        params: None,
    }];
    let mut config = config(&[]);
    let error = extensions(&config, &card).unwrap_err();
    assert_eq!(error.kind, PeerErrorKind::ExtensionRequired);
    assert!(error.message.contains("`https://x/ext`"), "{error}");
    config.extensions = [peer::Extension {
        uri: "https://x/ext".into(),
        params: Map::new(),
        metadata: Map::new(),
    }]
    .into();
    assert_eq!(extensions(&config, &card).unwrap(), ["https://x/ext"]);
}

#[test]
fn configured_endpoint_replaces_url_of_card() {
    let mut config = config(&BOTH);
    config.endpoint = Some(Url::parse("https://real.example/rpc").unwrap());
    let card = card(&[
        ("JSONRPC", "http://0.0.0.0/", "0.3"),
        ("JSONRPC", "http://b.example/", "0.3"),
    ]);
    let (route, other) = choose(&config, &card).unwrap();
    assert_eq!(route.url.as_str(), "https://real.example/rpc");
    assert_eq!(other, None);
}

#[test]
fn url_of_card_is_unchanged() {
    for url in [
        "http://a.example/rpc",
        "http://a.example/rpc/",
        "http://a.example/rpc?k=v",
    ] {
        let (route, _) = choose(&config(&BOTH), &card(&[("JSONRPC", url, "1.0")])).unwrap();
        assert_eq!(route.url.as_str(), url);
    }
}

/// Returns the fallback of the first address.
fn other(first: &str, others: &[&str]) -> Option<String> {
    let mut interfaces = vec![("JSONRPC", first, "1.0")];
    interfaces.extend(others.iter().map(|url| ("HTTP+JSON", *url, "1.0")));
    let (_, other) = choose(&config(&BOTH), &card(&interfaces)).unwrap();
    other.map(|route| route.url.to_string())
}

#[test]
fn fallback_is_on_another_origin() {
    let first = "http://a.example/rpc";
    assert_eq!(other(first, &["http://a.example/rest"]), None);
    assert_eq!(
        other(first, &["http://a.example/rest", "http://b.example/rest"]),
        Some("http://b.example/rest".into())
    );
}

#[test]
fn fallback_keeps_tls() {
    let first = "https://a.example/rpc";
    assert_eq!(other(first, &["http://b.example/rest"]), None);
    assert_eq!(
        other(first, &["https://b.example/rest"]),
        Some("https://b.example/rest".into())
    );
}

/// Returns the URL of an interface in the card of a base URL, or the error.
fn called(base: &str, interface: &str) -> String {
    let base = Url::parse(base).unwrap();
    let config = PeerConfig {
        configured: true,
        ..PeerConfig::new(base, CardLocation::Path(a2a::http::CARD_PATH.into()))
    };
    match choose(&config, &card(&[("JSONRPC", interface, "1.0")])) {
        Ok((route, _)) => route.url.to_string(),
        Err(error) => error.message,
    }
}

/// Checks rows of a base URL, an interface and the URL that is called.
#[track_caller]
fn assert_called(rows: &[&str]) {
    for row in rows {
        let (base, rest) = row.split_once(" | ").unwrap();
        let (interface, expected) = rest.split_once(" | ").unwrap();
        assert_eq!(called(base, interface), expected, "{row}");
    }
}

#[test]
fn host_that_only_the_server_can_mean_is_that_of_the_base_url() {
    assert_called(&[
        "http://a.example:9000 | http://0.0.0.0:9000/rpc | http://a.example:9000/rpc",
        "http://a.example:9000 | http://[::]:9001/rpc | http://a.example:9001/rpc",
        "http://a.example:9000 | http://+:9001/rpc | http://a.example:9001/rpc",
        "http://a.example:9000 | http://*:9001/rpc | http://a.example:9001/rpc",
        "https://a.example | http://+:80/rpc?k=v | https://a.example/rpc?k=v",
        "http://127.0.0.1:9000 | http://0.0.0.0:9000/ | http://127.0.0.1:9000/",
        "https://a.example | http://localhost:9000/rpc?k=v | https://a.example/rpc?k=v",
        "https://a.example:8443/x | http://127.0.0.1:9000/rpc | https://a.example:8443/rpc",
        "http://a.example | http://[::1]/rpc | http://a.example/rpc",
        "http://localhost:9000 | http://127.0.0.1:9001/rpc | http://127.0.0.1:9001/rpc",
        "http://a.example | http://10.0.0.1/rpc | http://10.0.0.1/rpc",
    ]);
}

#[test]
fn address_without_a_scheme_is_completed_by_the_base_url() {
    assert_called(&[
        "https://a.example/x/ | /rpc | https://a.example/rpc",
        "https://a.example/x/ | rpc | https://a.example/x/rpc",
        "https://a.example |  | https://a.example/",
        "https://a.example | //b.example/rpc | https://b.example/rpc",
        "https://a.example | a.example/rpc | https://a.example/rpc",
        "https://a.example | b.example:8443/rpc | https://b.example:8443/rpc",
        "http://127.0.0.1:9000 | localhost:9000/rpc | http://localhost:9000/rpc",
        "https://a.example | 0.0.0.0:9000/rpc | https://a.example:9000/rpc",
        "https://a.example/.well-known/agent-card.json | rpc | https://a.example/rpc",
        "https://a.example/x/.well-known/agent.json | /rpc | https://a.example/rpc",
    ]);
}

#[test]
fn placeholder_for_a_host_is_a_fault_of_the_card() {
    for host in ["<host>", "{host}", "${HOST}", "%HOST%", "[host]"] {
        for base in ["http://a.example", "https://a.example"] {
            let url = format!(
                "{}://{host}:80/a?key=s3cret",
                base.split(':').next().unwrap()
            );
            let config = PeerConfig::new(
                Url::parse(base).unwrap(),
                CardLocation::Path(a2a::http::CARD_PATH.into()),
            );
            let error = choose(&config, &card(&[("HTTP+JSON", &url, "1.0")])).unwrap_err();
            assert_eq!(error.kind, PeerErrorKind::CardMalformed, "{url}");
            assert_eq!(error.delivered, peer::Delivered::No, "{url}");
            for part in ["for HTTP+JSON", host, "`endpoint`"] {
                assert!(error.message.contains(part), "{url}: {error}");
            }
            assert!(!error.message.contains("s3cret"), "{error}");
        }
    }
}

#[test]
fn card_over_tls_cannot_name_an_interface_without() {
    let message = called("https://a.example", "http://a.example/rpc");
    assert!(message.contains("`endpoint`"), "{message}");
    assert_eq!(
        called("http://a.example", "http://a.example/rpc"),
        "http://a.example/rpc"
    );
    let mut config = config(&BOTH);
    config.base_url = Url::parse("https://a.example/").unwrap();
    let both = card(&[
        ("JSONRPC", "http://a.example/rpc", "1.0"),
        ("HTTP+JSON", "https://b.example/rest", "1.0"),
        ("JSONRPC", "http://c.example/rpc", "1.0"),
    ]);
    let (first, other) = choose(&config, &both).unwrap();
    assert_eq!(
        (first.url.as_str(), other),
        ("https://b.example/rest", None)
    );
    config.endpoint = Some(Url::parse("http://a.example/rpc").unwrap());
    assert_eq!(choose(&config, &both).unwrap().0.url.scheme(), "http");
    let mut apart = PeerConfig::new(
        Url::parse("http://a.example/").unwrap(),
        CardLocation::Url(Url::parse("https://cards.example/a.json").unwrap()),
    );
    apart.configured = true;
    assert!(choose(&apart, &card(&[("JSONRPC", "http://a.example/rpc", "1.0")])).is_err());
}
