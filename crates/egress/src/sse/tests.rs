#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tolerance;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{get, post};
use crate::{BoxFuture, ReqwestClient, Response};
use futures_util::stream;
use proptest::prelude::*;
use testkit::raw_server::{RawServer, Step, send};
use url::Url;

const LIMITS: SseLimits = SseLimits {
    event_bytes: 1000,
    answer_bytes: 50,
};
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

/// A network that answers every request with the same chunks, so that a test decides where the bytes are split.
struct Scripted {
    content_type: &'static str,
    chunks: Vec<Result<Bytes, NetError>>,
    requests: AtomicUsize,
}

impl HttpClient for Scripted {
    fn exchange(&self, _: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let headers =
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(self.content_type))]);
        let body = Box::pin(stream::iter(self.chunks.clone()));
        Box::pin(ready(Ok(Response {
            status: StatusCode::OK,
            headers,
            body,
        })))
    }
}

fn scripted(chunks: Vec<Result<Bytes, NetError>>) -> Arc<Scripted> {
    Arc::new(Scripted {
        content_type: "text/event-stream",
        chunks,
        requests: AtomicUsize::new(0),
    })
}

fn chunk(bytes: impl AsRef<[u8]>) -> Result<Bytes, NetError> {
    Ok(Bytes::copy_from_slice(bytes.as_ref()))
}

fn cut() -> NetError {
    NetError::new(NetFault::Cut, Sent::Unknown, "cut")
}

fn anywhere() -> Request {
    post(Url::parse("http://example.com/").unwrap())
}

type End = Result<(), NetError>;

/// Returns all items up to the end, which the reader repeats.
async fn items(net: &dyn HttpClient, request: Request, limits: SseLimits) -> (Vec<SseItem>, End) {
    let Opened::Events { mut reader, .. } = open(net, request, limits).await.unwrap() else {
        panic!("an event stream")
    };
    let mut items = Vec::new();
    loop {
        match reader.next().await {
            Some(Ok(item)) => items.push(item),
            end => {
                assert_eq!(reader.next().await, end);
                return (items, end.transpose().map(drop));
            }
        }
    }
}

async fn parsed(chunks: Vec<Result<Bytes, NetError>>) -> (Vec<SseItem>, End) {
    items(&*scripted(chunks), anywhere(), LIMITS).await
}

async fn open_at(server: &RawServer) -> Result<Opened, NetError> {
    let client = ReqwestClient::new().unwrap();
    open(&client, post(server.url("/")), LIMITS).await
}

async fn items_of(server: &RawServer) -> (Vec<SseItem>, End) {
    let client = ReqwestClient::new().unwrap();
    items(&client, post(server.url("/")), LIMITS).await
}

async fn served(steps: Vec<Step>) -> (RawServer, Vec<SseItem>, End) {
    let server = RawServer::start(vec![steps]).await;
    let (items, end) = items_of(&server).await;
    (server, items, end)
}

fn data(data: &str) -> SseItem {
    SseItem::Event {
        event: None,
        data: data.to_owned(),
    }
}

fn fault(end: &End) -> Option<NetFault> {
    end.as_ref().err().map(NetError::fault)
}

// ---- the meaning of lines

#[tokio::test]
async fn events_are_read_with_every_line_end() {
    for end in ["\n", "\r", "\r\n"] {
        let text = "event: error\ndata: 1\n\ndata: 2\n\n".replace('\n', end);
        let (items, ended) = parsed(vec![chunk(&text)]).await;
        assert_eq!(
            items,
            [
                SseItem::Event {
                    event: Some("error".into()),
                    data: "1".into()
                },
                data("2")
            ],
            "{end:?}"
        );
        assert_eq!(ended, Ok(()), "{end:?}");
    }
}

#[tokio::test]
async fn lines_of_one_event_are_joined() {
    let (items, _) = parsed(vec![chunk("data: {\ndata:  \"a\": 1\ndata\ndata:}\n\n")]).await;
    assert_eq!(items, [data("{\n \"a\": 1\n\n}")]);
}

#[tokio::test]
async fn byte_order_mark_ids_and_retries_are_no_data() {
    let (items, end) = parsed(vec![chunk(
        "\u{feff}retry: 5\n\nid: 1\ndata: a\nid: 2\n\nid\n\nevent: x\n\n",
    )])
    .await;
    assert_eq!((items, end), (vec![data("a")], Ok(())));
}

#[tokio::test]
async fn comment_is_reported_as_activity() {
    let (items, end) = parsed(vec![chunk(": ping\n\n:\n\ndata: a\n\n")]).await;
    assert_eq!(
        (items, end),
        (vec![SseItem::Comment, SseItem::Comment, data("a")], Ok(()))
    );
}

#[tokio::test]
async fn event_named_message_is_the_default() {
    let (items, _) = parsed(vec![chunk(
        "event: message\ndata: a\n\nevent:\ndata: b\n\n",
    )])
    .await;
    assert_eq!(items, [data("a"), data("b")]);
}

