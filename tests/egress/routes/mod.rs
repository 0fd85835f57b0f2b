//! The routes.

mod cards;
mod hosts;
mod requests;

use serde_json::{Value, json};

use crate::egress::attempt::{Outcome, Route};

const REFUSED: Outcome = Outcome::Refused("A2A_SDK_ERROR", "address_refused");
const REDIRECTED: Outcome = Outcome::Refused("A2A_SDK_ERROR", "redirect_refused");
const NO_CARD: Outcome = Outcome::Refused("A2A_SDK_ERROR", "card_unavailable");
const INVALID: Outcome = Outcome::Refused("VALIDATION_ERROR", "invalid_request");
const NOT_ALLOWED: Outcome = Outcome::Refused("TARGET_RESOLUTION_ERROR", "target_not_allowed");

pub(crate) fn all() -> Vec<Route> {
    let parts = [
        requests::target_urls(),
        requests::names(),
        requests::continuations(),
        cards::configured_card_urls(),
        cards::interfaces(),
        cards::redirects(),
        cards::extended_cards(),
        requests::callbacks(),
        cards::unused_urls(),
        proxy_routes(),
        operator_routes(),
    ];
    parts.into_iter().flatten().collect()
}

fn card() -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Desk", "description": "Answers.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
}

fn with_field(mut value: Value, key: &str, other: Value) -> Value {
    value[key] = other;
    value
}

/// Returns a peer with this card that answers with the URL of a file.
fn peer(card: Value) -> Value {
    let file = json!({"kind": "file", "file": {"uri": "http://127.0.0.1:PORT/file", "name": "f"}});
    let answer = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [file]});
    json!({"card": card, "rpc": {
        "message/send": {"result": answer},
        "tasks/get": {"result": {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}},
    }})
}

fn send() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "hello"}], "timeout_ms": 5000})
}

fn config_with_target(config_with_target: Value) -> Value {
    let config_with_target = with_field(
        with_field(config_with_target, "alias", json!("main")),
        "default",
        json!(true),
    );
    json!({"targets": [config_with_target]})
}

/// Returns a configured peer without faults.
fn route(group: &'static str, address: impl Into<String>, expected: Outcome) -> Route {
    Route {
        group,
        address: address.into(),
        config: config_with_target(json!({"baseUrl": "{{origin}}"})),
        peer: peer(card()),
        names: Vec::new(),
        proxy: false,
        requests: vec![send()],
        expected,
    }
}

fn url_override_config() -> Value {
    let policy = json!({"allowTargetUrlOverride": true});
    with_field(
        config_with_target(json!({"baseUrl": "{{origin}}"})),
        "policy",
        policy,
    )
}

fn continuation(url: &str, card_path: &str) -> Value {
    json!({"action": "status", "timeout_ms": 5000, "continuation": {
        "target": {"target_url": url, "card_path": card_path, "preferred_transports": ["JSONRPC"]},
        "task": {"task_id": "t"},
    }})
}

const CARD_PATH: &str = "/.well-known/agent-card.json";

/// The trap is the proxy, which must receive no connection.
fn proxy_routes() -> Vec<Route> {
    [
        "http://public.example/",
        "https://public.example/",
        "http://169.254.169.254/",
        "http://[::ffff:10.0.0.1]/",
    ]
    .into_iter()
    .map(|url| Route {
        config: url_override_config(),
        names: vec![("public.example", vec![vec!["10.0.0.1"]])],
        proxy: true,
        requests: vec![with_field(send(), "target_url", json!(url))],
        ..route("through a proxy", url, REFUSED)
    })
    .collect()
}

fn operator_routes() -> Vec<Route> {
    let named = |name: &'static str| vec![(name, vec![vec!["127.0.0.1"]])];
    let any = json!({"allowTargetUrlOverride": true, "allowPrivateTargetUrls": true});
    vec![
        route(
            "set by the operator",
            "baseUrl on 127.0.0.1",
            Outcome::Allowed,
        ),
        Route {
            config: config_with_target(
                json!({"baseUrl": "https://agent.example", "cardUrl": "{{origin}}/.well-known/agent-card.json"}),
            ),
            ..route(
                "set by the operator",
                "cardUrl on 127.0.0.1",
                Outcome::Allowed,
            )
        },
        Route {
            config: config_with_target(
                json!({"baseUrl": "{{origin}}", "endpoint": "{{origin}}/a2a/jsonrpc"}),
            ),
            peer: peer(with_field(card(), "url", json!("http://10.0.0.1/rpc"))),
            ..route(
                "set by the operator",
                "endpoint on 127.0.0.1",
                Outcome::Allowed,
            )
        },
        Route {
            config: config_with_target(
                json!({"baseUrl": "http://inside.example:PEER", "allowPrivateNetwork": true}),
            ),
            names: named("inside.example"),
            ..route(
                "set by the operator",
                "a name, with allowPrivateNetwork",
                Outcome::Allowed,
            )
        },
        Route {
            config: with_field(json!({}), "policy", any),
            requests: vec![with_field(send(), "target_url", json!("{{origin}}"))],
            ..route(
                "set by the operator",
                "target_url, with allowPrivateTargetUrls",
                Outcome::Allowed,
            )
        },
        Route {
            proxy: true,
            ..route("set by the operator", "beside a proxy", Outcome::Allowed)
        },
    ]
}
