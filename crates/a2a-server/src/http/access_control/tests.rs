#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::*;
use crate::http::testing::{ada_and_the_operator, guarded, rules};
use http_server::testing::{Server, read};

const ADA: &str = "Authorization: Bearer token-of-ada";
const OPERATOR: &str = "Authorization: Bearer token-of-op";

/// Responds with the context of the request.
fn context_echo() -> Router {
    let context = |request: Request| async move {
        let context = request.extensions().get::<RequestContext>().unwrap();
        let who = match &context.principal {
            Ok(principal) => principal.name.to_string(),
            Err(error) => error.reason.name().into(),
        };
        format!(
            "{} {} {} {who}",
            context.client, context.origin, context.direct
        )
    };
    let length = |body: axum::body::Bytes| async move { body.len().to_string() };
    Router::new()
        .route("/", get(context))
        .route("/", post(length))
}

async fn server_without_clients() -> Server {
    guarded(context_echo(), rules(), ClientRegistry::open()).await
}

async fn with_clients(rules: AccessRules) -> Server {
    guarded(context_echo(), rules, ada_and_the_operator()).await
}

async fn behind_a_proxy() -> Server {
    let names = HostNames::new([127, 0, 0, 1].into(), ["agents.example"]);
    let rules = AccessRules {
        names,
        proxies: Some(TrustedProxies::default()),
        ..rules()
    };
    with_clients(rules).await
}

#[tokio::test]
async fn rejects_unknown_host() {
    let server = server_without_clients().await;
    assert_eq!(server.get("/", &["Host: localhost"]).await, 200);
    assert_eq!(server.get("/", &["Host: rebound.example"]).await, 403);
    assert_eq!(server.get("/", &["Host: rebound.example:80"]).await, 403);
}

#[tokio::test]
async fn rejects_repeated_host() {
    let server = server_without_clients().await;
    let twice = ["Host: localhost", "Host: localhost"];
    assert_eq!(server.get("/", &twice).await, 400);
    assert_eq!(server.get("/", &["Host: a@localhost"]).await, 400);
    for host in [
        "Host: [::1]rebound.example",
        "Host: [::1]80",
        "Host: localhost:80:80",
        "Host: localhost:+80",
        "Host: localhost:99999",
    ] {
        assert_eq!(server.get("/", &[host]).await, 400, "{host}");
    }
    assert_eq!(server.get("/", &["Host: [::1]:80"]).await, 200);
    let two = server.request("GET http://rebound.example/", &["Host: localhost"], "");
    assert_eq!(two.await.status, 400);
    let anonymous = server.write("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(read(anonymous).await.status, 400);
}

#[tokio::test]
async fn rejects_foreign_origin_and_admits_own() {
    let server = server_without_clients().await;
    let own = format!("Origin: http://{}", server.address);
    assert_eq!(server.get("/", &[&own]).await, 200);
    let other_port = format!("Origin: http://127.0.0.1:{}", server.address.port() ^ 1);
    for origin in [
        "Origin: https://evil.example",
        "Origin: null",
        &other_port,
        &own.replace("http:", "https:"),
    ] {
        assert_eq!(server.get("/", &[origin]).await, 403, "{origin}");
    }
}

#[tokio::test]
async fn pages_of_others_may_read_only_the_catalog_of_a_public_server() {
    let page = ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"];
    let path = "/.well-known/ai-catalog.json";
    let public = AccessRules {
        public_url: Some("https://agents.example".parse().unwrap()),
        ..rules()
    };
    let app = || context_echo().route(path, get(|| async { "catalog" }));
    let server = guarded(app(), public, ada_and_the_operator()).await;
    assert_eq!(server.get(path, &page).await, 200);
    assert_eq!(server.get("/", &page).await, 403);
    assert_eq!(server.get(path, &["Host: rebound.example"]).await, 403);
    let posted = server.request(&format!("POST {path}"), &page, "").await;
    assert_eq!(posted.status, 403);
    let private = guarded(app(), rules(), ada_and_the_operator()).await;
    assert_eq!(private.get(path, &page).await, 403);
}

#[tokio::test]
async fn rejects_cross_site_request_and_admits_link() {
    let server = server_without_clients().await;
    let fetched = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"];
    assert_eq!(server.get("/", &fetched).await, 403);
    let followed = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"];
    assert_eq!(server.get("/", &followed).await, 200);
    let posted = server.request("POST /", &followed, "a=b").await;
    assert_eq!(posted.status, 403);
}

#[tokio::test]
async fn rejection_has_the_form_of_the_binding() {
    let server = server_without_clients().await;
    let answer = server
        .request("GET /", &["Host: rebound.example"], "")
        .await;
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["error"]["code"], 403);
    assert_eq!(body["error"]["details"][0]["reason"], "PERMISSION_DENIED");
    assert!(
        body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("--host")
    );
}

