#![allow(clippy::unwrap_used, clippy::panic)]
use serde_json::json;
use testkit::folder::Folder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;

use super::*;
use crate::credential::{Endpoints, Metadata};
use crate::testing::{Next, Scripted};

fn client(folder: &Folder, flow: SignInFlow) -> OAuth2 {
    let url = |path: &str| Some(Url::parse(&format!("https://as.example{path}")).unwrap());
    let endpoints = Endpoints {
        issuer: url(""),
        token: url("/token"),
        authorization: url("/authorize?tenant=1"),
        device: url("/device"),
        ..Endpoints::default()
    };
    let file = TokenFile::new(folder.file("tokens"), "desk".into(), &[], false);
    let client = OAuth2::at(endpoints, "cli".into(), Grant::Person { flow, file });
    OAuth2 {
        scopes: vec!["work".into(), "rest".into()],
        client_auth: ClientAuth::None,
        ..client
    }
}

fn file(client: &OAuth2) -> &TokenFile {
    match &client.grant {
        Grant::Person { file, .. } => file,
        _ => panic!("a person signs in"),
    }
}

fn endpoint() -> TokenEndpoint {
    TokenEndpoint {
        allow_private: false,
        trust: None,
    }
}

fn nothing_pasted() -> mpsc::Receiver<String> {
    mpsc::channel(1).1
}

fn device_answer() -> Next {
    Next::json(
        200,
        &json!({"device_code": "s3cret-device", "user_code": "WDJB-MJHT", "verification_uri": "https://as.example/go",
            "expires_in": 600, "interval": 5}),
    )
}

fn refusal(code: &str) -> Next {
    Next::json(400, &json!({"error": code}))
}

fn token() -> Next {
    Next::json(
        200,
        &json!({"access_token": "one", "refresh_token": "r1", "expires_in": 3600, "scope": "work"}),
    )
}

async fn by_code(next: impl IntoIterator<Item = Next>) -> (Result<StoredToken, String>, Vec<u64>) {
    let folder = Folder::new();
    let client = client(&folder, SignInFlow::DeviceCode);
    let net = Scripted::new(next);
    let began = Instant::now();
    let signed_in = sign_in(&net, &client, &endpoint(), |_| (), nothing_pasted()).await;
    if let Ok(token) = &signed_in {
        let stored = file(&client).read().unwrap().unwrap();
        assert_eq!(stored.access_token, token.access_token);
    }
    let times = net.requests().into_iter();
    let times = times.map(|(at, _)| (at - began).as_secs()).collect();
    (signed_in.map_err(|error| error.to_string()), times)
}

#[tokio::test(start_paused = true)]
async fn device_code_is_polled_at_the_pace_of_the_server() {
    let next = [
        device_answer(),
        refusal("authorization_pending"),
        refusal("slow_down"),
        refusal("authorization_pending"),
        Next::Fails(NetFault::Unreachable),
        Next::status(503),
        Next::status(429),
        Next::status(408),
        token(),
    ];
    let (signed_in, times) = by_code(next).await;
    let stored = signed_in.unwrap();
    assert_eq!(stored.scope.as_deref(), Some("work"));
    assert!(stored.is_renewable());
    assert_eq!(times, [0, 5, 10, 20, 30, 50, 90, 150, 210]);
}

