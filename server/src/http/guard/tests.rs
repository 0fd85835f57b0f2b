#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;

use axum::Router;
use axum::routing::{get, post};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::*;
use crate::http::sockets::{Server, ada_and_the_operator, guarded, read, rules};

/// Answers with what the guard has seen.
fn mirror() -> Router {
    let seen = |request: Request| async move {
        let seen = request.extensions().get::<Seen>().unwrap();
        let who = match &seen.who {
            Ok(who) => who.name.to_string(),
            Err(refusal) => refusal.reason.word().into(),
        };
        format!("{} {} {} {who}", seen.client, seen.origin, seen.direct)
    };
    let length = |body: axum::body::Bytes| async move { body.len().to_string() };
    Router::new().route("/", get(seen)).route("/", post(length))
}

async fn open() -> Server {
    guarded(mirror(), rules(), Peers::anybody()).await
}

async fn behind_a_proxy() -> Server {
    let names = Names::new([127, 0, 0, 1].into(), ["agents.example"]);
    let rules = Rules {
        names,
        proxies: Some(Proxies::default()),
        ..rules()
    };
    guarded(mirror(), rules, ada_and_the_operator()).await
}

#[tokio::test]
async fn a_name_that_is_not_the_servers_is_refused() {
    let server = open().await;
    assert_eq!(server.get("/", &["Host: localhost"]).await, 200);
    assert_eq!(server.get("/", &["Host: rebound.example"]).await, 403);
    assert_eq!(server.get("/", &["Host: rebound.example:80"]).await, 403);
}

