//! A webhook server for push notifications.

use std::net::SocketAddr;

use super::http;
use super::journal::Journal;

/// A webhook server on loopback that records the requests.
pub struct Webhook {
    address: SocketAddr,
    requests: Journal<WebhookRequest>,
}

/// A request to the webhook.
#[derive(Clone)]
pub struct WebhookRequest {
    pub head: String,
    pub body: String,
}

impl Webhook {
    pub fn start() -> Self {
        let requests = Journal::new();
        let journal = requests.clone();
        let address = http::serve(move |request, stream| {
            journal.push(WebhookRequest {
                head: request.head.clone(),
                body: String::from_utf8_lossy(&request.body).into_owned(),
            });
            http::answer(stream, "200 OK", "application/json", "{}");
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns the number of requests so far.
    pub fn calls(&self) -> usize {
        self.requests.len()
    }

    /// Returns all requests so far.
    pub fn all(&self) -> Vec<WebhookRequest> {
        self.requests.all(|_| true)
    }

    /// Waits for a request whose body contains this text.
    pub fn wait(&self, text: &str) -> WebhookRequest {
        self.requests.wait("a request to the webhook", |request| {
            request.body.contains(text)
        })
    }
}
