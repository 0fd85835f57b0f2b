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
