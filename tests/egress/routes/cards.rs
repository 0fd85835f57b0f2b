//! Routes through a card or an answer.

use serde_json::json;

use crate::egress::attempt::{Outcome, Route};

use super::hosts::UNICODE_HOSTS;
use super::{
    CARD_PATH, NO_CARD, REDIRECTED, REFUSED, card, config_with_target, peer, route, send,
    with_field,
};

pub(super) fn configured_card_urls() -> Vec<Route> {
    let mut routes = Vec::new();
    let names = vec![("public.example", vec![vec!["127.0.0.1"]])];
    for (group, key) in [
        ("configured cardUrl", "cardUrl"),
        ("configured endpoint", "endpoint"),
    ] {
        let url = "http://public.example:PORT/x";
        let settings = json!({"baseUrl": "{{origin}}"});
        routes.push(Route {
            config: config_with_target(with_field(settings, key, json!(url))),
            names: names.clone(),
            ..route(group, "public.example → 127.0.0.1", REFUSED)
        });
    }
    let url = "https://public.example:PORT/token";
    let oauth2 =
        json!({"type": "oauth2", "tokenUrl": url, "clientId": "me", "clientSecret": "s3cret"});
    routes.push(Route {
        config: config_with_target(json!({"baseUrl": "{{origin}}", "auth": oauth2})),
        names: names.clone(),
        ..route("configured tokenUrl", "public.example → 127.0.0.1", REFUSED)
    });
    for path in [
        "//127.0.0.1:PORT/card",
        "http:////127.0.0.1:PORT/card",
        "/\\127.0.0.1:PORT/card",
    ] {
        routes.push(Route {
            config: config_with_target(
                json!({"baseUrl": "{{origin}}", "cardPath": path.replace("http://", "")}),
            ),
            ..route("configured cardPath", path, NO_CARD)
        });
    }
    routes
}

pub(super) fn interfaces() -> Vec<Route> {
    let mut routes = Vec::new();
    let names = vec![("public.example", vec![vec!["127.0.0.1"]])];
    for url in [
        "http://127.0.0.1:PORT/rpc",
        "http://localhost:PORT/rpc",
        "http://[::1]:PORT/rpc",
        "//127.0.0.1:PORT/rpc",
        "http://0.0.0.0:PORT/rpc",
        "http://2130706433:PORT/rpc",
        "http://[::ffff:127.0.0.1]:PORT/rpc",
        "http://127.0.0.2:PORT/rpc",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/rpc",
        "http://public.example:PORT/rpc",
    ] {
        routes.push(Route {
            peer: peer(with_field(card(), "url", json!(url))),
            names: names.clone(),
            ..route("card's interface", url, REFUSED)
        });
    }
    for host in UNICODE_HOSTS {
        let url = format!("http://{host}:PORT/rpc");
        routes.push(Route {
            peer: peer(with_field(card(), "url", json!(url))),
            ..route("card's interface", url, REFUSED)
        });
    }
    let url = "http://127.0.0.1:PORT/rest";
    let additional = json!([{"transport": "HTTP+JSON", "url": url}]);
    routes.push(Route {
        config: config_with_target(
            json!({"baseUrl": "{{origin}}", "preferredTransports": ["HTTP+JSON"]}),
        ),
        peer: peer(with_field(card(), "additionalInterfaces", additional)),
        ..route("card's additional interface", url, REFUSED)
    });
    routes
}

pub(super) fn redirects() -> Vec<Route> {
    let mut routes = Vec::new();
    let to = |status: u16, location: &str| json!({"status": status, "headers": {"location": location}, "body": ""});
    for (status, location) in [
        (301, "http://127.0.0.1:PORT/card"),
        (302, "http://localhost:PORT/card"),
        (303, "http://[::1]:PORT/card"),
        (307, "//127.0.0.1:PORT/card"),
        (308, "http://169.254.169.254/latest"),
        (302, "https://127.0.0.1:PORT/card"),
    ] {
        let card_request = format!("GET {CARD_PATH}");
        routes.push(Route {
            peer: json!({"routes": {card_request: to(status, location)}}),
            ..route(
                "redirect of the card",
                format!("{status} {location}"),
                REDIRECTED,
            )
        });
    }
    for (method, request) in [
        ("message/send", send()),
        (
            "message/stream",
            with_field(send(), "follow_updates", json!(true)),
        ),
        (
            "tasks/get",
            json!({"action": "status", "task_id": "t", "target_alias": "main"}),
        ),
        (
            "tasks/cancel",
            json!({"action": "cancel", "task_id": "t", "target_alias": "main"}),
        ),
    ] {
        for status in [302, 307] {
            let location = "http://127.0.0.1:PORT/rpc";
            routes.push(Route {
                peer: json!({"card": card(), "rpc": {method: to(status, location)}}),
                requests: vec![request.clone()],
                ..route(
                    "redirect of a call",
                    format!("{method}: {status} {location}"),
                    REDIRECTED,
                )
            });
        }
    }
    routes
}

pub(super) fn extended_cards() -> Vec<Route> {
    let url = "http://127.0.0.1:PORT/rpc";
    let extended = with_field(card(), "supportsAuthenticatedExtendedCard", json!(true));
    let mut served = peer(extended.clone());
    served["rpc"]["agent/getAuthenticatedExtendedCard"] =
        json!({"result": with_field(card(), "url", json!(url))});
    vec![
        Route {
            peer: peer(with_field(extended, "url", json!(url))),
            ..route("place of the extended card", url, REFUSED)
        },
        Route {
            peer: served,
            ..route("extended card's interface", url, Outcome::Ignored)
        },
    ]
}

/// Forbidden addresses in a card or a response.
pub(super) fn unused_urls() -> Vec<Route> {
    let url = "http://127.0.0.1:PORT/x";
    let flows = json!({"clientCredentials": {"tokenUrl": url, "scopes": {}}});
    let oauth2 = json!({"a": {"type": "oauth2", "flows": flows, "oauth2MetadataUrl": url}});
    let open_id = json!({"a": {"type": "openIdConnect", "openIdConnectUrl": url}});
    // {"alg":"ES256","kid":"k","jku":"http://127.0.0.1/jwks.json"}
    let protected =
        "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsiLCJqa3UiOiJodHRwOi8vMTI3LjAuMC4xL2p3a3MuanNvbiJ9";
    let signatures = json!([{"protected": protected, "signature": "AAAA"}]);
    let secured = |schemes| {
        with_field(
            with_field(card(), "securitySchemes", schemes),
            "security",
            json!([{"a": []}]),
        )
    };
    let mut routes = Vec::new();
    for (group, card) in [
        ("tokenUrl of a card", secured(oauth2)),
        ("openIdConnectUrl of a card", secured(open_id)),
        (
            "jku of a card's signature",
            with_field(card(), "signatures", signatures),
        ),
        (
            "iconUrl of a card",
            with_field(card(), "iconUrl", json!(url)),
        ),
        (
            "documentationUrl of a card",
            with_field(card(), "documentationUrl", json!(url)),
        ),
        (
            "provider of a card",
            with_field(card(), "provider", json!({"organization": "x", "url": url})),
        ),
        ("file in an answer", card()),
    ] {
        routes.push(Route {
            peer: peer(card),
            ..route(group, url, Outcome::Ignored)
        });
    }
    let file = json!([{"kind": "file", "uri": url}]);
    routes.push(Route {
        requests: vec![with_field(send(), "parts", file)],
        ..route("file in a request", url, Outcome::Ignored)
    });
    routes
}