#[tokio::test]
async fn request_context_names_the_principal() {
    let server = with_clients(rules()).await;
    let name = async |lines: &[&str]| {
        let answer = server.request("GET /", lines, "").await;
        answer.body.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(name(&[ADA]).await, "ada");
    assert_eq!(
        name(&["Authorization: Bearer token-of-eve"]).await,
        "UNAUTHENTICATED"
    );
    assert_eq!(name(&[]).await, "UNAUTHENTICATED");
}

#[tokio::test]
async fn answer_after_the_removal_of_its_client_is_refused() {
    // Removes its client before it answers, without a pause.
    let removal = |request: Request| async move {
        let context = request.extensions().get::<RequestContext>().unwrap();
        context.principal.as_ref().unwrap().revoked.cancel();
        "the canceled task"
    };
    let app = Router::new().route("/", get(removal));
    let server = guarded(app, rules(), ada_and_the_operator()).await;
    let status = server.get("/", &[ADA]).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn rejects_forwarded_request_without_trusted_proxy() {
    let server = server_without_clients().await;
    for header in [
        "X-Forwarded-For: 192.0.2.9",
        "Forwarded: for=192.0.2.9",
        "Via: 1.1 somewhere",
    ] {
        assert_eq!(server.get("/", &[header]).await, 403, "{header}");
    }
}

#[tokio::test]
async fn ignores_forwarded_address_without_proxy() {
    let server = with_clients(rules()).await;
    let lines = ["X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https"];
    let answer = server.request("GET /", &lines, "").await;
    let expected = format!("127.0.0.1 http://{} false", server.address);
    assert!(answer.body.starts_with(&expected), "{}", answer.body);
}

#[tokio::test]
async fn uses_forwarded_address_behind_proxy() {
    let server = behind_a_proxy().await;
    let lines = [
        "X-Forwarded-For: 10.9.9.9, 192.0.2.9",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: agents.example",
    ];
    let answer = server.request("GET /", &lines, "").await;
    let expected = "192.0.2.9 https://agents.example false";
    assert!(answer.body.starts_with(expected), "{}", answer.body);
    let other = ["X-Forwarded-Host: rebound.example"];
    assert_eq!(server.get("/", &other).await, 403);
}

#[tokio::test]
async fn local_request_is_direct_behind_proxy() {
    let server = behind_a_proxy().await;
    let answer = server.request("GET /", &[], "").await;
    assert!(answer.body.contains(" true "), "{}", answer.body);
}

#[tokio::test]
async fn own_origin_is_the_forwarded_one_behind_proxy() {
    let server = behind_a_proxy().await;
    let lines = [
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: agents.example",
        "Origin: https://agents.example",
    ];
    assert_eq!(server.get("/", &lines).await, 200);
    assert_eq!(server.get("/", &lines[2..]).await, 403);
}

#[test]
fn rejects_direct_request_behind_proxy() {
    let rules = AccessRules {
        proxies: Some(TrustedProxies::default()),
        ..rules()
    };
    let guard = AccessControl::new(rules, Arc::new(ada_and_the_operator()));
    let request = || {
        let request = Request::builder().header("host", "localhost");
        request.body(Body::empty()).unwrap()
    };
    let from = |ip: &str| guard.context((ip.parse::<IpAddr>().unwrap(), 1).into(), &request());
    assert!(from("127.0.0.1").is_ok());
    assert_eq!(
        from("192.0.2.9").unwrap_err().reason,
        ErrorReason::PermissionDenied
    );
}

fn low_rate_rules() -> AccessRules {
    let mut rules = rules();
    rules.limits.requests_per_second = NonZeroU32::MIN;
    rules.limits.burst = NonZeroU32::new(2).unwrap();
    rules
}

#[tokio::test]
async fn rate_limit_counts_each_client() {
    let server = with_clients(low_rate_rules()).await;
    assert_eq!(server.get("/", &[ADA]).await, 200);
    assert_eq!(server.get("/", &[ADA]).await, 200);
    let third = server.request("GET /", &[ADA], "").await;
    assert_eq!(third.status, 429);
    assert!(third.head.contains("retry-after: 1"), "{}", third.head);
    assert_eq!(server.get("/", &[OPERATOR]).await, 200);
}

#[tokio::test]
async fn rate_limit_slows_token_guessing_by_address() {
    let server = with_clients(low_rate_rules()).await;
    let mut context = Vec::new();
    for guess in ["a", "b", "c"] {
        let line = format!("Authorization: Bearer {guess}");
        context.push(server.get("/", &[&line]).await);
    }
    assert_eq!(context, [200, 200, 429]);
}

#[tokio::test]
async fn rate_limit_counts_rejected_requests() {
    let server = with_clients(low_rate_rules()).await;
    let strange = ["Host: rebound.example"];
    assert_eq!(server.get("/", &strange).await, 403);
    assert_eq!(server.get("/", &strange).await, 403);
    assert_eq!(server.get("/", &strange).await, 429);
    assert_eq!(server.get("/", &[ADA]).await, 200);
}

#[tokio::test]
async fn open_requests_of_a_client_are_bounded() {
    let (started, mut starts) = mpsc::channel::<()>(8);
    let forever = move || {
        let started = started.clone();
        async move {
            started.send(()).await.unwrap();
            std::future::pending::<String>().await
        }
    };
    let app = context_echo().route("/forever", get(forever));
    let mut rules = rules();
    rules.limits.open_requests = 1;
    let server = guarded(app, rules, ada_and_the_operator()).await;
    let head = format!("GET /forever HTTP/1.1\r\nHost: localhost\r\n{ADA}\r\n\r\n");
    let first = server.write(&head).await;
    starts.recv().await.unwrap();
    assert_eq!(server.get("/", &[ADA]).await, 429);
    assert_eq!(server.get("/", &[OPERATOR]).await, 200);
    drop(first);
}

fn small_body_rules() -> AccessRules {
    let mut rules = rules();
    rules.limits.body_bytes = 2000;
    rules
}

#[tokio::test]
async fn rejects_large_body_with_and_without_length() {
    let server = guarded(context_echo(), small_body_rules(), ClientRegistry::open()).await;
    let body = "x".repeat(2000);
    let fits = server.request("POST /", &[], &body).await;
    assert_eq!((fits.status, fits.body.as_str()), (200, "2000"));
    let announced = server.write(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2001\r\n\r\n",
    );
    assert_eq!(read(announced.await).await.status, 413);
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n7d1\r\n{body}x\r\n0\r\n\r\n"
    );
    assert_eq!(read(server.write(&chunked).await).await.status, 413);
}

#[tokio::test]
async fn body_that_stalls_ends_the_request() {
    let mut rules = rules();
    rules.limits.body_timeout = Duration::from_millis(50);
    let server = guarded(context_echo(), rules, ClientRegistry::open()).await;
    let slow = server.write(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhalf",
    );
    assert_eq!(read(slow.await).await.status, 503);
}

/// Returns rules with limits of 8,000 bytes of bodies, 4,000 of them for one client, and a long timeout.
fn small_budget_rules() -> AccessRules {
    let mut rules = rules();
    rules.limits.body_bytes = 4000;
    rules.limits.total_body_bytes = 8000;
    rules.limits.body_bytes_per_client = 4000;
    rules.limits.body_timeout = Duration::from_secs(3600);
    rules
}

/// Sends the head of a request and the beginning of its body of `length` bytes.
async fn send_unfinished_body(server: &Server, who: &str, length: &str, begins: &str) -> TcpStream {
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{who}\r\n{length}\r\n\r\n");
    let stream = server.write(&format!("{head}{begins}")).await;
    // One runtime serves both connections, so it has read the first request when it answers the second.
    assert_eq!(server.get("/", &[who]).await, 200);
    stream
}

async fn within_timeout<F: Future>(answer: F) -> F::Output {
    let answer = tokio::time::timeout(Duration::from_secs(20), answer);
    answer.await.expect("there is no answer")
}

#[tokio::test]
async fn unfinished_bodies_of_one_client_leave_room_for_others() {
    let mut rules = rules();
    rules.limits.body_timeout = Duration::from_secs(3600);
    let server = with_clients(rules).await;
    let mut connections = Vec::new();
    for _ in 0..13 {
        let chunked = "Transfer-Encoding: chunked";
        connections.push(send_unfinished_body(&server, ADA, chunked, "1\r\n{\r\n").await);
    }
    let answer = within_timeout(server.request("POST /", &[OPERATOR], "small")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "5"));
}

