//! Reads response bodies up to a limit.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::CONTENT_LENGTH;
use tokio::time::{Instant, timeout_at};

use super::{ByteStream, NetError, NetFault, Response, Sent};

/// The maximum size of the body of an error response that is read, in bytes.
const ERROR_BYTES: usize = 64 * 1024;

/// How long to wait for the body of an error response.
const ERROR_WAIT: Duration = Duration::from_secs(1);

/// Reads the whole body, whatever its `content-length` says.
#[cfg(test)]
pub(crate) async fn read_all(mut body: ByteStream, max: usize) -> Result<Bytes, NetError> {
    collect(&mut body, max).await
}

/// Reads the whole body of `response`. Refuses it unread if its `content-length` exceeds `max`.
///
/// # Errors
/// [`NetFault::TooLarge`] as soon as more than `max` bytes arrived; the stream's own error if it breaks off.
pub async fn read_response(response: &mut Response, max: usize) -> Result<Bytes, NetError> {
    let announced = response
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > max as u64) {
        return Err(too_large(max));
    }
    collect(&mut response.body, max).await
}

/// Reads the beginning of the body of an error response within a short time. The status matters more, so a missing body
/// must not hide it.
pub async fn read_error(body: ByteStream) -> Bytes {
    error_prefix(body, ERROR_BYTES).await.0
}

/// The rest of a body after its prefix.
pub(super) enum BodyRest {
    /// No rest: the prefix is the whole body.
    None,
    /// The body is longer than the prefix, or the rest did not arrive in time.
    More,
    /// Unknown: the body broke off.
    Broken(NetError),
}

/// Reads at most `max` bytes like [`read_error`], and returns whether there were more.
pub(super) async fn error_prefix(body: ByteStream, max: usize) -> (Bytes, BodyRest) {
    let late = Instant::now() + ERROR_WAIT;
    read_until(body, max.min(ERROR_BYTES), Some(late)).await
}

/// Returns the first `max` bytes of a body, or fewer if it ends or breaks off, and what follows them.
pub(super) async fn prefix(body: ByteStream, max: usize) -> (Bytes, BodyRest) {
    read_until(body, max, None).await
}

async fn read_until(mut body: ByteStream, max: usize, late: Option<Instant>) -> (Bytes, BodyRest) {
    let mut read = BytesMut::new();
    loop {
        let next = match late {
            Some(late) => timeout_at(late, body.next()).await,
            None => Ok(body.next().await),
        };
        match next {
            Ok(None) => return (read.freeze(), BodyRest::None),
            Ok(Some(Err(error))) => return (read.freeze(), BodyRest::Broken(error)),
            Ok(Some(Ok(chunk))) => {
                let room = max - read.len();
                read.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return (read.freeze(), BodyRest::More);
                }
            }
            Err(_) => return (read.freeze(), BodyRest::More),
        }
    }
}

async fn collect(body: &mut ByteStream, max: usize) -> Result<Bytes, NetError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        if chunk.len() > max.saturating_sub(first.len() + rest.len()) {
            return Err(too_large(max));
        }
        // Most bodies are one chunk, which needs no copy.
        if first.is_empty() && rest.is_empty() {
            first = chunk;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&chunk);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

fn too_large(max: usize) -> NetError {
    NetError::new(
        NetFault::TooLarge,
        Sent::Unknown,
        format!("the response is larger than {max} bytes"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::HttpClient;
    use super::super::http::ReqwestClient;
    use super::*;
    use crate::test_requests::get;
    use futures_util::stream;
    use testkit::raw_server::{RawServer, Step, send};

    fn chunks(list: &[&'static str]) -> ByteStream {
        let list: Vec<_> = list
            .iter()
            .map(|c| Ok(Bytes::from_static(c.as_bytes())))
            .collect();
        Box::pin(stream::iter(list))
    }

    fn broken(list: &[&'static str]) -> ByteStream {
        let cut = NetError::new(NetFault::Cut, Sent::Unknown, "cut");
        Box::pin(chunks(list).chain(stream::iter([Err(cut)])))
    }

    #[tokio::test]
    async fn body_of_exactly_the_limit_is_read() {
        assert_eq!(
            read_all(chunks(&["ab", "", "c", "de"]), 5).await.unwrap(),
            "abcde"
        );
        assert_eq!(read_all(chunks(&["abcde"]), 5).await.unwrap(), "abcde");
        assert_eq!(read_all(chunks(&[]), 0).await.unwrap(), "");
    }

    #[tokio::test]
    async fn body_above_the_limit_is_too_large() {
        for list in [
            &["ab", "cdef"][..],
            &["abcdef"],
            &["a", "b", "c", "d", "e", "f"],
        ] {
            assert_eq!(
                read_all(chunks(list), 5).await.unwrap_err().fault(),
                NetFault::TooLarge
            );
        }
    }

    #[tokio::test]
    async fn incomplete_body_is_an_error() {
        assert_eq!(
            read_all(broken(&["ab"]), 5).await.unwrap_err().fault(),
            NetFault::Cut
        );
    }

    #[tokio::test]
    async fn body_prefix_ends_at_the_limit() {
        assert_eq!(prefix(chunks(&["ab", "cd"]), 3).await.0, "abc");
        assert_eq!(prefix(broken(&["ab"]), 3).await.0, "ab");
    }

    #[tokio::test(start_paused = true)]
    async fn error_body_is_read_within_a_short_time() {
        let stuck = chunks(&["ab", "cd"]).chain(stream::pending());
        let (read, rest) = error_prefix(Box::pin(stuck), 9).await;
        assert_eq!(read, "abcd");
        assert!(matches!(rest, BodyRest::More));
        assert_eq!(read_error(chunks(&["ab", "cd"])).await, "abcd");
    }

    #[tokio::test]
    async fn body_beyond_the_prefix_is_reported() {
        assert!(matches!(
            prefix(chunks(&["abc"]), 3).await.1,
            BodyRest::None
        ));
        assert!(matches!(
            prefix(chunks(&["abc", "d"]), 3).await.1,
            BodyRest::More
        ));
        assert!(matches!(
            prefix(broken(&["abc"]), 3).await.1,
            BodyRest::Broken(_)
        ));
    }

    #[tokio::test]
    async fn endless_body_ends_at_the_limit() {
        let endless = vec![
            send("HTTP/1.1 200 OK\r\n\r\n"),
            Step::Endless(vec![b'a'; 1000]),
        ];
        let (server, closed) = RawServer::start_with_close_signal(vec![endless]).await;
        let mut response = ReqwestClient::new()
            .unwrap()
            .exchange(get(server.url("/")))
            .await
            .unwrap();
        assert_eq!(
            read_response(&mut response, 50_000)
                .await
                .unwrap_err()
                .fault(),
            NetFault::TooLarge
        );
        drop(response);
        let _gone = closed.acquire().await.unwrap();
    }

    #[tokio::test]
    async fn refuses_excessive_content_length_before_the_body() {
        let head = vec![
            send("HTTP/1.1 200 OK\r\ncontent-length: 51\r\n\r\n"),
            Step::WaitForClose,
        ];
        let server = RawServer::start(vec![head]).await;
        let mut response = ReqwestClient::new()
            .unwrap()
            .exchange(get(server.url("/")))
            .await
            .unwrap();
        assert_eq!(
            read_response(&mut response, 50).await.unwrap_err().fault(),
            NetFault::TooLarge
        );
    }
}
