//! Follows redirects within one origin.

use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::{HttpClient, NetError, NetFault, Request, Response, Sent};

/// The maximum number of redirects of a request.
pub const MAX_REDIRECTS: usize = 5;

/// A response and the URL it came from.
#[derive(Debug)]
pub struct Fetched {
    /// The response. A redirect status means that [`follow`] does not follow it.
    pub response: Response,
    /// The final URL, after redirects.
    pub url: Url,
}

/// Sends a request and follows redirects within the origin (scheme, host and port) of the request, because its headers
/// belong to that origin: 301, 302, 303, 307 and 308 of a GET, and 307 and 308 of other methods, which keep method and
/// body. A server that answers with such a redirect has executed nothing. Returns any other redirect to the caller.
///
/// # Errors
/// Those of the exchange, and [`NetFault::Protocol`] after [`MAX_REDIRECTS`] redirects.
pub async fn follow(net: &dyn HttpClient, mut request: Request) -> Result<Fetched, NetError> {
    let mut hops = 0;
    loop {
        let response = net.exchange(request.clone()).await?;
        let Some(next) = next_hop(&request, &response) else {
            return Ok(Fetched {
                response,
                url: request.url,
            });
        };
        if hops == MAX_REDIRECTS {
            let message = format!(
                "`{}` redirects more than {MAX_REDIRECTS} times",
                super::error::place(&request.url)
            );
            return Err(NetError::new(NetFault::Protocol, Sent::No, message));
        }
        hops += 1;
        request.url = next;
    }
}

fn next_hop(request: &Request, response: &Response) -> Option<Url> {
    use StatusCode as S;
    let follows = match response.status {
        S::MOVED_PERMANENTLY | S::FOUND | S::SEE_OTHER => request.method == Method::GET,
        S::TEMPORARY_REDIRECT | S::PERMANENT_REDIRECT => true,
        _ => false,
    };
    if !follows {
        return None;
    }
    let location = response.headers.get(LOCATION)?.to_str().ok()?;
    // An empty reference leads to the same address, which would receive the body again.
    if location.trim().is_empty() {
        return None;
    }
    let next = request.url.join(location).ok()?;
    (next.origin() == request.url.origin()).then_some(next)
}

/// Returns where a redirect leads to, for a message: without the query, which may contain a secret. `None` without an address.
#[must_use]
pub fn location(headers: &HeaderMap) -> Option<String> {
    let location = String::from_utf8_lossy(headers.get(LOCATION)?.as_bytes());
    let address = location.split(['?', '#']).next().unwrap_or_default().trim();
    (!address.is_empty()).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::http::ReqwestClient;
    use super::*;
    use crate::testing::{get, post};
    use testkit::raw_server::{RawServer, Step, send};

    fn redirect(status: u16, location: &str) -> Vec<Step> {
        vec![send(format!(
            "HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        ))]
    }

    fn ok() -> Vec<Step> {
        vec![send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")]
    }

    fn paths(server: &RawServer) -> Vec<String> {
        server
            .requests()
            .iter()
            .map(|r| r.split(' ').nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    async fn fetch(request: Request) -> Result<Fetched, NetError> {
        follow(&ReqwestClient::new()?, request).await
    }

    /// Returns the status of the last answer to a request at `/a`, and the paths of all requests.
    async fn answered(
        request: impl FnOnce(Url) -> Request,
        answers: Vec<Vec<Step>>,
    ) -> (u16, Vec<String>) {
        let server = RawServer::start(answers).await;
        let fetched = fetch(request(server.url("/a"))).await.unwrap();
        (fetched.response.status.as_u16(), paths(&server))
    }

    #[tokio::test]
    async fn same_origin_redirects_keep_headers() {
        let mut answers: Vec<_> = [301, 302, 303, 307].map(|s| redirect(s, "next?a=1")).into();
        answers.push(redirect(308, "/end"));
        answers.push(ok());
        let server = RawServer::start(answers).await;
        let mut request = get(server.url("/dir/first"));
        request.headers.insert("x-key", "k".parse().unwrap());
        let fetched = fetch(request).await.unwrap();
        assert_eq!(
            (fetched.response.status.as_u16(), fetched.url.path()),
            (200, "/end")
        );
        let next = "/dir/next?a=1";
        assert_eq!(
            paths(&server),
            ["/dir/first", next, next, next, next, "/end"]
        );
        assert!(server.requests().iter().all(|r| r.contains("x-key: k")));
    }

    #[tokio::test]
    async fn redirect_to_another_origin_is_returned() {
        let other = RawServer::start(vec![ok()]).await;
        let port = other.address.port();
        for location in [
            format!("http://127.0.0.1:{port}/x"),
            format!("//127.0.0.1:{port}/x"),
            "http://example.com/".to_owned(),
            "file:///etc/passwd".to_owned(),
            "http://[broken".to_owned(),
        ] {
            let answered = answered(get, vec![redirect(302, &location)]).await;
            assert_eq!(answered, (302, vec!["/a".to_owned()]), "{location}");
        }
        let named = format!("http://localhost:{port}/");
        let (status, _) = answered(get, vec![redirect(302, &named)]).await;
        assert_eq!((status, other.connections()), (302, 0));
    }

    #[tokio::test]
    async fn redirected_post_keeps_method_and_body() {
        for status in [307, 308] {
            let server = RawServer::start(vec![redirect(status, "/a/"), ok()]).await;
            let fetched = fetch(post(server.url("/a"))).await.unwrap();
            assert_eq!(
                (fetched.response.status.as_u16(), paths(&server)),
                (200, vec!["/a".to_owned(), "/a/".to_owned()])
            );
            let second = &server.requests()[1];
            assert!(
                second.starts_with("POST ") && second.ends_with("{}"),
                "{second}"
            );
        }
    }

    #[tokio::test]
    async fn other_redirects_are_returned() {
        let own = || vec!["/a".to_owned()];
        for (status, location) in [(301, "/b"), (302, "/b"), (303, "/b"), (307, ""), (307, " ")] {
            let answers = vec![redirect(status, location), ok()];
            assert_eq!(answered(post, answers).await, (status, own()));
        }
        for status in [300, 304, 305] {
            let answers = vec![redirect(status, "/b"), ok()];
            assert_eq!(answered(get, answers).await, (status, own()));
        }
    }

    #[tokio::test]
    async fn redirect_loop_ends_at_the_limit() {
        let server = RawServer::start(vec![redirect(302, "/a")]).await;
        let error = fetch(get(server.url("/a"))).await.unwrap_err();
        assert_eq!(
            (error.fault(), server.requests().len()),
            (NetFault::Protocol, MAX_REDIRECTS + 1),
            "{error}"
        );
    }
}
