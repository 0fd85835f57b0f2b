//! Waits on this machine for a browser that returns from an authorization server (RFC 8252 §7.3).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::future::select_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::{Host, Url};

use crate::address::is_this_machine;

/// The maximum size of the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// How long a request may take to arrive, and its response to leave.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of requests that wait for an answer; further ones are closed.
const MAX_WAITING: usize = 8;

/// Receives the requests of browsers to the redirect URL.
pub struct RedirectListener {
    url: Url,
    /// None if the redirect URL is not of this machine: then a person pastes the address.
    listeners: Vec<TcpListener>,
    sender: mpsc::Sender<Returned>,
    receiver: mpsc::Receiver<Returned>,
}

/// The address that a browser returned to, and its connection.
type Returned = (Url, Reply);

/// The answer to a browser. Without one, its connection is closed.
pub(super) struct Reply(TcpStream);

impl RedirectListener {
    /// Listens at `redirect`, or at any free port of this machine.
    ///
    /// # Errors
    /// Another program listens there.
    pub async fn bind(redirect: Option<&Url>) -> io::Result<Self> {
        let listeners = match redirect {
            None => vec![TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?],
            Some(url) if url.scheme() == "http" && is_this_machine(url) => {
                let port = url.port_or_known_default().unwrap_or(80);
                bind_all(&addresses(url), port).await?
            }
            Some(_) => Vec::new(),
        };
        let url = match (redirect, listeners.first()) {
            (Some(url), _) => url.clone(),
            (None, Some(listener)) => {
                let port = listener.local_addr()?.port();
                Url::parse(&format!("http://127.0.0.1:{port}/callback"))
                    .map_err(io::Error::other)?
            }
            (None, None) => return Err(io::Error::other("no address")),
        };
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        Ok(Self {
            url,
            listeners,
            sender,
            receiver,
        })
    }

    /// Returns the redirect URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the next request for the redirect URL. A request that does not arrive delays no other.
    pub(super) async fn accept(&mut self) -> io::Result<Returned> {
        if self.listeners.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let accepts = self.listeners.iter().map(|one| Box::pin(one.accept()));
            tokio::select! {
                Some(request) = self.receiver.recv() => return Ok(request),
                (connection, ..) = select_all(accepts) => {
                    let (stream, _) = connection?;
                    let (sender, url) = (self.sender.clone(), self.url.clone());
                    tokio::spawn(async move {
                        if let Ok(Some(request)) = timeout(REQUEST_TIMEOUT, read(stream, &url)).await {
                            let _ = sender.try_send(request);
                        }
                    });
                }
            }
        }
    }
}

/// Returns the addresses of a host that is this machine: browsers try either family for a name.
fn addresses(url: &Url) -> Vec<IpAddr> {
    match url.host() {
        Some(Host::Ipv4(ip)) => vec![ip.into()],
        Some(Host::Ipv6(ip)) => vec![ip.into()],
        _ => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    }
}

/// Listens at each address that this machine has.
async fn bind_all(addresses: &[IpAddr], port: u16) -> io::Result<Vec<TcpListener>> {
    let (mut listeners, mut missing) = (Vec::new(), None);
    for address in addresses {
        match TcpListener::bind((*address, port)).await {
            Ok(listener) => listeners.push(listener),
            // Another program would get the code.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(error) => missing = Some(error),
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// Reads the head of a request, and returns its URL if that is the redirect URL with a query.
async fn read(mut stream: TcpStream, redirect: &Url) -> Option<Returned> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let target = match (words.next()?, words.next()?) {
        ("GET", target) if target.starts_with('/') => target,
        _ => return None,
    };
    // No browser is sent to another host by this text.
    let (path, query) = target.split_once('?')?;
    if path != redirect.path() {
        return None;
    }
    let mut url = redirect.clone();
    url.set_query(Some(query));
    Some((url, Reply(stream)))
}

impl Reply {
    /// Tells the person in the browser how the sign-in goes on.
    /// `is_own` says that the address is that of the sign-in, whether it succeeds or not.
    pub(super) fn send(mut self, is_own: bool) {
        let (status, text) = match is_own {
            true => (
                "200 OK",
                "You may close this page: where you began the sign-in, you see how it ends.",
            ),
            false => (
                "400 Bad Request",
                "This is not the end of the sign-in that is waiting. Return to where you began it.",
            ),
        };
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        tokio::spawn(async move {
            let sent = async {
                self.0.write_all(response.as_bytes()).await?;
                self.0.shutdown().await
            };
            let _ = timeout(REQUEST_TIMEOUT, sent).await;
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn address_that_this_machine_lacks_is_an_error_if_it_is_the_only_one() {
        // The first is for documents only.
        let [foreign, own] = ["192.0.2.1", "127.0.0.1"].map(|ip| ip.parse().unwrap());
        assert_eq!(bind_all(&[foreign, own], 0).await.unwrap().len(), 1);
        let error = bind_all(&[foreign], 0).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