#[tokio::test]
async fn a_request_names_its_server_once() {
    let server = open().await;
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
    let two = server.ask("GET http://rebound.example/", &["Host: localhost"], "");
    assert_eq!(two.await.status, 400);
    let nobody = server.write("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(read(nobody).await.status, 400);
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_and_the_own_page_is_not() {
    let server = open().await;
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
async fn what_a_page_loads_from_here_is_refused_and_a_link_to_here_is_followed() {
    let server = open().await;
    let fetched = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"];
    assert_eq!(server.get("/", &fetched).await, 403);
    let followed = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"];
    assert_eq!(server.get("/", &followed).await, 200);
    let posted = server.ask("POST /", &followed, "a=b").await;
    assert_eq!(posted.status, 403);
}

#[tokio::test]
async fn a_refusal_says_why_in_the_shape_of_errors() {
    let server = open().await;
    let answer = server.ask("GET /", &["Host: rebound.example"], "").await;
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
async fn who_somebody_is_is_known_before_anything_else() {
    let server = guarded(mirror(), rules(), ada_and_the_operator()).await;
    let name = async |lines: &[&str]| {
        let answer = server.ask("GET /", lines, "").await;
        answer.body.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(name(&["Authorization: Bearer token-of-ada"]).await, "ada");
    assert_eq!(
        name(&["Authorization: Bearer token-of-eve"]).await,
        "UNAUTHENTICATED"
    );
    assert_eq!(name(&[]).await, "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_proxy_nobody_told_of_is_refused_where_nobody_has_to_say_who_he_is() {
    let server = open().await;
    for header in [
        "X-Forwarded-For: 192.0.2.9",
        "Forwarded: for=192.0.2.9",
        "Via: 1.1 somewhere",
    ] {
        assert_eq!(server.get("/", &[header]).await, 403, "{header}");
    }
}

#[tokio::test]
async fn without_a_proxy_nobody_is_believed_about_addresses() {
    let server = guarded(mirror(), rules(), ada_and_the_operator()).await;
    let lines = ["X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https"];
    let answer = server.ask("GET /", &lines, "").await;
    let expected = format!("127.0.0.1 http://{} false", server.address);
    assert!(answer.body.starts_with(&expected), "{}", answer.body);
}

#[tokio::test]
async fn behind_a_proxy_the_client_is_who_the_proxy_says() {
    let server = behind_a_proxy().await;
    let lines = [
        "X-Forwarded-For: 10.9.9.9, 192.0.2.9",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: agents.example",
    ];
    let answer = server.ask("GET /", &lines, "").await;
    let expected = "192.0.2.9 https://agents.example false";
    assert!(answer.body.starts_with(expected), "{}", answer.body);
    let other = ["X-Forwarded-Host: rebound.example"];
    assert_eq!(server.get("/", &other).await, 403);
}

#[tokio::test]
async fn behind_a_proxy_the_machine_itself_is_still_told_from_its_clients() {
    let server = behind_a_proxy().await;
    let answer = server.ask("GET /", &[], "").await;
    assert!(answer.body.contains(" true "), "{}", answer.body);
}

#[tokio::test]
async fn behind_a_proxy_an_own_page_is_one_of_the_forwarded_origin() {
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
fn who_is_no_proxy_is_refused_behind_one() {
    let rules = Rules {
        proxies: Some(Proxies::default()),
        ..rules()
    };
    let guard = Guard::new(rules, Arc::new(ada_and_the_operator()));
    let request = || {
        let request = Request::builder().header("host", "localhost");
        request.body(Body::empty()).unwrap()
    };
    let from = |ip: &str| guard.see((ip.parse::<IpAddr>().unwrap(), 1).into(), &request());
    assert!(from("127.0.0.1").is_ok());
    assert_eq!(
        from("192.0.2.9").unwrap_err().reason,
        Reason::PermissionDenied
    );
}

fn few() -> Rules {
    let some = |number| NonZeroU32::new(number).unwrap();
    let mut rules = rules();
    rules.bounds.per_second = some(1);
    rules.bounds.burst = some(2);
    rules
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_back_each_peer_by_itself() {
    let server = guarded(mirror(), few(), ada_and_the_operator()).await;
    let ada = ["Authorization: Bearer token-of-ada"];
    assert_eq!(server.get("/", &ada).await, 200);
    assert_eq!(server.get("/", &ada).await, 200);
    let third = server.ask("GET /", &ada, "").await;
    assert_eq!(third.status, 429);
    assert!(third.head.contains("retry-after: 1"), "{}", third.head);
    assert_eq!(
        server
            .get("/", &["Authorization: Bearer token-of-op"])
            .await,
        200
    );
}

#[tokio::test]
async fn guessing_tokens_is_slowed_down_by_address() {
    let server = guarded(mirror(), few(), ada_and_the_operator()).await;
    let mut seen = Vec::new();
    for guess in ["a", "b", "c"] {
        let line = format!("Authorization: Bearer {guess}");
        seen.push(server.get("/", &[&line]).await);
    }
    assert_eq!(seen, [200, 200, 429]);
}

#[tokio::test]
async fn who_is_turned_away_again_and_again_is_slowed_down() {
    let server = guarded(mirror(), few(), ada_and_the_operator()).await;
    let strange = ["Host: rebound.example"];
    assert_eq!(server.get("/", &strange).await, 403);
    assert_eq!(server.get("/", &strange).await, 403);
    assert_eq!(server.get("/", &strange).await, 429);
    assert_eq!(
        server
            .get("/", &["Authorization: Bearer token-of-ada"])
            .await,
        200
    );
}

#[tokio::test]
async fn a_peer_has_only_so_many_requests_open() {
    let (started, mut starts) = mpsc::channel::<()>(8);
    let forever = move || {
        let started = started.clone();
        async move {
            started.send(()).await.unwrap();
            std::future::pending::<String>().await
        }
    };
    let app = mirror().route("/forever", get(forever));
    let mut rules = rules();
    rules.bounds.open = 1;
    let server = guarded(app, rules, ada_and_the_operator()).await;
    let ada = "Authorization: Bearer token-of-ada";
    let head = format!("GET /forever HTTP/1.1\r\nHost: localhost\r\n{ada}\r\n\r\n");
    let first = server.write(&head).await;
    starts.recv().await.unwrap();
    assert_eq!(server.get("/", &[ada]).await, 429);
    assert_eq!(
        server
            .get("/", &["Authorization: Bearer token-of-op"])
            .await,
        200
    );
    drop(first);
}

fn small() -> Rules {
    let mut rules = rules();
    rules.bounds.body = 2000;
    rules
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
    let server = guarded(mirror(), small(), Peers::anybody()).await;
    let body = "x".repeat(2000);
    let fits = server.ask("POST /", &[], &body).await;
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
async fn a_body_that_does_not_arrive_ends_the_request() {
    let mut rules = rules();
    rules.bounds.body_time = Duration::from_millis(50);
    let server = guarded(mirror(), rules, Peers::anybody()).await;
    let slow = server.write(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhalf",
    );
    assert_eq!(read(slow.await).await.status, 503);
}

#[tokio::test]
async fn bodies_share_the_room_there_is() {
    let mut rules = rules();
    rules.bounds.body = 4096;
    rules.bounds.bodies = 4096;
    rules.bounds.body_time = Duration::from_millis(100);
    let server = guarded(mirror(), rules, Peers::anybody()).await;
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4096\r\n\r\n";
    let mut first = server.write(head).await;
    first.write_all(b"half").await.unwrap();
    let second = server.ask("POST /", &[], &"x".repeat(4096)).await;
    // The first had taken the room, and gave it back when its time was over.
    assert!(matches!(second.status, 200 | 503), "{}", second.status);
    assert_eq!(read(first).await.status, 503);
    let third = server.ask("POST /", &[], &"x".repeat(4096)).await;
    assert_eq!(third.status, 200);
}
