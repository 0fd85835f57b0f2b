//! A server for callbacks of peers.

use std::net::SocketAddr;

use super::http;
use super::journal::Journal;

/// A callback server on loopback that records the requests.
pub struct Hook {
    address: SocketAddr,
    reported: Journal<Report>,
}

/// One report of a peer.
#[derive(Clone)]
pub struct Report {
    pub head: String,
    pub body: String,
}

impl Hook {
    pub fn start() -> Self {
        let reported = Journal::new();
        let journal = reported.clone();
        let address = http::serve(move |request, stream| {
            journal.push(Report {
                head: request.head.clone(),
                body: String::from_utf8_lossy(&request.body).into_owned(),
            });
            http::answer(stream, "200 OK", "application/json", "{}");
        });
        Self { address, reported }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns the number of requests so far.
    pub fn calls(&self) -> usize {
        self.reported.len()
    }

    /// Returns all requests so far.
    pub fn all(&self) -> Vec<Report> {
        self.reported.all(|_| true)
    }

    /// Waits for a report that contains this text.
    pub fn wait(&self, text: &str) -> Report {
        self.reported
            .wait("the peer to report to its callback", |reported| {
                reported.body.contains(text)
            })
    }
}
