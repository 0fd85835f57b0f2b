//! A server for tests that writes scripted bytes and counts connections and requests.
#![allow(missing_docs, reason = "part of tests alone")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

use super::{Access, Request};

/// A step of the server after it has read a request. After the last step it closes the connection.
#[derive(Clone)]
pub enum Step {
    Send(Vec<u8>),
    /// Repeats these bytes until the client goes away.
    Endless(Vec<u8>),
    /// Waits until the client closes the connection.
    Hold,
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
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

struct Shared {
    seen: Arc<Seen>,
    gone: Arc<Semaphore>,
    answers: Vec<Vec<Step>>,
}

impl RawServer {
    /// The n-th request gets the n-th answer; later ones get the last.
    pub async fn start(answers: Vec<Vec<Step>>) -> Self {
        Self::start_noting(answers).await.0
    }

    /// Also returns a semaphore that gains a permit whenever a client leaves during [`Step::Hold`] or [`Step::Endless`].
    pub async fn start_noting(answers: Vec<Vec<Step>>) -> (Self, Arc<Semaphore>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let gone = Arc::new(Semaphore::new(0));
        let shared = Arc::new(Shared {
            seen: seen.clone(),
            gone: gone.clone(),
            answers,
        });
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                shared.seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(connection(socket, shared.clone()));
            }
        });
        (
            Self {
                address,
                seen,
                task,
            },
            gone,
        )
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The requests as they came, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(mut socket: TcpStream, shared: Arc<Shared>) {
    while let Some(request) = read_request(&mut socket).await {
        let number = {
            let mut requests = shared.seen.requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        let answer = shared
            .answers
            .get(number)
            .or(shared.answers.last())
            .expect("an answer");
        if !play(&mut socket, answer, &shared.gone).await {
            return;
        }
    }
}

async fn play(socket: &mut TcpStream, answer: &[Step], gone: &Semaphore) -> bool {
    for step in answer {
        match step {
            Step::Send(bytes) => socket.write_all(bytes).await.unwrap_or_default(),
            Step::Endless(bytes) => {
                while socket.write_all(bytes).await.is_ok() {}
                gone.add_permits(1);
            }
            Step::Hold => {
                while socket.read(&mut [0; 512]).await.is_ok_and(|n| n > 0) {}
                gone.add_permits(1);
            }
            Step::Reset => {
                socket.set_zero_linger().unwrap();
                return false;
            }
            Step::KeepAlive => return true,
        }
    }
    false
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let length = text
                .lines()
                .find_map(|l| l.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if bytes.len() >= head + 4 + length {
                return Some(text);
            }
        }
        let mut chunk = [0; 4096];
        let n = socket.read(&mut chunk).await.ok()?;
        if n == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..n]);
    }
}

/// A GET without headers that may go anywhere.
pub fn get(url: Url) -> Request {
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: None,
        access: Access::Private,
        trust: None,
        repeatable: false,
        authorization: None,
    }
}

/// A POST of `{}` that may go anywhere.
pub fn post(url: Url) -> Request {
    Request {
        method: Method::POST,
        body: Some("{}".into()),
        ..get(url)
    }
}
