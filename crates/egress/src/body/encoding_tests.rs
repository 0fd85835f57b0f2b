#![allow(clippy::unwrap_used)]
use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::{HeaderValue, StatusCode};
use testkit::raw_server::{RawServer, send};

use super::*;
use crate::body::{read_all, read_response};
use crate::sse::{Opened, SseItem, SseLimits, open};
use crate::testing::get;
use crate::{HttpClient as _, ReqwestClient};

const TEXT: &[u8] = b"{\"a\": [1, 2, 3], \"text\": \"the same text, the same text\"}";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn bare(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn response(coding: &'static str, status: StatusCode, chunks: Vec<Vec<u8>>) -> Response {
    let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))]);
    let chunks = chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk)));
    Response {
        status,
        headers,
        body: Box::pin(stream::iter(chunks.collect::<Vec<_>>())),
    }
}

async fn read(coding: &'static str, chunks: Vec<Vec<u8>>) -> Result<Bytes, NetError> {
    let decoded = decode(response(coding, StatusCode::OK, chunks), "http://a.example")?;
    assert!(!decoded.headers.contains_key(CONTENT_ENCODING));
    read_all(decoded.body, 1 << 20).await
}

#[tokio::test]
async fn supported_codings_are_decoded_wherever_they_are_split() {
    let named = {
        let mut encoder = flate2::GzBuilder::new()
            .filename("a.json")
            .comment("x")
            .write(Vec::new(), Compression::best());
        encoder.write_all(TEXT).unwrap();
        encoder.finish().unwrap()
    };
    for (coding, bytes) in [
        ("gzip", gzip(TEXT)),
        ("x-GZIP", named),
        ("identity, gzip", gzip(TEXT)),
        ("gzip", [gzip(&TEXT[..9]), gzip(&TEXT[9..])].concat()),
        ("gzip", [gzip(TEXT), vec![0; 20]].concat()),
        ("deflate", zlib(TEXT)),
        ("deflate", bare(TEXT)),
        ("deflate, gzip", gzip(&zlib(TEXT))),
        ("identity", TEXT.to_vec()),
    ] {
        for size in [1, 7, bytes.len()] {
            let chunks = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(coding, chunks).await.unwrap(), TEXT, "{coding} {size}");
        }
    }
    assert_eq!(read("gzip", Vec::new()).await.unwrap(), "");
}

#[tokio::test]
async fn damaged_or_incomplete_body_is_an_error() {
    let whole = gzip(TEXT);
    let mut wrong_sum = whole.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    for (bytes, expected) in [
        (whole[..whole.len() - 1].to_vec(), NetFault::Cut),
        (whole[..20].to_vec(), NetFault::Cut),
        (whole[..5].to_vec(), NetFault::Cut),
        (wrong_sum, NetFault::Protocol),
        (TEXT.to_vec(), NetFault::Protocol),
        ([&whole[..12], &[0xFF; 40]].concat(), NetFault::Protocol),
        (
            [whole.clone(), b"trailing".to_vec()].concat(),
            NetFault::Protocol,
        ),
    ] {
        let error = read("gzip", vec![bytes]).await.unwrap_err();
        assert_eq!(error.fault(), expected, "{error}");
    }
}

#[tokio::test]
async fn unknown_coding_is_named() {
    for coding in ["br", "zstd", "gzip, br", "gzip, gzip, gzip"] {
        let error = read(coding, vec![TEXT.to_vec()]).await.unwrap_err();
        assert_eq!(error.fault(), NetFault::Protocol);
        assert!(error.to_string().contains("content encoding `"), "{error}");
    }
    let failed = response("br", StatusCode::NOT_FOUND, vec![TEXT.to_vec()]);
    let failed = decode(failed, "http://a.example").unwrap();
    assert_eq!(failed.status, StatusCode::NOT_FOUND);
    assert_eq!(read_all(failed.body, 9).await.unwrap(), "");
}

#[tokio::test]
async fn limit_counts_decoded_bytes() {
    let bomb = gzip(&vec![b'a'; 50 << 20]);
    let mut response = decode(response("gzip", StatusCode::OK, vec![bomb]), "x").unwrap();
    let error = read_response(&mut response, 1 << 20).await.unwrap_err();
    assert_eq!(error.fault(), NetFault::TooLarge);
}

/// Returns a response with a compressed body, as a server sends it.
fn compressed(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn client_asks_for_no_compression_and_decodes_it() {
    let server = RawServer::start(vec![vec![send(compressed(
        "application/json",
        &gzip(TEXT),
    ))]])
    .await;
    let client = ReqwestClient::new().unwrap();
    let mut response = client.exchange(get(server.url("/"))).await.unwrap();
    assert_eq!(read_response(&mut response, 100).await.unwrap(), TEXT);
    assert!(server.requests()[0].contains("accept-encoding: identity\r\n"));
}

#[tokio::test]
async fn compressed_event_is_read_before_the_stream_ends() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"data: a\n\n").unwrap();
    encoder.flush().unwrap();
    let part = encoder.get_ref().clone();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n";
    let steps = vec![
        send([head.as_bytes(), &part].concat()),
        testkit::raw_server::Step::WaitForClose,
    ];
    let server = RawServer::start(vec![steps]).await;
    let limits = SseLimits {
        event_bytes: 1000,
        answer_bytes: 1000,
    };
    let client = ReqwestClient::new().unwrap();
    let opened = open(&client, get(server.url("/")), limits).await.unwrap();
    let Opened::Events { mut reader, .. } = opened else {
        unreachable!("an event stream")
    };
    let event = SseItem::Event {
        event: None,
        data: "a".into(),
    };
    assert_eq!(reader.next().await, Some(Ok(event)));
}
