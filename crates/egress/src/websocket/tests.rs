#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod opening;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::socket::{CONTROL_PERIOD, ControlRate, MAX_CONTROL_FRAMES};
use super::*;
use crate::testing::{assert_fault, tls_server};
use crate::{NetFault, ReqwestClient, Sent};
use testkit::http::{Connection, Server};
use testkit::raw_server::{RawServer, Step, send};
use testkit::websocket::{Reader, frame, switching};

fn dial(url: impl AsRef<str>) -> Dial {
    Dial {
        url: Url::parse(url.as_ref()).unwrap(),
        protocols: vec!["a2a-v1".into()],
        headers: HeaderMap::new(),
        access: AddressPolicy::Loopback,
        trust: None,
        frame_bytes: 1000,
    }
}

async fn open(dial: Dial) -> Result<Opened, WsError> {
    connect(&ReqwestClient::new().unwrap(), dial).await
}

/// Returns a server that answers the handshake with `more` headers and sends `bytes`, and the head of the request with
/// the connection.
async fn server(
    more: &'static str,
    bytes: Vec<u8>,
) -> (String, oneshot::Receiver<(String, Reader<TcpStream>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/p?q=1", listener.local_addr().unwrap());
    let (sender, accepted) = oneshot::channel();
    tokio::spawn(async move {
        let mut connection = Connection::new(listener.accept().await.unwrap().0);
        let request = connection.next().await.unwrap().unwrap();
        let mut answer = switching(&request, more).into_bytes();
        answer.extend_from_slice(&bytes);
        connection.write(&answer).await.unwrap();
        let (stream, ahead) = connection.into_parts();
        drop(sender.send((request.head, Reader::new(stream, ahead))));
    });
    (url, accepted)
}

async fn opened(bytes: Vec<u8>) -> (Opened, Reader<TcpStream>) {
    let (url, accepted) = server("", bytes).await;
    let opened = open(dial(url)).await.unwrap();
    (opened, accepted.await.unwrap().1)
}

/// Returns the fault with which the connection ends next.
async fn broken(opened: &mut Opened) -> NetFault {
    match opened.receiver.next().await {
        Frame::Broken(error) => error.fault(),
        other => panic!("{other:?}"),
    }
}

/// Returns the next frame of a client: its first byte and its payload.
async fn read_frame(client: &mut Reader<TcpStream>) -> (u8, Vec<u8>) {
    let frame = client.frame().await.unwrap().unwrap();
    assert!(frame.masked, "a client masks its frames");
    (frame.first, frame.payload)
}

#[tokio::test]
async fn texts_pass_in_both_directions() {
    let (url, accepted) = server("sec-websocket-protocol: a2a-v1\r\n", frame(0x81, b"hello")).await;
    let mut opened = open(dial(url)).await.unwrap();
    let (head, mut socket) = accepted.await.unwrap();
    assert_eq!(opened.protocol.as_deref(), Some("a2a-v1"));
    assert!(matches!(opened.receiver.next().await, Frame::Text(text) if text == "hello"));
    opened.sender.text("hi".into()).await.unwrap();
    assert_eq!(read_frame(&mut socket).await, (0x81, b"hi".to_vec()));
    assert!(head.starts_with("GET /p?q=1 HTTP/1.1\r\n"), "{head}");
    let names = head.lines().filter_map(|line| line.split_once(": "));
    let has = |name: &str, value: &str| names.clone().any(|pair| pair == (name, value));
    assert!(
        has("upgrade", "websocket") && has("connection", "Upgrade"),
        "{head}"
    );
    assert!(
        has("sec-websocket-version", "13") && has("sec-websocket-protocol", "a2a-v1"),
        "{head}"
    );
    assert!(!head.contains("sec-websocket-extensions"), "{head}");
}

#[tokio::test]
async fn message_above_the_cap_closes_with_1009() {
    let (mut opened, mut socket) = opened(frame(0x81, &[b'a'; 1001])).await;
    let Frame::Broken(error) = opened.receiver.next().await else {
        panic!("the message was accepted");
    };
    assert_eq!(error.fault(), NetFault::TooLarge, "{error}");
    let (first, payload) = read_frame(&mut socket).await;
    assert_eq!((first, &payload[..2]), (0x88, &1009u16.to_be_bytes()[..]));
    assert!(matches!(opened.receiver.next().await, Frame::Broken(_)));
}

#[tokio::test]
async fn fragments_above_the_cap_close_with_1009() {
    let mut bytes = frame(0x01, &[b'a'; 600]);
    bytes.extend(frame(0x80, &[b'a'; 600]));
    let (mut opened, _socket) = opened(bytes).await;
    assert_eq!(broken(&mut opened).await, NetFault::TooLarge);
}

#[tokio::test]
async fn fragments_are_one_text_and_binary_is_dropped_with_its_size() {
    let mut bytes = frame(0x01, b"one ");
    bytes.extend(frame(0x80, b"text"));
    bytes.extend(frame(0x82, &[0; 7]));
    let (mut opened, _socket) = opened(bytes).await;
    assert!(matches!(opened.receiver.next().await, Frame::Text(text) if text == "one text"));
    assert!(matches!(opened.receiver.next().await, Frame::Binary(7)));
}

#[tokio::test]
async fn incomplete_frame_is_not_returned() {
    let mut bytes = frame(0x81, b"whole");
    bytes.extend_from_slice(&frame(0x81, b"half a frame")[..6]);
    let (mut opened, socket) = opened(bytes).await;
    drop(socket);
    assert!(matches!(opened.receiver.next().await, Frame::Text(text) if text == "whole"));
    assert_eq!(broken(&mut opened).await, NetFault::Cut);
}

#[tokio::test]
async fn invalid_frame_closes_with_protocol_error() {
    for bytes in [
        frame(0xF1, b"reserved bits"),
        vec![0x81, 0x81, 0, 0, 0, 0, b'm'],
        frame(0x81, b"\xff not utf-8"),
        frame(0x80, b"goes on with nothing"),
    ] {
        let (mut opened, _socket) = opened(bytes).await;
        assert_eq!(broken(&mut opened).await, NetFault::Protocol);
    }
}

#[tokio::test]
async fn pong_repeats_ping_payload() {
    let (mut opened, mut socket) = opened(frame(0x89, b"there?")).await;
    assert!(matches!(opened.receiver.next().await, Frame::Ping));
    let reading = tokio::spawn(async move { opened.receiver.next().await });
    assert_eq!(read_frame(&mut socket).await, (0x8A, b"there?".to_vec()));
    reading.abort();
}

#[tokio::test]
async fn ping_is_sent_and_pong_is_reported() {
    let (mut opened, mut socket) = opened(Vec::new()).await;
    opened.sender.ping().await.unwrap();
    assert_eq!(read_frame(&mut socket).await.0, 0x89);
    let pong = frame(0x8A, b"");
    socket.stream.write_all(&pong).await.unwrap();
    assert!(matches!(opened.receiver.next().await, Frame::Pong));
}

#[tokio::test]
async fn flood_of_control_frames_ends_the_connection() {
    for first in [0x89, 0x8A] {
        let (mut opened, mut socket) = opened(frame(first, &[b'x'; 125]).repeat(2000)).await;
        let mut admitted = 0;
        let error = loop {
            match opened.receiver.next().await {
                Frame::Ping | Frame::Pong => admitted += 1,
                Frame::Broken(error) => break error,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((admitted, error.fault()), (256, NetFault::Protocol));
        assert!(error.to_string().contains("pings and pongs"), "{error}");
        let close = loop {
            let (first, payload) = read_frame(&mut socket).await;
            if first == 0x88 {
                break payload;
            }
        };
        assert_eq!(close[..2], 1008u16.to_be_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn control_frames_at_a_usual_rate_are_admitted() {
    let mut rate = ControlRate::new();
    for _ in 0..100 {
        assert!((0..MAX_CONTROL_FRAMES).all(|_| rate.admit()));
        assert!(!rate.admit());
        tokio::time::advance(CONTROL_PERIOD).await;
    }
}

/// A server that reads nothing must not block senders for ever.
#[tokio::test(start_paused = true)]
async fn message_that_the_server_does_not_read_times_out() {
    let (near, _far) = tokio::io::duplex(1024);
    let (sender, _receiver) = socket::from_upgraded(Box::new(near), 1000).await;
    let error = sender.text("a".repeat(4096)).await.unwrap_err();
    assert_fault(&error, NetFault::Cut, Sent::Unknown);
}

#[tokio::test]
async fn text_larger_than_the_write_buffer_is_sent_whole() {
    let (opened, mut socket) = opened(Vec::new()).await;
    let text = "a".repeat(1 << 20);
    let sending = opened.sender.text(text.clone());
    let receiving = async { Ok(read_frame(&mut socket).await) };
    let ((), received) = tokio::try_join!(sending, receiving).unwrap();
    assert!(received == (0x81, text.into_bytes()));
}

#[tokio::test]
async fn close_is_reported_with_its_code_and_answered() {
    let mut payload = 4001u16.to_be_bytes().to_vec();
    payload.extend_from_slice(b"Unauthorized");
    let (mut opened, mut socket) = opened(frame(0x88, &payload)).await;
    assert!(matches!(
        opened.receiver.next().await,
        Frame::Closed { code: Some(4001), reason } if reason == "Unauthorized"
    ));
    assert_eq!(read_frame(&mut socket).await, (0x88, payload));
    let error = opened.sender.text("late".into()).await.unwrap_err();
    assert_fault(&error, NetFault::Cut, Sent::No);
    assert!(matches!(opened.receiver.next().await, Frame::Broken(_)));
}

#[tokio::test]
async fn close_frame_without_code_is_read() {
    let (mut opened, _socket) = opened(frame(0x88, b"")).await;
    assert!(matches!(
        opened.receiver.next().await,
        Frame::Closed { code: None, .. }
    ));
}

#[tokio::test]
async fn sent_close_has_its_code_and_a_short_reason() {
    let (opened, mut socket) = opened(Vec::new()).await;
    opened.sender.close(1000, &"é".repeat(100)).await.unwrap();
    let (first, payload) = read_frame(&mut socket).await;
    assert_eq!((first, &payload[..2]), (0x88, &1000u16.to_be_bytes()[..]));
    assert_eq!(payload[2..], *"é".repeat(61).as_bytes());
}

#[tokio::test]
async fn cloned_senders_do_not_mix_messages() {
    let (opened, mut socket) = opened(Vec::new()).await;
    let texts: Vec<String> = (0..20).map(|n| format!("{n}").repeat(40)).collect();
    for text in texts.clone() {
        let sender = opened.sender.clone();
        tokio::spawn(async move { sender.text(text).await.unwrap() });
    }
    let mut came = Vec::new();
    for _ in &texts {
        came.push(String::from_utf8(read_frame(&mut socket).await.1).unwrap());
    }
    came.sort();
    let mut sorted = texts;
    sorted.sort();
    assert_eq!(came, sorted);
}
