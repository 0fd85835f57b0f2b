//! A server for tests that writes scripted bytes and counts connections and requests.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "used only in tests"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;
use url::Url;

use conformance::http::{Connection, Server};

/// A step of the server after it has read a request. After the last step it closes the connection.
#[derive(Clone)]
pub enum Step {
    Send(Vec<u8>),
    /// Repeats these bytes until the client disconnects.
    Endless(Vec<u8>),
    /// Waits until the client closes the connection.
    WaitForClose,
    /// Drops the connection with a TCP reset.
    Reset,
    /// Reads the next request from the same connection.
    KeepAlive,
}

pub fn send(bytes: impl Into<Vec<u8>>) -> Step {
    Step::Send(bytes.into())
}

pub struct RawServer {
    pub address: SocketAddr,
    server: Server,
    script: Arc<Script>,
}

struct Script {
    answers: Vec<Vec<Step>>,
    requests: Mutex<Vec<String>>,
    closed: Arc<Semaphore>,
}

impl RawServer {
    /// Starts a server that answers the n-th request with the n-th answer, and later ones with the last.
    pub async fn start(answers: Vec<Vec<Step>>) -> Self {
        Self::start_with_close_signal(answers).await.0
    }

    /// Also returns a semaphore that gains a permit whenever a client disconnects during [`Step::WaitForClose`] or
    /// [`Step::Endless`].
    pub async fn start_with_close_signal(answers: Vec<Vec<Step>>) -> (Self, Arc<Semaphore>) {
        let closed = Arc::new(Semaphore::new(0));
        let script = Arc::new(Script {
            answers,
            requests: Mutex::default(),
            closed: closed.clone(),
        });
        let served = script.clone();
        let server =
            Server::start(move |stream, _| serve(Connection::new(stream), served.clone())).await;
        let server = Self {
            address: server.address,
            server,
            script,
        };
        (server, closed)
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&self.server.url(path)).expect("a path")
    }

    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Returns the requests, head and body, in order of arrival.
    pub fn requests(&self) -> Vec<String> {
        self.script.requests.lock().unwrap().clone()
    }
}

async fn serve(mut connection: Connection, script: Arc<Script>) -> std::io::Result<()> {
    while let Some(request) = connection.next().await? {
        let number = {
            let mut requests = script.requests.lock().unwrap();
            requests.push(request.text());
            requests.len() - 1
        };
        let answer = script.answers.get(number).or(script.answers.last());
        for step in answer.expect("an answer") {
            match step {
                // If the client has disconnected, the next step notices it.
                Step::Send(bytes) => connection.write(bytes).await.unwrap_or_default(),
                Step::Endless(bytes) => {
                    while connection.write(bytes).await.is_ok() {}
                    script.closed.add_permits(1);
                }
                Step::WaitForClose => {
                    while connection
                        .stream
                        .read(&mut [0; 512])
                        .await
                        .is_ok_and(|n| n > 0)
                    {}
                    script.closed.add_permits(1);
                }
                Step::Reset => return connection.stream.set_zero_linger(),
                Step::KeepAlive => break,
            }
        }
        if !matches!(answer.and_then(|steps| steps.last()), Some(Step::KeepAlive)) {
            return Ok(());
        }
    }
    Ok(())
}