proptest! {
    /// Bytes that take several lines, line ends, characters and a mark apart when split anywhere.
    #[test]
    fn chunk_boundaries_do_not_matter(cuts in prop::collection::vec(0_usize..90, 0..8)) {
        let text = "\u{feff}data: ä€😀\r\ndata: b\r\n\r\n: c\r\revent: é\rdata: d\r\rdata: {}\n\n";
        let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|w| chunk(&text.as_bytes()[w[0]..w[1]])).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (items, end) = runtime.block_on(parsed(chunks));
        let named = SseItem::Event { event: Some("é".into()), data: "d".into() };
        prop_assert_eq!(items, vec![data("ä€😀\nb"), SseItem::Comment, named, data("{}")]);
        prop_assert_eq!(end, Ok(()));
    }
}

// ---- the end of a stream

#[tokio::test]
async fn unfinished_event_is_dropped_and_is_a_cut() {
    for rest in ["data: b\n", "data: b", "data", "event: x\r\ndata: b\r\n"] {
        let (items, end) = parsed(vec![chunk("data: a\n\n"), chunk(rest)]).await;
        assert_eq!(
            (items, fault(&end)),
            (vec![data("a")], Some(NetFault::Cut)),
            "{rest:?}"
        );
    }
}

#[tokio::test]
async fn body_error_follows_earlier_events() {
    let (items, end) = parsed(vec![
        chunk("data: a\n\ndata: b\n\n"),
        Err(cut()),
        chunk("data: c\n\n"),
    ])
    .await;
    assert_eq!((items, end), (vec![data("a"), data("b")], Err(cut())));
}

#[tokio::test]
async fn events_before_a_bad_line_are_returned() {
    let bytes = b"data: a\n\ndata: b\n\ndata: \xff\n\ndata: c\n\n";
    let (items, end) = parsed(vec![chunk(bytes)]).await;
    assert_eq!(
        (items, fault(&end)),
        (vec![data("a"), data("b")], Some(NetFault::Protocol))
    );
}

#[tokio::test]
async fn event_above_the_limit_is_a_cut() {
    let (items, end) = parsed(vec![
        chunk("data: a\n\n"),
        chunk(format!("data: {}", "b".repeat(995))),
    ])
    .await;
    assert_eq!(
        (items, fault(&end)),
        (vec![data("a")], Some(NetFault::EventTooLarge))
    );
}

#[tokio::test]
async fn events_within_the_limit_may_be_many() {
    let event = format!("data: {}\n\n", "b".repeat(900));
    let (items, end) = parsed(vec![chunk(event.repeat(50))]).await;
    assert_eq!((items.len(), end), (50, Ok(())));
}

// ---- over real sockets

#[tokio::test]
async fn complete_body_ends_cleanly_and_is_polled_once() {
    let whole = format!("{HEAD}transfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n0\r\n\r\n");
    let (server, items, end) = served(vec![send(whole), Step::KeepAlive]).await;
    assert_eq!(
        (items, end, server.requests().len()),
        (vec![data("a")], Ok(()), 1)
    );
}

#[tokio::test]
async fn broken_body_is_a_cut_and_is_polled_once() {
    let part = format!("{HEAD}transfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n");
    let (server, items, end) = served(vec![send(part)]).await;
    assert_eq!(
        (items, fault(&end), server.requests().len()),
        (vec![data("a")], Some(NetFault::Cut), 1)
    );
}

#[tokio::test]
async fn media_type_is_compared_without_case_and_parameters() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream ; charset=utf-8\r\n\r\n";
    let (_, items, end) = served(vec![send(head), send("data: a\n\n")]).await;
    assert_eq!((items, end), (vec![data("a")], Ok(())));
}

#[tokio::test]
async fn request_has_its_body_and_accepts_events() {
    let (server, ..) = served(vec![send(format!("{HEAD}\r\n"))]).await;
    let sent = server.requests().remove(0);
    assert!(
        sent.starts_with("POST / HTTP/1.1\r\n") && sent.ends_with("\r\n\r\n{}"),
        "{sent}"
    );
    assert!(
        sent.contains("accept: text/event-stream, application/json\r\n"),
        "{sent}"
    );
}

#[tokio::test]
async fn keeps_accept_header_of_caller() {
    let server = RawServer::start(vec![vec![send(format!("{HEAD}\r\n"))]]).await;
    let mut request = get(server.url("/"));
    request
        .headers
        .insert(ACCEPT, "text/event-stream".parse().unwrap());
    open(&ReqwestClient::new().unwrap(), request, LIMITS)
        .await
        .unwrap();
    assert!(server.requests()[0].contains("accept: text/event-stream\r\n"));
}

