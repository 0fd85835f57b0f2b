//! A scripted webhook on loopback, and a `PushSender` over TCP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use url::Url;

use crate::push::{PushError, PushSender};

/// The answer to a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Status(u16),
    /// A status with one header.
    With(u16, &'static str, String),
    /// Closes the connection.
    Close,
    /// Never answers.
    Never,
}

/// A notification that arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Arrived {
    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Returns the state of a status update of 1.0.
    pub(super) fn state(&self) -> Option<&str> {
        self.body["statusUpdate"]["status"]["state"].as_str()
    }
}

pub(super) struct Hook {
    pub(super) url: String,
    arrived: Mutex<mpsc::UnboundedReceiver<Arrived>>,
    task: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hook {
    /// The answers in order; the last one repeats.
    pub(super) async fn that_answers(answers: impl Into<Vec<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/hook?key=in-the-query",
            listener.local_addr().unwrap()
        );
        let (received, arrived) = mpsc::unbounded_channel();
        let answers = answers.into();
        let task = tokio::spawn(async move {
            let mut count = 0;
            while let Ok((socket, _)) = listener.accept().await {
                let answer = answers.get(count).or(answers.last()).cloned();
                count += 1;
                tokio::spawn(serve(socket, answer.unwrap(), received.clone()));
            }
        });
        Self {
            url,
            arrived: Mutex::new(arrived),
            task,
        }
    }

    /// Waits for the next notification.
    pub(super) async fn next(&self) -> Arrived {
        let mut arrived = self.arrived.lock().await;
        let next = tokio::time::timeout(Duration::from_secs(20), arrived.recv()).await;
        next.expect("a notification within 20 seconds").unwrap()
    }

    /// Returns the notifications that have arrived.
    pub(super) async fn rest(&self) -> usize {
        self.arrived.lock().await.len()
    }
}

async fn serve(mut socket: TcpStream, answer: Answer, received: mpsc::UnboundedSender<Arrived>) {
    let (head, body) = message(&mut socket).await;
    let body = serde_json::from_slice(&body).unwrap();
    received.send(Arrived { head, body }).unwrap();
    let (status, header) = match answer {
        Answer::Status(status) => (status, String::new()),
        Answer::With(status, name, value) => (status, format!("{name}: {value}\r\n")),
        Answer::Close => return,
        Answer::Never => return std::future::pending().await,
    };
    let answer = format!("HTTP/1.1 {status} X\r\n{header}content-length: 0\r\n\r\n");
    socket.write_all(answer.as_bytes()).await.unwrap();
}

/// Reads the head and the body of a request or a response.
async fn message(socket: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return (head, bytes.split_off(end + 4));
            }
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return (String::new(), Vec::new());
        }
    }
}

/// Posts to any address except port 1.
pub(super) struct Tcp;

impl PushSender for Tcp {
    fn accepts(&self, url: &Url) -> Result<(), String> {
        match url.port() {
            Some(1) => Err("leads to a forbidden port".to_owned()),
            _ => Ok(()),
        }
    }

    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>> {
        Box::pin(async move { exchange(&url, &headers, &body).await.ok_or_else(cut) })
    }
}

fn cut() -> PushError {
    PushError {
        text: "the connection broke off".to_owned(),
        retryable: true,
    }
}

async fn exchange(url: &Url, headers: &HeaderMap, body: &[u8]) -> Option<Response<()>> {
    let authority = url.authority();
    let mut socket = TcpStream::connect(authority).await.ok()?;
    let mut request = format!("POST {}?{} HTTP/1.1\r\n", url.path(), url.query().unwrap());
    for (name, value) in headers {
        request += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    request += &format!(
        "host: {authority}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.ok()?;
    socket.write_all(body).await.ok()?;
    let (head, _) = message(&mut socket).await;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        response.headers_mut().insert(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    Some(response)
}

/// Returns a shared sender.
pub(super) fn tcp() -> Arc<dyn PushSender> {
    Arc::new(Tcp)
}
