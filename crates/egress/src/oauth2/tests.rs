#![allow(clippy::unwrap_used)]
use serde_json::json;

use http::{HeaderValue, Method};

use super::super::testing::{Next, Scripted};
use super::*;

const SECRET: &str = "client secret";

fn client() -> OAuth2 {
    OAuth2::new(
        "https://as.example/token".parse().unwrap(),
        "desk".into(),
        SECRET.to_owned().into(),
        vec!["work".into(), "rest".into()],
    )
}

fn endpoint() -> TokenEndpoint {
    TokenEndpoint {
        allow_private: false,
        trust: None,
    }
}

fn token_response(token: &str, more: Value) -> Next {
    let mut body = json!({"access_token": token, "token_type": "bearer"});
    let fields = body.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    Next::json(200, &body)
}

async fn token(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<HeaderValue, NetError> {
    let token = client.tokens.get(obtain(net, client, endpoint)).await?;
    Ok(token.value)
}

async fn ask_once(next: Next) -> Result<HeaderValue, NetError> {
    token(&Scripted::new([next]), &client(), &endpoint()).await
}

#[tokio::test]
async fn token_request_follows_rfc_6749() {
    let net = Scripted::new([token_response("one", json!({}))]);
    token(&net, &client(), &endpoint()).await.unwrap();
    let (_, request) = net.requests().remove(0);
    let body = request.body.unwrap();
    assert_eq!(body, "grant_type=client_credentials&scope=work+rest");
    let kind = &request.headers["content-type"];
    assert_eq!(kind, "application/x-www-form-urlencoded");
    assert_eq!(request.method, Method::POST);
    assert!(!request.repeatable);
}

#[tokio::test]
async fn client_may_authenticate_in_the_body_and_name_an_audience() {
    let net = Scripted::new([token_response("one", json!({}))]);
    let mut client = client();
    client.client_auth = ClientAuth::Post;
    client.audience = Some("https://api.example/".into());
    token(&net, &client, &endpoint()).await.unwrap();
    let (_, request) = net.requests().remove(0);
    assert!(!request.headers.contains_key(AUTHORIZATION));
    assert_eq!(
        request.body.unwrap(),
        "grant_type=client_credentials&scope=work+rest&audience=https%3A%2F%2Fapi.example%2F&client_id=desk&client_secret=client+secret"
    );
}

#[tokio::test]
async fn token_response_is_read_tolerantly() {
    let text = |status, text: &str| Next::Answer(status, None, text.into());
    for next in [
        token_response("one", json!({"token_type": "BearerToken"})),
        token_response(
            "one",
            json!({"token_type": "urn:ietf:params:oauth:token-type:jwt"}),
        ),
        token_response("one", json!({"token_type": ""})),
        token_response("one", json!({"token_type": null})),
        token_response(
            "one",
            json!({"token_type": ["Bearer"], "scope": ["a", "b"]}),
        ),
        token_response("one", json!({"token_type": 1, "scope": {}})),
        text(200, r#"{"access_token": "one"}"#),
        text(201, r#"{"access_token": "one", "error": null}"#),
        text(
            200,
            "\u{feff}{\"access_token\": \"one\", \"expires_in\": \" 60 \"}",
        ),
    ] {
        assert_eq!(ask_once(next).await.unwrap(), "Bearer one");
    }
}

#[tokio::test(start_paused = true)]
async fn token_is_renewed_before_it_expires() {
    for (lifetime, used) in [
        (json!(600), 570),
        (json!("600"), 570),
        (json!(10), 8),
        (json!(2), 1),
        (json!(null), 270),
        (json!(1e300), 24 * 3600 - 30),
    ] {
        let (client, net) = (
            client(),
            Scripted::new([
                token_response("one", json!({"expires_in": lifetime})),
                token_response("two", json!({})),
            ]),
        );
        let endpoint = endpoint();
        token(&net, &client, &endpoint).await.unwrap();
        tokio::time::advance(Duration::from_secs(used) - Duration::from_millis(100)).await;
        token(&net, &client, &endpoint).await.unwrap();
        assert_eq!(net.requests().len(), 1, "{lifetime}");
        tokio::time::advance(Duration::from_millis(200)).await;
        let second = token(&net, &client, &endpoint).await.unwrap();
        assert_eq!(second, "Bearer two", "{lifetime}");
    }
}

#[tokio::test]
async fn concurrent_calls_request_one_token() {
    let (client, net) = (client(), Scripted::new([token_response("one", json!({}))]));
    let endpoint = endpoint();
    let call = || token(&net, &client, &endpoint);
    let (a, b) = tokio::join!(call(), call());
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(net.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failure_reaches_waiting_calls_only() {
    for next in [Next::status(503), Next::Silence] {
        let (client, net) = (
            client(),
            Scripted::new([next, token_response("one", json!({}))]),
        );
        let endpoint = endpoint();
        let call = || token(&net, &client, &endpoint);
        let (a, b) = tokio::join!(call(), call());
        let (a, b) = (a.err().unwrap(), b.err().unwrap());
        assert_eq!(
            (net.requests().len(), a.fault()),
            (1, NetFault::TokenUnavailable)
        );
        assert_eq!(a, b);
        let later = token(&net, &client, &endpoint).await.unwrap();
        assert_eq!(later, "Bearer one");
    }
}

#[tokio::test]
async fn canceled_token_request_frees_the_next_caller() {
    let net = Scripted::new([Next::Silence, token_response("one", json!({}))]);
    let client = client();
    let endpoint = endpoint();
    let first = token(&net, &client, &endpoint);
    assert!(futures_util::poll!(std::pin::pin!(first)).is_pending());
    let second = token(&net, &client, &endpoint).await.unwrap();
    assert_eq!(second, "Bearer one");
}

#[tokio::test]
async fn canceled_token_request_passes_to_the_waiting_caller() {
    let net = Scripted::new([Next::Silence, token_response("one", json!({}))]);
    let client = client();
    let endpoint = endpoint();
    let mut first = Box::pin(token(&net, &client, &endpoint));
    let mut second = Box::pin(token(&net, &client, &endpoint));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(
        net.requests().len(),
        1,
        "the second call waits for the first"
    );
    drop(first);
    assert_eq!(second.await.unwrap(), "Bearer one");
    assert_eq!(net.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn silent_token_server_times_out() {
    let error = ask_once(Next::Silence).await.err().unwrap();
    assert_eq!(error.fault(), NetFault::TokenUnavailable);
    assert!(error.to_string().contains("within 15 seconds"), "{error}");
}

#[tokio::test]
async fn refusal_quotes_the_server_without_the_secret() {
    let description = format!("no client {SECRET} or {}", client().basic().expose_secret());
    let body = json!({"error": "invalid_client", "error_description": description});
    let error = ask_once(Next::json(401, &body)).await.err().unwrap();
    let message = "the authorization server `https://as.example` issued no access token: it answered 401 Unauthorized: \
invalid_client (no client [redacted] or [redacted])";
    assert_eq!(error.to_string(), message);
    assert_eq!(error.sent(), Sent::No);
}

#[tokio::test]
async fn refusal_hides_the_encoded_secret() {
    let body = json!({"error": "invalid_client", "error_description": "desk:client+secret, client%20secret"});
    let error = ask_once(Next::json(401, &body)).await.err().unwrap();
    let message = error.to_string();
    assert!(
        message.ends_with("(desk:[redacted], [redacted])"),
        "{message}"
    );
}

#[tokio::test]
async fn response_without_usable_token_is_an_error() {
    for (next, expected) in [
        (
            Next::Answer(200, None, "s3cret".into()),
            "not a token response",
        ),
        (token_response("", json!({})), "empty"),
        (token_response("s3cret\n", json!({})), "HTTP header"),
        (
            token_response("s3cret", json!({"token_type": "mac"})),
            "`mac`",
        ),
        (
            token_response("s3cret", json!({"token_type": "DPoP"})),
            "`DPoP`",
        ),
        (
            Next::json(
                200,
                &json!({"error": "invalid_scope", "error_description": "no such"}),
            ),
            "it answered invalid_scope (no such)",
        ),
        (
            Next::json(200, &json!({"error": {"message": "disabled"}})),
            "it answered disabled",
        ),
        (Next::json(200, &json!({})), "no `access_token`"),
        (Next::status(524), "it answered 524"),
        (Next::status(302), "a redirect to `an unknown address`"),
        (
            Next::json(400, &json!({"errorSummary": "no such app"})),
            "400 Bad Request: no such app",
        ),
        (
            Next::json(
                400,
                &json!({"title": "Invalid", "detail": "no such client"}),
            ),
            "400 Bad Request: no such client",
        ),
        (
            Next::json(401, &json!({"fault": {"faultstring": "no key"}})),
            "401 Unauthorized: no key",
        ),
        (
            Next::Answer(400, None, "<p>\u{1b}[2Jno\nclient".into()),
            "400 Bad Request: <p>no client",
        ),
        (
            token_response("", json!({"refresh_token": 5})),
            "its token is empty",
        ),
        (Next::Fails(NetFault::Unreachable), "it fails"),
    ] {
        let error = ask_once(next).await.err().unwrap();
        assert_eq!(error.fault(), NetFault::TokenUnavailable, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(expected) && !message.contains("s3cret"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn forbidden_token_endpoint_is_reported() {
    let error = ask_once(Next::Fails(NetFault::AddressRefused)).await;
    assert_eq!(error.err().unwrap().fault(), NetFault::AddressRefused);
}

#[tokio::test]
async fn client_without_a_secret_authenticates_in_its_own_way() {
    let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let key = crate::credential::AssertionKey::parse(pem.as_bytes(), None).unwrap();
    let key = Arc::new(key);
    for (client_auth, expected) in [
        (ClientAuth::None, "&client_id=desk"),
        (
            ClientAuth::PrivateKeyJwt(key),
            "&client_id=desk&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=ey",
        ),
    ] {
        let net = Scripted::new([token_response("one", json!({}))]);
        let mut client = client();
        client.client_auth = client_auth;
        token(&net, &client, &endpoint()).await.unwrap();
        let (_, request) = net.requests().remove(0);
        assert!(!request.headers.contains_key(AUTHORIZATION));
        let body = request.body.unwrap();
        let body = str::from_utf8(&body).unwrap();
        assert!(
            body.contains(expected) && !body.contains("client+secret"),
            "{body}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn token_of_an_endless_file_is_refused() {
    let mut client = client();
    client.grant = Grant::TokenExchange {
        subject: "/dev/zero".into(),
        subject_type: "urn:x".into(),
    };
    let refused = token(&Scripted::new([]), &client, &endpoint()).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("is no regular file"), "{error}");
}

#[tokio::test]
async fn token_of_a_file_is_exchanged() {
    let folder = testkit::folder::Folder::new();
    let subject = folder.file("token");
    let mut client = client();
    client.grant = Grant::TokenExchange {
        subject: subject.clone(),
        subject_type: "urn:x".into(),
    };
    client.scopes.clear();
    client.resource = Some("https://api.example/".into());
    client.params = vec![("requested_token_type".into(), "urn:y".into())];
    let missing = token(&Scripted::new([]), &client, &endpoint()).await;
    assert!(missing.err().unwrap().to_string().contains("cannot read"));
    std::fs::write(&subject, "s3cret-subject\n").unwrap();
    let echo = json!({"error": "invalid_request", "error_description": "s3cret-subject?"});
    let net = Scripted::new([
        Next::json(400, &echo),
        token_response("one", json!({"token_type": "N_A"})),
    ]);
    let error = token(&net, &client, &endpoint()).await.err().unwrap();
    assert!(!error.to_string().contains("s3cret"), "{error}");
    token(&net, &client, &endpoint()).await.unwrap();
    let (_, request) = net.requests().remove(1);
    assert_eq!(
        request.body.unwrap(),
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=s3cret-subject&subject_token_type=urn%3Ax&resource=https%3A%2F%2Fapi.example%2F&requested_token_type=urn%3Ay"
    );
}