#[tokio::test]
async fn endless_event_closes_its_connection() {
    let endless = vec![
        send(format!("{HEAD}\r\ndata: ")),
        Step::Endless(vec![b'a'; 100]),
    ];
    let (server, closed) = RawServer::start_with_close_signal(vec![endless]).await;
    let (items, end) = items_of(&server).await;
    assert_eq!(
        (items, fault(&end)),
        (vec![], Some(NetFault::EventTooLarge))
    );
    let _gone = closed.acquire().await.unwrap();
}

#[tokio::test]
async fn dropping_the_reader_closes_its_connection() {
    let script = vec![send(format!("{HEAD}\r\ndata: a\n\n")), Step::WaitForClose];
    let (server, closed) = RawServer::start_with_close_signal(vec![script]).await;
    let opened = open_at(&server).await.unwrap();
    let Opened::Events { mut reader, .. } = opened else {
        panic!("an event stream")
    };
    assert_eq!(reader.next().await, Some(Ok(data("a"))));
    assert_eq!(closed.available_permits(), 0);
    drop(reader);
    let _gone = closed.acquire().await.unwrap();
}

// ---- responses without events

async fn answer(steps: Vec<Step>) -> (usize, u16, Bytes, bool) {
    let server = RawServer::start(vec![steps]).await;
    let opened = open_at(&server).await.unwrap();
    let Opened::Answer {
        status,
        body,
        truncated,
        ..
    } = opened
    else {
        panic!("an answer")
    };
    (server.requests().len(), status.as_u16(), body, truncated)
}

#[tokio::test]
async fn plain_answer_is_returned_with_its_headers() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let server = RawServer::start(vec![vec![send(json)]]).await;
    let opened = open_at(&server).await.unwrap();
    let Opened::Answer {
        status,
        headers,
        body,
        truncated,
    } = opened
    else {
        panic!("an answer")
    };
    assert_eq!(
        (
            status.as_u16(),
            headers["content-type"].as_bytes(),
            truncated
        ),
        (200, &b"application/json"[..], false)
    );
    assert_eq!(body, "{}");
}

#[tokio::test]
async fn debug_of_response_hides_headers_and_body() {
    let text = "HTTP/1.1 401 No\r\nx-key: s3cret\r\ncontent-length: 6\r\n\r\ns3cret";
    let server = RawServer::start(vec![vec![send(text)]]).await;
    let opened = open_at(&server).await.unwrap();
    let printed = format!("{opened:?}");
    assert!(
        printed.contains("401") && !printed.contains("s3cret"),
        "{printed}"
    );
}

#[tokio::test]
async fn error_redirect_or_empty_response_is_not_retried() {
    let event_stream = "content-type: text/event-stream\r\n";
    for (head, status) in [
        ("500 Broken", 500),
        ("503 Busy\r\nretry-after: 0", 503),
        ("301 Go\r\nlocation: /b", 301),
        ("307 Go\r\nlocation: http://other.example/b", 307),
        ("204 Nothing", 204),
    ] {
        let kind = if status == 204 { "" } else { event_stream };
        let text = format!("HTTP/1.1 {head}\r\n{kind}content-length: 0\r\n\r\n");
        let expected = (1, status, Bytes::new(), false);
        assert_eq!(
            answer(vec![send(text), Step::KeepAlive]).await,
            expected,
            "{head}"
        );
    }
}

#[tokio::test]
async fn answer_above_the_limit_is_truncated() {
    let endless = vec![
        send("HTTP/1.1 500 Broken\r\n\r\n"),
        Step::Endless(vec![b'a'; 100]),
    ];
    assert_eq!(
        answer(endless).await,
        (1, 500, Bytes::from(vec![b'a'; 50]), true)
    );
}

#[tokio::test]
async fn incomplete_error_is_a_response_incomplete_result_a_cut() {
    let half = |status: &str| {
        vec![send(format!(
            "HTTP/1.1 {status}\r\ncontent-length: 9\r\n\r\n{{\"a\""
        ))]
    };
    assert_eq!(
        answer(half("400 Bad")).await,
        (1, 400, Bytes::from("{\"a\""), true)
    );
    let server = RawServer::start(vec![half("200 OK")]).await;
    let error = open_at(&server).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::Cut, "{error}");
}

#[tokio::test]
async fn error_without_body_is_still_a_response() {
    let head = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 99\r\n\r\nwho?";
    assert_eq!(
        answer(vec![send(head), Step::WaitForClose]).await,
        (1, 401, Bytes::from("who?"), true)
    );
}

#[tokio::test]
async fn client_can_be_replaced() {
    let net = scripted(vec![chunk("data: a\n\n"), Err(cut())]);
    let _ = items(&*net, anywhere(), LIMITS).await;
    assert_eq!(net.requests.load(Ordering::SeqCst), 1);
    let net = Arc::new(Scripted {
        content_type: "text/plain",
        chunks: vec![chunk("hello")],
        requests: AtomicUsize::new(0),
    });
    let Opened::Answer { body, .. } = open(&*net, anywhere(), LIMITS).await.unwrap() else {
        panic!("an answer")
    };
    assert_eq!(body, "hello");
}
