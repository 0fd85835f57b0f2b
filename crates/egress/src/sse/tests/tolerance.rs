//! What servers send in addition.

use super::*;

#[tokio::test]
async fn lines_without_meaning_are_ignored() {
    for ignored in [
        "unknown: 1\n\n",
        "no colon\n\n",
        "id: a\0b\n\n",
        "retry: soon\n\n",
        "id\n\nretry\n\n",
        "event:\n\n",
        "event\r\rx\r\n\r\n",
        "unknown: \u{feff}\n",
        "\u{feff}data: b\n\n",
    ] {
        let text = format!("data: a\n\n{ignored}event: x\nevent\ndata: c\n\n");
        let (items, end) = parsed(vec![chunk(text)]).await;
        assert_eq!(
            (items, end),
            (vec![data("a"), data("c")], Ok(())),
            "{ignored:?}"
        );
    }
}

#[tokio::test]
async fn redirect_within_the_origin_leads_to_the_stream() {
    let redirect = "HTTP/1.1 307 Go\r\nlocation: /b/\r\ncontent-length: 0\r\n\r\n";
    let events = format!("{HEAD}\r\ndata: a\n\n");
    let server = RawServer::start(vec![vec![send(redirect)], vec![send(events)]]).await;
    let client = ReqwestClient::new().unwrap();
    let (items, _) = items(&client, post(server.url("/b")), LIMITS).await;
    assert_eq!(items, [data("a")]);
    assert!(server.requests()[1].starts_with("POST /b/ "));
}

/// Returns a network whose answer has this content type.
fn labelled(content_type: &'static str, chunks: Vec<Result<Bytes, NetError>>) -> Scripted {
    Scripted {
        content_type,
        chunks,
        requests: AtomicUsize::new(0),
    }
}

#[tokio::test]
async fn events_are_read_whatever_their_label() {
    for label in [
        "application/json",
        "text/plain",
        "text/html",
        "",
        "application/octet-stream",
        "text/event-stream, application/json",
    ] {
        for text in [
            "data: a\n\n",
            ": ping\n\ndata: a\n\n",
            "\u{feff}\n\nid: 1\ndata: a\n\n",
            "retry: 9\nevent: message\ndata: a\n\n",
        ] {
            for size in [1, 1000] {
                let chunks = text.as_bytes().chunks(size).map(chunk).collect();
                let net = labelled(label, chunks);
                let (items, end) = items(&net, anywhere(), LIMITS).await;
                assert_eq!(items.last(), Some(&data("a")), "{label} {text:?}");
                assert_eq!(end, Ok(()));
            }
        }
    }
}

#[tokio::test]
async fn body_that_does_not_begin_like_events_is_an_answer() {
    for text in [
        "{\"data\": 1}",
        "",
        "  ",
        "dat",
        "database: x",
        "<html>",
        "\u{feff}[1]",
    ] {
        let net = labelled("application/json", vec![chunk(text)]);
        let opened = open(&net, anywhere(), LIMITS).await.unwrap();
        let Opened::Answer { body, .. } = opened else {
            panic!("{text:?}")
        };
        assert_eq!(body, text.as_bytes());
    }
    let net = labelled("", vec![chunk("da"), Err(cut())]);
    assert_eq!(open(&net, anywhere(), LIMITS).await.unwrap_err(), cut());
}

#[tokio::test]
async fn json_with_the_label_of_events_is_one_event() {
    let pretty = "\u{feff}\r\n {\r\n\r\n  \"a\": 1\n}\n";
    for size in [1, 2, 3, 1000] {
        for (text, expected) in [("{\"a\": 1}", "{\"a\": 1}"), (pretty, "{\n  \"a\": 1\n}")] {
            let chunks = text.as_bytes().chunks(size).map(chunk).collect();
            let (items, end) = parsed(chunks).await;
            assert_eq!((items, end), (vec![data(expected)], Ok(())), "{size}");
        }
    }
    for cut_off in ["{\"a\": ", "{\"a\": 1}{"] {
        let (items, end) = parsed(vec![chunk(cut_off)]).await;
        assert_eq!((items, fault(&end)), (vec![], Some(NetFault::Cut)));
    }
    let large = format!("{{\"a\": \"{}\"}}", "\n\nx".repeat(1000));
    let (items, end) = parsed(vec![chunk(large)]).await;
    let too_large = Some(NetFault::EventTooLarge);
    assert_eq!((items, fault(&end)), (vec![], too_large));
}

#[tokio::test]
async fn last_event_needs_no_blank_line_if_its_json_is_whole() {
    for rest in [
        "data: {\"b\":1}",
        "data: {\"b\":1}\n",
        "data: {\"b\":1}\r\n",
        "data: {\"b\":1}\r",
    ] {
        let (items, end) = parsed(vec![chunk("data: a\n\n"), chunk(rest)]).await;
        assert_eq!(
            (items, end),
            (vec![data("a"), data("{\"b\":1}")], Ok(())),
            "{rest:?}"
        );
    }
    for rest in ["data: {\"b\":", "data: 1\n", "data: {\"b\":1}\ndata: {\n"] {
        let (items, end) = parsed(vec![chunk("data: a\n\n"), chunk(rest)]).await;
        let expected = (vec![data("a")], Some(NetFault::Cut));
        assert_eq!((items, fault(&end)), expected, "{rest:?}");
    }
    let (items, end) = parsed(vec![chunk("data: {\"b\":1}"), Err(cut())]).await;
    assert_eq!((items, end), (vec![], Err(cut())));
}

#[tokio::test]
async fn events_in_another_encoding_say_which() {
    for (bytes, words) in [
        (
            &b"\x1f\x8b\x08\0"[..],
            "compressed with gzip without a Content-Encoding",
        ),
        (b"\xff\xfed\0a\0", "UTF-16, not UTF-8"),
        (b"\xfe\xff\0d\0a", "UTF-16, not UTF-8"),
    ] {
        for size in [1, 1000] {
            let (items, end) = parsed(bytes.chunks(size).map(chunk).collect()).await;
            assert_eq!((items, fault(&end)), (vec![], Some(NetFault::Protocol)));
            assert!(end.unwrap_err().to_string().contains(words));
        }
    }
}
