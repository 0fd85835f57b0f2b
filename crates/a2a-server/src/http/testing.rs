//! A server behind its access control for tests.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use http_server::host::HostNames;
use http_server::request_limit::HttpLimits;
use http_server::serve::ConnectionConfig;
use http_server::testing::{Server, start};

use super::access_control::{AccessControl, AccessRules, control};
use super::clients::{ClientRegistry, Proof, RegisteredClient, TokenDigest};

/// Returns the rules of a server that is reachable only from this machine.
pub(super) fn rules() -> AccessRules {
    AccessRules {
        names: HostNames::new([127, 0, 0, 1].into(), []),
        public_url: None,
        proxies: None,
        tls: false,
        limits: HttpLimits::default(),
    }
}

/// Returns the client Ada with the token `token-of-ada`, and the operator with the token `token-of-op`.
pub(super) fn ada_and_the_operator() -> ClientRegistry {
    let client = |name: &str, operator| RegisteredClient {
        name: name.into(),
        proof: Proof::Token(TokenDigest::new(&format!("token-of-{name}"))),
        operator,
    };
    ClientRegistry::new(vec![client("ada", false), client("op", true)])
}

/// Serves `app` behind an access control.
pub(super) async fn guarded(app: Router, rules: AccessRules, clients: ClientRegistry) -> Server {
    let access = AccessControl::new(rules, Arc::new(clients));
    let app = app.layer(from_fn_with_state(access, control));
    start(app, ConnectionConfig::default()).await
}
