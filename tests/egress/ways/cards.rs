//! Ways through a card or an answer.

use serde_json::json;

use crate::egress::rig::{Outcome, Way};

use super::hosts::IN_DISGUISE;
use super::{CARD_PATH, NO_CARD, REDIRECTED, REFUSED, card, peer, send, target, way, with};

pub(super) fn card_places() -> Vec<Way> {
    let mut ways = Vec::new();
    let names = vec![("public.example", vec![vec!["127.0.0.1"]])];
    for (group, key) in [
        ("configured cardUrl", "cardUrl"),
        ("configured endpoint", "endpoint"),
    ] {
        let url = "http://public.example:PORT/x";
        let own = json!({"baseUrl": "{{origin}}"});
        ways.push(Way {
            config: target(with(own, key, json!(url))),
            names: names.clone(),
            ..way(group, "public.example → 127.0.0.1", REFUSED)
        });
    }
    let url = "https://public.example:PORT/token";
    let oauth2 =
        json!({"type": "oauth2", "tokenUrl": url, "clientId": "me", "clientSecret": "s3cret"});
    ways.push(Way {
        config: target(json!({"baseUrl": "{{origin}}", "auth": oauth2})),
        names: names.clone(),
        ..way("configured tokenUrl", "public.example → 127.0.0.1", REFUSED)
    });
    for path in [
        "//127.0.0.1:PORT/card",
        "http:////127.0.0.1:PORT/card",
        "/\\127.0.0.1:PORT/card",
    ] {
        ways.push(Way {
            config: target(
                json!({"baseUrl": "{{origin}}", "cardPath": path.replace("http://", "")}),
            ),
            ..way("configured cardPath", path, NO_CARD)
        });
    }
    ways
}

pub(super) fn interfaces() -> Vec<Way> {
    let mut ways = Vec::new();
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
        ways.push(Way {
            peer: peer(with(card(), "url", json!(url))),
            names: names.clone(),
            ..way("card's interface", url, REFUSED)
        });
    }
    for host in IN_DISGUISE {
        let url = format!("http://{host}:PORT/rpc");
        ways.push(Way {
            peer: peer(with(card(), "url", json!(url))),
            ..way("card's interface", url, REFUSED)
        });
    }
    let url = "http://127.0.0.1:PORT/rest";
    let additional = json!([{"transport": "HTTP+JSON", "url": url}]);
    ways.push(Way {
        config: target(json!({"baseUrl": "{{origin}}", "preferredTransports": ["HTTP+JSON"]})),
        peer: peer(with(card(), "additionalInterfaces", additional)),
        ..way("card's additional interface", url, REFUSED)
    });
    ways
}

pub(super) fn redirects() -> Vec<Way> {
    let mut ways = Vec::new();
    let to = |status: u16, location: &str| json!({"status": status, "headers": {"location": location}, "body": ""});
    for (status, location) in [
        (301, "http://127.0.0.1:PORT/card"),
        (302, "http://localhost:PORT/card"),
        (303, "http://[::1]:PORT/card"),
        (307, "//127.0.0.1:PORT/card"),
        (308, "http://169.254.169.254/latest"),
        (302, "https://127.0.0.1:PORT/card"),
    ] {
        let route = format!("GET {CARD_PATH}");
        ways.push(Way {
            peer: json!({"routes": {route: to(status, location)}}),
            ..way(
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
            with(send(), "follow_updates", json!(true)),
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
            ways.push(Way {
                peer: json!({"card": card(), "rpc": {method: to(status, location)}}),
                requests: vec![request.clone()],
                ..way(
                    "redirect of a call",
                    format!("{method}: {status} {location}"),
                    REDIRECTED,
                )
            });
        }
    }
    ways
}

pub(super) fn extended_cards() -> Vec<Way> {
    let url = "http://127.0.0.1:PORT/rpc";
    let extended = with(card(), "supportsAuthenticatedExtendedCard", json!(true));
    let mut served = peer(extended.clone());
    served["rpc"]["agent/getAuthenticatedExtendedCard"] =
        json!({"result": with(card(), "url", json!(url))});
    vec![
        Way {
            peer: peer(with(extended, "url", json!(url))),
            ..way("place of the extended card", url, REFUSED)
        },
        Way {
            peer: served,
            ..way("extended card's interface", url, REFUSED)
        },
    ]
}

/// Forbidden addresses in a card or a response.
pub(super) fn named_and_not_called() -> Vec<Way> {
    let url = "http://127.0.0.1:PORT/x";
    let flows = json!({"clientCredentials": {"tokenUrl": url, "scopes": {}}});
    let oauth2 = json!({"a": {"type": "oauth2", "flows": flows, "oauth2MetadataUrl": url}});
    let open_id = json!({"a": {"type": "openIdConnect", "openIdConnectUrl": url}});
    // {"alg":"ES256","kid":"k","jku":"http://127.0.0.1/jwks.json"}
    let protected =
        "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsiLCJqa3UiOiJodHRwOi8vMTI3LjAuMC4xL2p3a3MuanNvbiJ9";
    let signatures = json!([{"protected": protected, "signature": "AAAA"}]);
    let secured = |schemes| {
        with(
            with(card(), "securitySchemes", schemes),
            "security",
            json!([{"a": []}]),
        )
    };
    let mut ways = Vec::new();
    for (group, card) in [
        ("tokenUrl of a card", secured(oauth2)),
        ("openIdConnectUrl of a card", secured(open_id)),
        (
            "jku of a card's signature",
            with(card(), "signatures", signatures),
        ),
        ("iconUrl of a card", with(card(), "iconUrl", json!(url))),
        (
            "documentationUrl of a card",
            with(card(), "documentationUrl", json!(url)),
        ),
        (
            "provider of a card",
            with(card(), "provider", json!({"organization": "x", "url": url})),
        ),
        ("file in an answer", card()),
    ] {
        ways.push(Way {
            peer: peer(card),
            ..way(group, url, Outcome::Ignored)
        });
    }
    let file = json!([{"kind": "file", "uri": url}]);
    ways.push(Way {
        requests: vec![with(send(), "parts", file)],
        ..way("file in a request", url, Outcome::Ignored)
    });
    ways
}
