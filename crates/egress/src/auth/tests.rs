#![allow(clippy::unwrap_used)]
use http::header::HeaderName;
use serde_json::json;

use super::super::testing::{Next, Scripted, request};
use super::*;
use crate::NetFault;
use crate::credential::OAuth2;

fn authorization(credential: Credential) -> Authorization {
    Authorization {
        credential: Arc::new(credential),
        endpoint: TokenEndpoint {
            allow_private: false,
            trust: None,
        },
    }
}

/// Returns the sent request for one without headers and with a query.
async fn sent(credential: Credential, before: HeaderMap) -> Request {
    let net = Scripted::new([Next::status(200)]);
    let request = Request {
        headers: before,
        ..request("https://a.example/rpc?x=1")
    };
    exchange(&net, authorization(credential), request)
        .await
        .unwrap();
    net.requests().remove(0).1
}

fn key(place: CredentialPlace) -> Credential {
    Credential::ApiKey {
        place,
        key: "open sesame".to_owned().into(),
    }
}

#[tokio::test]
async fn each_credential_kind_has_its_place() {
    let bearer = Credential::Bearer("sesame".to_owned().into());
    let sent_with = sent(bearer, HeaderMap::new()).await;
    assert_eq!(sent_with.headers["authorization"], "Bearer sesame");
    let basic = Credential::Basic {
        username: "desk".into(),
        password: "sesame".to_owned().into(),
    };
    let sent_with = sent(basic, HeaderMap::new()).await;
    assert_eq!(sent_with.headers["authorization"], "Basic ZGVzazpzZXNhbWU=");
    let name = HeaderName::from_static("x-key");
    let sent_with = sent(key(CredentialPlace::Header(name)), HeaderMap::new()).await;
    assert_eq!(sent_with.headers["x-key"], "open sesame");
    let sent_with = sent(key(CredentialPlace::Query("k y".into())), HeaderMap::new()).await;
    assert_eq!(sent_with.url.query(), Some("x=1&k+y=open+sesame"));
}

#[tokio::test]
async fn cookie_is_added_to_existing_cookies() {
    let mut before = HeaderMap::new();
    before.insert(COOKIE, "a=1".parse().unwrap());
    let cookie = Credential::ApiKey {
        place: CredentialPlace::Cookie("key".into()),
        key: "sesame".to_owned().into(),
    };
    assert_eq!(
        sent(cookie, before).await.headers["cookie"],
        "a=1; key=sesame"
    );
}

#[tokio::test]
async fn no_credential_is_printed_with_a_request() {
    let sent_with = sent(key(CredentialPlace::Query("key".into())), HeaderMap::new()).await;
    let printed = format!("{sent_with:?}");
    assert!(!printed.contains("sesame"), "{printed}");
    let bearer = Credential::Bearer("sesame".to_owned().into());
    let headers = sent(bearer, HeaderMap::new()).await.headers;
    let printed = format!("{headers:?}");
    assert!(!printed.contains("sesame"), "{printed}");
}

fn oauth2() -> Credential {
    Credential::OAuth2(Arc::new(OAuth2::new(
        "https://as.example/token".parse().unwrap(),
        "desk".into(),
        "client-secret".to_owned().into(),
        Vec::new(),
    )))
}

fn token_response(token: &str) -> Next {
    Next::json(200, &json!({"access_token": token, "expires_in": 600}))
}

async fn send_once(next: Vec<Next>) -> (Result<u16, NetFault>, Vec<String>) {
    let net = Scripted::new(next);
    let request = request("https://a.example/rpc");
    let outcome = exchange(&net, authorization(oauth2()), request).await;
    let outcome = outcome.map(|response| response.status.as_u16());
    let outcome = outcome.map_err(|error| error.fault());
    (outcome, net.headers("authorization"))
}

const CLIENT: &str = "Basic ZGVzazpjbGllbnQtc2VjcmV0";

#[tokio::test]
async fn refused_token_is_replaced_once() {
    let refused_twice = vec![
        token_response("one"),
        Next::status(401),
        token_response("two"),
        Next::status(401),
    ];
    let (outcome, sent) = send_once(refused_twice).await;
    assert_eq!(outcome, Ok(401));
    assert_eq!(sent, [CLIENT, "Bearer one", CLIENT, "Bearer two"]);
}

#[tokio::test]
async fn repeated_token_is_not_retried() {
    let (outcome, sent) = send_once(vec![
        token_response("one"),
        Next::status(401),
        token_response("one"),
    ])
    .await;
    assert_eq!((outcome, sent.len()), (Ok(401), 3));
}

#[tokio::test]
async fn only_401_replaces_a_token() {
    for status in [403, 500, 503] {
        let (outcome, sent) = send_once(vec![token_response("one"), Next::status(status)]).await;
        assert_eq!((outcome, sent.len()), (Ok(status), 2));
    }
}

#[tokio::test]
async fn without_a_token_no_request_is_sent() {
    let (outcome, sent) = send_once(vec![Next::status(500)]).await;
    assert_eq!(outcome, Err(NetFault::TokenUnavailable));
    assert_eq!(sent, [CLIENT]);
}