#[tokio::test]
async fn announced_body_that_does_not_arrive_takes_no_room() {
    let server = with_clients(small_budget_rules()).await;
    let _first = send_unfinished_body(&server, ADA, "Content-Length: 4000", "").await;
    let answer = within_timeout(server.request("POST /", &[ADA], &"x".repeat(4000))).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "4000"));
}

/// Returns a server with the route of `context_echo`, and `/hold`, which keeps its body in memory and reports that.
fn app_that_holds_bodies() -> (Router, mpsc::Receiver<()>) {
    let (arrived, body_arrivals) = mpsc::channel::<()>(8);
    let hold = move |body: axum::body::Bytes| async move {
        arrived.send(()).await.unwrap();
        std::future::pending::<()>().await;
        body.len().to_string()
    };
    (context_echo().route("/hold", post(hold)), body_arrivals)
}

/// Sends a body of 4,000 bytes, which the server keeps in memory.
async fn send_held_body(
    server: &Server,
    who: &str,
    body_arrivals: &mut mpsc::Receiver<()>,
) -> TcpStream {
    let head = format!("POST /hold HTTP/1.1\r\nHost: localhost\r\n{who}\r\nContent-Length: 4000");
    let stream = server
        .write(&format!("{head}\r\n\r\n{}", "x".repeat(4000)))
        .await;
    within_timeout(body_arrivals.recv()).await.unwrap();
    stream
}

