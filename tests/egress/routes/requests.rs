//! Routes through a request.

use serde_json::json;

use crate::egress::attempt::Route;

use super::hosts::{INTERNAL_ADDRESSES, INTERNAL_HOSTS, UNICODE_HOSTS};
use super::{
    CARD_PATH, INVALID, NOT_ALLOWED, REFUSED, config_with_target, continuation, route, send,
    url_override_config, with_field,
};

pub(super) fn target_urls() -> Vec<Route> {
    let target_url_route = |group, url: String, expected| Route {
        config: url_override_config(),
        requests: vec![with_field(send(), "target_url", json!(url))],
        ..route(group, url, expected)
    };
    let mut routes: Vec<Route> = INTERNAL_HOSTS
        .iter()
        .map(|host| target_url_route("target_url", format!("http://{host}:PORT/"), REFUSED))
        .collect();
    for host in UNICODE_HOSTS {
        let url = format!("http://{host}:PORT/");
        routes.push(target_url_route("target_url", url, INVALID));
    }
    for zone in ["http://[fe80::1%25lo]:PORT/", "http://[::1%25lo]:PORT/"] {
        routes.push(target_url_route(
            "target_url with a zone",
            zone.into(),
            INVALID,
        ));
    }
    for scheme in ["ftp", "file", "gopher", "unix"] {
        let url = format!("{scheme}://127.0.0.1:PORT/");
        routes.push(target_url_route(
            "target_url of another scheme",
            url,
            INVALID,
        ));
    }
    let url = "http://me:pw@127.0.0.1:PORT/".to_owned();
    routes.push(target_url_route("target_url with user info", url, INVALID));
    for action in ["status", "watch", "cancel"] {
        let url = "http://127.0.0.1:PORT/";
        let request =
            json!({"action": action, "task_id": "t", "target_url": url, "timeout_ms": 5000});
        routes.push(Route {
            config: url_override_config(),
            requests: vec![request],
            ..route("target_url of another action", url, REFUSED)
        });
    }
    let url = "http://127.0.0.1:PORT/";
    routes.push(Route {
        requests: vec![with_field(send(), "target_url", json!(url))],
        ..route("target_url without permission", url, INVALID)
    });
    routes
}

pub(super) fn names() -> Vec<Route> {
    let mut routes = Vec::new();
    for answer in INTERNAL_ADDRESSES {
        let description = format!("public.example → {}", answer.join(", "));
        let url = "http://public.example:PORT/";
        let names = vec![("public.example", vec![answer.to_vec()])];
        routes.push(Route {
            config: config_with_target(json!({"baseUrl": url})),
            names: names.clone(),
            ..route("configured name", description.clone(), REFUSED)
        });
        routes.push(Route {
            config: url_override_config(),
            names,
            requests: vec![with_field(send(), "target_url", json!(url))],
            ..route("name in target_url", description, REFUSED)
        });
    }
    // The first call times out or has no route; the second resolves the name again.
    let url = "http://public.example:PORT/";
    let short_call = with_field(send(), "timeout_ms", json!(200));
    for later in ["127.0.0.1", "169.254.169.254", "::1"] {
        routes.push(Route {
            config: config_with_target(json!({"baseUrl": url})),
            names: vec![("public.example", vec![vec!["2a00::1"], vec![later]])],
            requests: vec![short_call.clone(), send()],
            ..route(
                "answer that changes",
                format!("2a00::1, then {later}"),
                REFUSED,
            )
        });
    }
    routes
}

pub(super) fn continuations() -> Vec<Route> {
    let mut routes = Vec::new();
    for url in [
        "http://127.0.0.1:PORT/",
        "http://[::1]:PORT/",
        "http://169.254.169.254/",
        "http://0x7f.1:PORT/",
        "http://public.example:PORT/",
    ] {
        let request = continuation(url, CARD_PATH);
        routes.push(Route {
            config: url_override_config(),
            names: vec![("public.example", vec![vec!["127.0.0.1"]])],
            requests: vec![request.clone()],
            ..route("continuation", url, REFUSED)
        });
        routes.push(Route {
            requests: vec![request],
            ..route("continuation without permission", url, NOT_ALLOWED)
        });
    }
    for path in [
        "http://127.0.0.1:PORT/card",
        "//127.0.0.1:PORT/card",
        "\\\\127.0.0.1:PORT/card",
    ] {
        routes.push(Route {
            config: url_override_config(),
            requests: vec![continuation("{{origin}}", path)],
            ..route("continuation's card path", path, NOT_ALLOWED)
        });
    }
    for path in ["@127.0.0.1:PORT/card", "/../@127.0.0.1:PORT/card"] {
        routes.push(Route {
            config: url_override_config(),
            requests: vec![continuation("{{origin}}", path)],
            ..route("continuation's card path", path, REFUSED)
        });
    }
    routes
}

pub(super) fn callbacks() -> Vec<Route> {
    let request_with_callback =
        |url: &str| with_field(send(), "push_notification_config", json!({"url": url}));
    let mut routes: Vec<Route> = [
        "http://127.0.0.1:PORT/hook",
        "http://localhost:PORT/hook",
        "http://[::1]:PORT/hook",
        "http://2130706433:PORT/hook",
        "http://169.254.169.254/hook",
        "http://10.0.0.1/hook",
    ]
    .into_iter()
    .map(|url| Route {
        requests: vec![request_with_callback(url)],
        ..route("push callback", url, INVALID)
    })
    .collect();
    let policy = json!({"pushCallbackUrls": ["https://cb.example/hooks"]});
    for url in [
        "http://127.0.0.1:PORT/hook",
        "https://other.example/hooks",
        "https://cb.example/hooks/../admin",
    ] {
        routes.push(Route {
            config: with_field(
                config_with_target(json!({"baseUrl": "{{origin}}"})),
                "policy",
                policy.clone(),
            ),
            requests: vec![request_with_callback(url)],
            ..route("push callback beside the list", url, INVALID)
        });
    }
    routes
}
