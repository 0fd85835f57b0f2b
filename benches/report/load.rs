//! The load generator: as many connections as clients, each with one request in flight. It does not parse responses, so that
//! it needs less CPU time than any server.

use std::{
    io::BufRead as _,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use memchr::memmem;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

pub(crate) const ROLE: &str = "--load";

/// Handles commands until standard input ends.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", runtime.block_on(run(&command)));
    }
}

/// Sends requests for the requested time. Returns the number of responses, the elapsed time and the number of events.
async fn run(command: &Value) -> Value {
    let text = |name: &str| command[name].as_str().unwrap();
    let (address, path) = (text("address"), text("path"));
    let (method, params) = (text("method"), &command["params"]);
    let clients = command["clients"].as_u64().unwrap();
    let expected = text("expected").as_bytes();
    // The number of clients with tokens that the server knows.
    let tokens = command["tokens"].as_u64();
    let mut streams = Vec::new();
    for _ in 0..clients {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        streams.push(stream);
    }
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(command["seconds"].as_f64().unwrap());
    let max_requests = command["requests"].as_u64().unwrap_or(u64::MAX);
    let connections = (0..).zip(streams).map(|(number, stream)| async move {
        let token = tokens.map(|count| token(number * count / clients));
        let mut connection = Connection {
            stream,
            buffer: Vec::new(),
        };
        let (mut response_count, mut events) = (0, 0);
        while response_count == 0 || (Instant::now() < end && response_count < max_requests) {
            let request = request(address, path, method, params, token.as_deref());
            let body = connection.exchange(&request).await;
            assert!(
                memmem::find(body, expected).is_some(),
                "{method} got {}",
                String::from_utf8_lossy(body)
            );
            events += memmem::find_iter(body, b"data:").count();
            response_count += 1;
        }
        (response_count, events)
    });
    let (response_count, events) = join_all(connections)
        .await
        .into_iter()
        .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    json!({"answered": response_count, "events": events, "seconds": start.elapsed().as_secs_f64()})
}

/// Returns the token of a client.
pub(crate) fn token(number: u64) -> String {
    format!("a-token-of-the-client-with-the-number-{number:08}")
}

fn request(
    address: &str,
    path: &str,
    method: &str,
    params: &Value,
    token: Option<&str>,
) -> Vec<u8> {
    let mut params = params.clone();
    if let Some(message) = params.get_mut("message") {
        message["messageId"] = uuid::Uuid::new_v4().to_string().into();
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let authorization = authorization.unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n\
         accept: application/json, text/event-stream\r\n{authorization}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Sends a request and returns the response body, including the chunk headers.
    async fn exchange(&mut self, request: &[u8]) -> &[u8] {
        self.buffer.clear();
        self.stream.write_all(request).await.unwrap();
        let head = loop {
            if let Some(position) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break position + 4;
            }
            self.read().await;
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).to_lowercase();
        assert!(text.starts_with("http/1.1 200"), "{text}");
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        match length {
            Some(length) => {
                let length: usize = length.trim().parse().unwrap();
                while self.buffer.len() < head + length {
                    self.read().await;
                }
            }
            // A chunked body ends with an empty chunk.
            None => {
                while !self.buffer[head..].ends_with(b"0\r\n\r\n") {
                    self.read().await;
                }
            }
        }
        &self.buffer[head..]
    }

    async fn read(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
        assert!(read > 0, "the server closed the connection");
    }
}