#[tokio::test]
async fn client_over_its_share_of_bodies_is_refused_alone() {
    let (app, mut body_arrivals) = app_that_holds_bodies();
    let server = guarded(app, small_budget_rules(), ada_and_the_operator()).await;
    let _held = send_held_body(&server, ADA, &mut body_arrivals).await;
    let refused = within_timeout(server.request("POST /", &[ADA], "more")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    let other = within_timeout(server.request("POST /", &[OPERATOR], &"x".repeat(4000))).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn body_beyond_the_total_is_unavailable_for_now() {
    let (app, mut body_arrivals) = app_that_holds_bodies();
    let mut rules = small_budget_rules();
    rules.limits.total_body_bytes = 6000;
    let server = guarded(app, rules, ada_and_the_operator()).await;
    let held_body = send_held_body(&server, ADA, &mut body_arrivals).await;
    let refused = within_timeout(server.request("POST /", &[OPERATOR], &"x".repeat(4000))).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    drop(held_body);
}

#[tokio::test]
async fn body_that_is_cut_short_gives_its_room_back() {
    let server = with_clients(small_budget_rules()).await;
    for _ in 0..4 {
        let stream =
            send_unfinished_body(&server, ADA, "Content-Length: 4000", &"x".repeat(3000)).await;
        drop(stream);
    }
    let served = async {
        let body = "x".repeat(4000);
        while server.request("POST /", &[ADA], &body).await.status != 200 {}
    };
    within_timeout(served).await;
}

#[tokio::test]
async fn guesses_of_a_token_are_delayed() {
    let server = with_clients(rules()).await;
    let mut statuses = Vec::new();
    for guess in 0..100 {
        let header = format!("Authorization: Bearer guess-{guess}");
        statuses.push(server.get("/", &[&header]).await);
    }
    let verified = statuses.iter().filter(|status| **status != 429).count();
    assert!((20..60).contains(&verified), "{statuses:?}");
    assert_eq!(server.get("/", &[]).await, 200, "a request without a token");
}