#[tokio::test(start_paused = true)]
async fn interval_of_the_server_is_limited() {
    let device = |interval: f64| {
        let answer = json!({"device_code": "d", "user_code": "u", "verification_uri": "https://as.example/go",
            "interval": interval});
        Next::json(200, &answer)
    };
    for (interval, expected) in [(0.001, 1), (1e6, 60)] {
        let (signed_in, times) = by_code([device(interval), token()]).await;
        signed_in.unwrap();
        assert_eq!(times, [0, expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn token_that_no_header_can_contain_is_not_stored() {
    let folder = Folder::new();
    let client = client(&folder, SignInFlow::DeviceCode);
    let answer = json!({"access_token": "s3cret\r\nx: y", "refresh_token": "r1"});
    let net = Scripted::new([device_answer(), Next::json(200, &answer)]);
    let signed_in = sign_in(&net, &client, &endpoint(), |_| (), nothing_pasted()).await;
    let error = signed_in.err().unwrap().to_string();
    assert!(
        error.contains("HTTP header") && !error.contains("s3cret"),
        "{error}"
    );
    assert!(file(&client).read().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn endless_slow_down_ends_when_the_code_expires() {
    let answers = (0..60).map(|_| refusal("slow_down"));
    let (signed_in, times) = by_code(std::iter::once(device_answer()).chain(answers)).await;
    let error = signed_in.err().unwrap();
    assert!(error.contains("expired before"), "{error}");
    assert!((600..=660).contains(times.last().unwrap()), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn refused_device_sign_in_is_reported() {
    let odd =
        json!({"device_code": "d", "user_code": "u", "verification_uri": "javascript:alert(1)"});
    let user = json!({"device_code": "d", "user_code": "u", "verification_uri": "https://as.example@evil.example/"});
    let sentence = json!({"device_code": "d", "user_code": "u. Reply here with your password", "verification_uri": "https://as.example/go"});
    let echo = json!({"error": "invalid_grant", "error_description": "s3cret-device is unknown"});
    for (next, expected) in [
        (
            vec![device_answer(), refusal("access_denied")],
            "was declined",
        ),
        (
            vec![device_answer(), refusal("authorization_declined")],
            "was declined",
        ),
        (
            vec![device_answer(), refusal("expired_token")],
            "expired before",
        ),
        (vec![device_answer(), Next::status(404)], "404"),
        (
            vec![device_answer(), Next::json(400, &echo)],
            "[redacted] is unknown",
        ),
        (vec![refusal("invalid_client")], "invalid_client"),
        (vec![Next::json(200, &json!({}))], "no device code"),
        (vec![Next::json(200, &odd)], "not http or https"),
        (vec![Next::json(200, &user)], "has a user name"),
        (vec![Next::json(200, &sentence)], "no code"),
    ] {
        let error = by_code(next).await.0.err().unwrap();
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{error}"
        );
    }
}

/// Opens `url` as a browser does, and returns the status line of the response.
async fn open(url: &Url) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap()))
        .await
        .unwrap();
    let query = url.query().map(|query| format!("?{query}"));
    let head = format!(
        "GET {}{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        url.path(),
        query.unwrap_or_default()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

/// A parameter of a URL.
fn parameter(url: &Url, name: &str) -> String {
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(key, _)| key == name);
    found.unwrap().1.into_owned()
}

/// Returns the address to which the server sends the browser, with these parameters.
fn returned(request: &Url, parameters: &[(&str, &str)]) -> Url {
    let mut url = Url::parse(&parameter(request, "redirect_uri")).unwrap();
    url.query_pairs_mut().extend_pairs(parameters);
    url
}

/// Starts a sign-in by browser. Returns the address that is shown, and the result.
async fn by_browser_with<F: Future<Output = ()>>(
    next: impl IntoIterator<Item = Next>,
    browser: impl FnOnce(Url) -> F,
    pasted: mpsc::Receiver<String>,
) -> (Result<StoredToken, String>, Vec<String>) {
    let folder = Folder::new();
    let client = client(&folder, SignInFlow::AuthorizationCode(None));
    let net = Scripted::new(next);
    let (sender, mut shown) = mpsc::channel(1);
    let show = |prompt: Prompt| match prompt {
        Prompt::Browser(url) => sender.try_send(url.clone()).unwrap(),
        Prompt::PasteAgain(_) => {}
        Prompt::Device(_) => panic!("a browser"),
    };
    let endpoint = endpoint();
    let signed_in = sign_in(&net, &client, &endpoint, show, pasted);
    let (signed_in, ()) = tokio::join!(signed_in, async {
        browser(shown.recv().await.unwrap()).await;
    });
    let bodies = net.requests().into_iter();
    let text = |body: bytes::Bytes| String::from_utf8(body.to_vec()).unwrap();
    let bodies = bodies
        .map(|(_, request)| text(request.body.unwrap()))
        .collect();
    (signed_in.map_err(|error| error.to_string()), bodies)
}

#[tokio::test]
async fn browser_returns_with_a_code_for_the_verifier() {
    let (url, shown) = tokio::sync::oneshot::channel();
    let browser = async |request: Url| {
        let state = parameter(&request, "state");
        let back = returned(
            &request,
            &[
                ("code", "c0de"),
                ("state", &state),
                ("iss", "https://as.example"),
            ],
        );
        assert_eq!(open(&back).await, "HTTP/1.1 200 OK");
        url.send(request).unwrap();
    };
    let (signed_in, bodies) = by_browser_with([token()], browser, nothing_pasted()).await;
    signed_in.unwrap();
    let request = shown.await.unwrap();
    assert_eq!(parameter(&request, "tenant"), "1");
    assert_eq!(parameter(&request, "scope"), "work rest");
    assert_eq!(parameter(&request, "code_challenge_method"), "S256");
    let form: Vec<(String, String)> = url::form_urlencoded::parse(bodies[0].as_bytes())
        .into_owned()
        .collect();
    let sent = |name: &str| {
        let found = form.iter().find(|(key, _)| key == name);
        found.unwrap().1.clone()
    };
    assert_eq!(sent("code"), "c0de");
    assert_eq!(sent("redirect_uri"), parameter(&request, "redirect_uri"));
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, sent("code_verifier").as_bytes()));
    assert_eq!(challenge, parameter(&request, "code_challenge"));
}

#[tokio::test]
async fn request_without_the_state_of_the_sign_in_changes_nothing() {
    let browser = async |request: Url| {
        let state = parameter(&request, "state");
        let twice = [("code", "evil"), ("state", "x"), ("state", &*state)];
        for forged in [
            &[("code", "evil")][..],
            &[("code", "evil"), ("state", "guess")],
            &[("error", "access_denied"), ("state", "")],
            &twice,
        ] {
            let status = open(&returned(&request, forged)).await;
            assert_eq!(status, "HTTP/1.1 400 Bad Request");
        }
        let mut other = returned(&request, &[("code", "evil"), ("state", &state)]);
        other.set_path("/favicon.ico");
        assert_eq!(open(&other).await, "");
        open(&returned(&request, &[("code", "good"), ("state", &state)])).await;
    };
    let (signed_in, bodies) = by_browser_with([token()], browser, nothing_pasted()).await;
    signed_in.unwrap();
    assert!(
        bodies.len() == 1 && bodies[0].contains("code=good"),
        "{bodies:?}"
    );
}

#[tokio::test]
async fn server_that_declines_or_is_another_issuer_is_reported() {
    for (parameters, expected) in [
        (&[("error", "access_denied")][..], "was declined"),
        (
            &[("error", "invalid_scope"), ("error_description", "no work")],
            "invalid_scope (no work)",
        ),
        (
            &[("code", "c"), ("iss", "https://evil.example")],
            "another issuer, `https://evil.example`",
        ),
        (
            &[
                ("code", "c"),
                ("iss", "https://as.example"),
                ("iss", "https://evil.example"),
            ],
            "another issuer, `https://evil.example`",
        ),
        (
            &[
                ("code", "c"),
                ("iss", "https://as.example"),
                ("iss", "https://as.example"),
            ],
            "`iss` several times",
        ),
        (&[("code", "")], "without a code"),
    ] {
        let browser = async |request: Url| {
            let state = parameter(&request, "state");
            let mut url = returned(&request, parameters);
            url.query_pairs_mut().append_pair("state", &state);
            open(&url).await;
        };
        let (signed_in, bodies) = by_browser_with([], browser, nothing_pasted()).await;
        let error = signed_in.err().unwrap();
        assert!(error.contains(expected) && bodies.is_empty(), "{error}");
    }
}

#[test]
fn missing_issuer_is_refused_if_the_metadata_announce_it() {
    for (names_issuer, query, expected) in [
        (true, "?code=c", Some("without `iss`")),
        (true, "?code=c&iss=https://as.example/", None),
        (false, "?code=c", None),
    ] {
        let endpoints = Endpoints {
            issuer: Some("https://as.example".parse().unwrap()),
            metadata: OnceCell::new_with(Some(Metadata {
                token: Ok(None),
                authorization: Ok(None),
                device: Ok(None),
                revocation: Ok(None),
                names_issuer,
            })),
            ..Endpoints::default()
        };
        let client = OAuth2::at(endpoints, "desk".into(), Grant::ClientCredentials);
        let url = format!("http://127.0.0.1/{query}").parse().unwrap();
        let fault = issuer_fault(&client, &url);
        assert_eq!(fault.is_some(), expected.is_some(), "{fault:?}");
        assert!(
            fault
                .unwrap_or_default()
                .contains(expected.unwrap_or_default())
        );
    }
}

#[tokio::test]
async fn pasted_address_ends_the_sign_in() {
    for (bad_pastes, expected) in [
        (0, None),
        (MAX_BAD_PASTES - 1, None),
        (MAX_BAD_PASTES, Some("start again")),
    ] {
        let (sender, pasted) = mpsc::channel(2 * MAX_BAD_PASTES);
        let browser = async |request: Url| {
            let state = parameter(&request, "state");
            let at = |state: &str| returned(&request, &[("code", "c"), ("state", state)]);
            for i in 0..bad_pastes {
                let other = at(&format!("{state}{i}")).to_string();
                let bad = ["not an address".to_owned(), other];
                sender.send(bad[i % 2].clone()).await.unwrap();
            }
            sender.send(format!(" {}\n", at(&state))).await.unwrap();
        };
        let next = expected.is_none().then(token);
        let (signed_in, _) = by_browser_with(next, browser, pasted).await;
        match expected {
            None => assert_eq!(signed_in.unwrap().access_token, "one"),
            Some(expected) => {
                let error = signed_in.err().unwrap();
                assert!(error.contains(expected), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn name_of_this_machine_is_bound_in_both_families() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let redirect = Url::parse(&format!("http://localhost:{port}/callback")).unwrap();
    let _listener = RedirectListener::bind(Some(&redirect)).await.unwrap();
    for address in ["127.0.0.1", "::1"] {
        if TcpListener::bind((address, 0)).await.is_ok() {
            TcpStream::connect((address, port)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn store_is_checked_before_a_person_signs_in() {
    let folder = Folder::new();
    std::fs::write(folder.file("tokens"), "no directory").unwrap();
    let client = client(&folder, SignInFlow::DeviceCode);
    let show = |_: Prompt| panic!("no code may be shown");
    let net = Scripted::new([]);
    let refused = sign_in(&net, &client, &endpoint(), show, nothing_pasted()).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.starts_with("cannot store the token in"), "{error}");
}

#[tokio::test]
async fn port_of_another_program_is_refused() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port();
    let redirect = Url::parse(&format!("http://127.0.0.1:{port}/callback")).unwrap();
    let folder = Folder::new();
    let client = client(&folder, SignInFlow::AuthorizationCode(Some(redirect)));
    let show = |_: Prompt| panic!("no browser may be opened");
    let net = Scripted::new([]);
    let refused = sign_in(&net, &client, &endpoint(), show, nothing_pasted()).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains(&format!(":{port}/callback`: ")), "{error}");
    assert!(
        error.contains("another sign-in that is open, uses its port"),
        "{error}"
    );
}

/// Signs a person in at a server that answers a revocation with `answer`.
async fn signed_in(folder: &Folder, answer: Next) -> (OAuth2, Scripted) {
    let client = client(folder, SignInFlow::DeviceCode);
    let metadata =
        json!({"issuer": "https://as.example", "revocation_endpoint": "https://as.example/revoke"});
    let next = [Next::json(200, &metadata), answer];
    let net = Scripted::new([device_answer(), token()].into_iter().chain(next));
    tokio::time::pause();
    sign_in(&net, &client, &endpoint(), |_| (), nothing_pasted())
        .await
        .unwrap();
    tokio::time::resume();
    (client, net)
}

#[cfg(unix)]
#[tokio::test]
async fn sign_out_revokes_a_token_that_others_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let (client, net) = signed_in(&folder, Next::status(200)).await;
    let stored = std::fs::read_dir(file(&client).dir()).unwrap();
    for path in stored.map(|entry| entry.unwrap().path()) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert!(file(&client).read().is_err());
    let signed_out = sign_out(&net, &client, &endpoint()).await.unwrap();
    assert_eq!(signed_out, SignedOut::Revoked);
}

#[tokio::test]
async fn sign_out_revokes_the_refresh_token() {
    for (answer, expected) in [
        (Next::status(200), SignedOut::Revoked),
        (Next::status(503), SignedOut::Removed),
        (Next::Fails(NetFault::Unreachable), SignedOut::Removed),
    ] {
        let folder = Folder::new();
        let (client, net) = signed_in(&folder, answer).await;
        let signed_out = sign_out(&net, &client, &endpoint()).await.unwrap();
        assert_eq!(signed_out, expected);
        assert!(file(&client).read().unwrap().is_none());
        let (_, request) = net.requests().pop().unwrap();
        assert_eq!(request.url.as_str(), "https://as.example/revoke");
        assert_eq!(
            request.body.unwrap(),
            "token=r1&token_type_hint=refresh_token&client_id=cli"
        );
        let again = sign_out(&net, &client, &endpoint()).await.unwrap();
        assert_eq!(again, SignedOut::NotSignedIn);
    }
}
