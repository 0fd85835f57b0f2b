//! A scripted webhook on a loopback socket, and a `PushSender` over plain TCP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use serde_json::Value;
use testkit::http::{Connection, Request, Server, response};
use tokio::sync::{Mutex, mpsc};
use url::Url;

use crate::http::tests::harness::client;
use crate::push::{PushError, PushSender};

/// How the webhook answers a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Status(u16),
    /// A status with one header.
    StatusWithHeader(u16, &'static str, String),
    /// Closes the connection.
    Close,
    /// Keeps the connection open without an answer.
    Hang,
}

/// A notification that the webhook received.
#[derive(Debug)]
pub(super) struct ReceivedNotification {
    pub(super) request: Request,
    pub(super) body: Value,
}

impl ReceivedNotification {
    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.request.header(&name.to_ascii_lowercase())
    }

    /// Returns the state of a status update of 1.0.
    pub(super) fn state(&self) -> Option<&str> {
        self.body["statusUpdate"]["status"]["state"].as_str()
    }
}

pub(super) struct TestWebhook {
    pub(super) url: String,
    arrived: Mutex<mpsc::UnboundedReceiver<ReceivedNotification>>,
    _server: Server,
}

impl TestWebhook {
    /// Creates a webhook that gives these answers in order and repeats the last one.
    pub(super) async fn start(answers: impl Into<Vec<Answer>>) -> Self {
        let (received, arrived) = mpsc::unbounded_channel();
        let answers = answers.into();
        let server = Server::start(move |stream, number| {
            let answer = answers.get(number - 1).or(answers.last()).cloned();
            serve(Connection::new(stream), answer.unwrap(), received.clone())
        })
        .await;
        Self {
            url: server.url("/hook?key=in-the-query"),
            arrived: Mutex::new(arrived),
            _server: server,
        }
    }

    /// Waits for the next notification.
    pub(super) async fn next(&self) -> ReceivedNotification {
        let mut arrived = self.arrived.lock().await;
        let next = tokio::time::timeout(Duration::from_secs(20), arrived.recv()).await;
        next.expect("a notification within 20 seconds").unwrap()
    }

    /// Returns the number of further notifications that have arrived.
    pub(super) async fn pending_count(&self) -> usize {
        self.arrived.lock().await.len()
    }
}

async fn serve(
    mut connection: Connection,
    answer: Answer,
    received: mpsc::UnboundedSender<ReceivedNotification>,
) -> std::io::Result<()> {
    let Some(request) = connection.next().await? else {
        return Ok(());
    };
    let body = request.json();
    received
        .send(ReceivedNotification { request, body })
        .unwrap();
    let (status, header) = match answer {
        Answer::Status(status) => (status, String::new()),
        Answer::StatusWithHeader(status, name, value) => (status, format!("{name}: {value}\r\n")),
        Answer::Close => return Ok(()),
        Answer::Hang => return std::future::pending().await,
    };
    let status = format!("{status} X");
    connection
        .write(response(&status, "text/plain", &header, ""))
        .await
}

/// Posts to any address, and fails for port 1.
pub(super) struct PlainPushSender;

impl PushSender for PlainPushSender {
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
        Box::pin(async move { exchange(url, headers, body).await.ok_or_else(cut) })
    }
}

fn cut() -> PushError {
    PushError {
        text: "the connection broke off".to_owned(),
        retryable: true,
    }
}

async fn exchange(url: Url, headers: HeaderMap, body: Bytes) -> Option<Response<()>> {
    let request = client().post(url).headers(headers).body(body);
    let received = request.send().await.ok()?;
    let mut response = Response::new(());
    *response.status_mut() = received.status();
    *response.headers_mut() = received.headers().clone();
    Some(response)
}

/// Returns a shared sender.
pub(super) fn plain_sender() -> Arc<dyn PushSender> {
    Arc::new(PlainPushSender)
}
