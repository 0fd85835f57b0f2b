#![allow(clippy::unwrap_used, clippy::panic)]
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::timeout;

use super::*;

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4096)
        .write_buffer_size(4096)
}

/// Returns a client frame with a zero mask.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

async fn pair() -> (Socket<DuplexStream>, DuplexStream) {
    let (server, client) = duplex(1 << 20);
    let socket = Socket::new(server, config()).await;
    socket.set_authenticated();
    (socket, client)
}

async fn text(mut socket: &Socket<DuplexStream>) -> String {
    match socket.next().await.unwrap().unwrap() {
        Message::Text(text) => text.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Polls a socket without further data, so that it releases its buffers.
async fn silence(mut socket: &Socket<DuplexStream>) {
    let more = timeout(Duration::from_millis(1), socket.next()).await;
    assert!(more.is_err(), "{more:?}");
}

fn renewed(socket: &Socket<DuplexStream>) -> usize {
    socket.0.lock().renewed
}

#[tokio::test(start_paused = true)]
async fn large_frame_buffers_are_released() {
    let (socket, mut client) = pair().await;
    client.write_all(&frame(0x81, b"small")).await.unwrap();
    assert_eq!(text(&socket).await, "small");
    silence(&socket).await;
    assert_eq!(renewed(&socket), 0);
    let large = "x".repeat(100_000);
    client
        .write_all(&frame(0x81, large.as_bytes()))
        .await
        .unwrap();
    assert_eq!(text(&socket).await, large);
    silence(&socket).await;
    silence(&socket).await;
    assert_eq!(renewed(&socket), 1);
    client.write_all(&frame(0x81, b"after")).await.unwrap();
    assert_eq!(text(&socket).await, "after");
}

#[tokio::test(start_paused = true)]
async fn reader_wakes_after_buffers_were_released() {
    let (socket, mut client) = pair().await;
    let large = "x".repeat(100_000);
    let server = async { (text(&socket).await.len(), text(&socket).await) };
    let client_writes = async {
        client
            .write_all(&frame(0x81, large.as_bytes()))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.write_all(&frame(0x81, b"later")).await.unwrap();
    };
    let (received, ()) = tokio::join!(timeout(Duration::from_secs(60), server), client_writes);
    assert_eq!(received.unwrap(), (100_000, "later".to_owned()));
    assert_eq!(renewed(&socket), 1);
}

#[tokio::test(start_paused = true)]
async fn partial_reads_lose_no_byte() {
    let large = "x".repeat(20_000);
    let mut all = frame(0x81, large.as_bytes());
    // A message in two frames with a ping between them.
    all.extend(frame(0x01, b"one "));
    all.extend(frame(0x89, b"?"));
    all.extend(frame(0x80, b"and two"));
    all.extend(frame(0x81, b""));
    for cut in (0..all.len()).filter(|cut| *cut < 20 || *cut > 20_000) {
        let (socket, mut client) = pair().await;
        let received = async {
            let mut received = Vec::new();
            while received.len() < 4 {
                received.push((&socket).next().await.unwrap().unwrap());
            }
            received
        };
        let client_writes = async {
            client.write_all(&all[..cut]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.write_all(&all[cut..]).await.unwrap();
        };
        let (received, ()) = tokio::join!(received, client_writes);
        let expected = [
            Message::text(large.clone()),
            Message::Ping(bytes::Bytes::from_static(b"?")),
            Message::text("one and two"),
            Message::text(""),
        ];
        assert_eq!(received, expected, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn queued_writes_are_not_lost() {
    let (server, mut client) = duplex(1000);
    let socket = Socket::new(server, config()).await;
    socket.set_authenticated();
    let large = "x".repeat(100_000);
    let send = async {
        (&socket).feed(Message::text(large.clone())).await.unwrap();
        silence(&socket).await;
        (&socket).flush().await.unwrap();
        silence(&socket).await;
    };
    let read = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut read = vec![0; 10 + large.len()];
        client.read_exact(&mut read).await.unwrap();
        read
    };
    let ((), read) = tokio::join!(send, read);
    assert!(read[10..].iter().all(|byte| *byte == b'x'));
    assert_eq!(renewed(&socket), 1);
}

#[tokio::test(start_paused = true)]
async fn reported_end_is_not_lost() {
    let (socket, mut client) = pair().await;
    (&socket)
        .send(Message::text("x".repeat(100_000)))
        .await
        .unwrap();
    (&socket).send(Message::Close(None)).await.unwrap();
    silence(&socket).await;
    assert_eq!(renewed(&socket), 0);
    client.write_all(&frame(0x88, b"")).await.unwrap();
    assert!(matches!(
        (&socket).next().await,
        Some(Ok(Message::Close(_)))
    ));
    assert!((&socket).next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn unread_pongs_stop_reading() {
    let (server, client) = duplex(1000);
    let socket = Socket::new(server, config()).await;
    let (mut pongs, mut pings) = tokio::io::split(client);
    let received = std::cell::Cell::new(0);
    let serving = async {
        while let Message::Ping(_) = (&socket).next().await.unwrap().unwrap() {
            received.set(received.get() + 1);
        }
    };
    let flood = async {
        for _ in 0..10_000 {
            pings.write_all(&frame(0x89, &[0; 125])).await.unwrap();
        }
        pings.write_all(&frame(0x81, b"after")).await.unwrap();
    };
    let mut both = std::pin::pin!(async { tokio::join!(serving, flood) });
    let blocked = timeout(Duration::from_secs(1), &mut both).await;
    assert!(blocked.is_err());
    assert!(received.get() < 100, "{}", received.get());
    assert!(socket.is_blocked());
    // A client that reads its pongs is served again.
    let reading = async {
        let mut sink = [0; 4096];
        while pongs.read(&mut sink).await.unwrap() > 0 {}
    };
    tokio::select! {
        () = reading => panic!("the socket ended"),
        served = timeout(Duration::from_secs(60), both) => assert!(served.is_ok()),
    }
    assert_eq!(received.get(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn messages_beyond_a_limit_are_refused() {
    let fragments = |count: usize, payload: &[u8]| {
        let mut all = frame(0x01, payload);
        (0..count).for_each(|_| all.extend(frame(0x00, payload)));
        all.extend(frame(0x80, b""));
        all
    };
    let large = vec![b'x'; 70_000];
    for (authenticated, sent, accepted) in [
        (false, frame(0x81, &large[..60_000]), true),
        (false, frame(0x81, &large), false),
        (false, fragments(80, &[b'x'; 1000]), false),
        (true, frame(0x81, &large), true),
        (true, fragments(200, &[b'x'; 1000]), true),
        (true, fragments(2000, b""), false),
        (true, fragments(4000, b"x"), false),
    ] {
        let (server, mut client) = duplex(1 << 20);
        let socket = Socket::new(server, config()).await;
        if authenticated {
            socket.set_authenticated();
        }
        let small = frame(0x81, b"small");
        client.write_all(&small).await.unwrap();
        client.write_all(&sent).await.unwrap();
        assert_eq!(text(&socket).await, "small");
        let received = (&socket).next().await.unwrap();
        let size = sent.len();
        match received {
            Ok(_) => assert!(accepted, "{authenticated} {size}"),
            Err(error) => {
                assert!(matches!(error, Error::Capacity(_)), "{error}");
                assert!(!accepted, "{authenticated} {size}");
            }
        }
    }
}
