//! Where peers report to by themselves.

use std::net::SocketAddr;

use super::http;
use super::journal::Journal;

/// A callback address on loopback that keeps what it is told.
pub struct Hook {
    address: SocketAddr,
    told: Journal<Report>,
}

/// One report of a peer.
#[derive(Clone)]
pub struct Report {
    pub head: String,
    pub body: String,
}

impl Hook {
    pub fn start() -> Self {
        let told = Journal::new();
        let journal = told.clone();
        let address = http::serve(move |request, stream| {
            journal.push(Report {
                head: request.head.clone(),
                body: String::from_utf8_lossy(&request.body).into_owned(),
            });
            http::answer(stream, "200 OK", "application/json", "{}");
        });
        Self { address, told }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// How often it was called so far.
    pub fn calls(&self) -> usize {
        self.told.len()
    }

    /// Everything it was told so far.
    pub fn all(&self) -> Vec<Report> {
        self.told.all(|_| true)
    }

    /// Waits for a report that holds this text.
    pub fn wait(&self, text: &str) -> Report {
        self.told
            .wait("the peer to report to its callback", |told| {
                told.body.contains(text)
            })
    }
}
