//! Reads response bodies up to a limit, and decodes them.
//!
//! Every request asks for `identity`. Some proxies compress nevertheless, so this module decodes gzip and deflate
//! (RFC 9110 §8.4.1). The caller's limits count decoded bytes: a body expands piece by piece, as it is read.

use std::io;
use std::time::Duration;

use base::text::first_chars;
use bytes::{Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use futures_util::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
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

/// The size of a decoded piece, in bytes.
const PIECE_BYTES: usize = 16 * 1024;

/// The maximum size of a gzip header, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// The length of the checksum and the size after a gzip member.
const TRAILER_BYTES: usize = 8;

/// The maximum number of codings of one body.
const MAX_CODINGS: usize = 2;

/// A supported coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
}

/// Decodes the body of `response` from `place`. The body of an error in an unknown coding is dropped: its status matters
/// more.
///
/// # Errors
/// The coding of a successful response is unknown.
pub(super) fn decode(mut response: Response, place: &str) -> Result<Response, NetError> {
    let codings = codings(&response.headers);
    response.headers.remove(CONTENT_ENCODING);
    let codings = match codings {
        Ok(codings) if codings.is_empty() => return Ok(response),
        Ok(codings) => codings,
        Err(name) if response.status.is_success() => {
            let message = format!(
                "the response of `{place}` has the content encoding `{name}`, which was not requested and is not supported; turn off compression of the agent or its proxy"
            );
            return Err(NetError::new(NetFault::Protocol, Sent::Unknown, message));
        }
        Err(_) => {
            response.headers.remove(CONTENT_LENGTH);
            response.body = Box::pin(stream::empty());
            return Ok(response);
        }
    };
    // It counts encoded bytes.
    response.headers.remove(CONTENT_LENGTH);
    for coding in codings.into_iter().rev() {
        response.body = Box::pin(decoded(response.body, coding, place.to_owned()));
    }
    Ok(response)
}

/// Returns the codings in the order of their application, or the first unknown one.
fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, String> {
    let mut codings = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        for name in value.split(',').map(str::trim) {
            codings.push(match name {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                other => return Err(first_chars(other, 40).to_owned()),
            });
        }
    }
    if codings.len() > MAX_CODINGS {
        return Err(format!("{} times compressed", codings.len()));
    }
    Ok(codings)
}

fn decoded(
    body: ByteStream,
    coding: Coding,
    place: String,
) -> impl Stream<Item = Result<Bytes, NetError>> + Send + Sync {
    let state = (body, Decoder::new(coding), place);
    stream::try_unfold(state, async |(mut body, mut decoder, place)| {
        loop {
            let broken = |fault, reason: &str| {
                let message = format!("the compressed response of `{place}` {reason}");
                NetError::new(fault, Sent::Unknown, message)
            };
            match decoder.next() {
                Ok(Some(piece)) => return Ok(Some((piece, (body, decoder, place)))),
                Ok(None) => {}
                Err(_) => return Err(broken(NetFault::Protocol, "is damaged")),
            }
            match body.next().await {
                Some(bytes) => decoder.input.extend_from_slice(&bytes?),
                None if decoder.is_complete() => return Ok(None),
                None => return Err(broken(NetFault::Cut, "broke off")),
            }
        }
    })
}

/// Decodes a body whose bytes arrive in pieces.
struct Decoder {
    coding: Coding,
    /// Bytes that are not decoded yet.
    input: BytesMut,
    state: State,
}

enum State {
    /// Before a gzip header or the first bytes of a deflated body; `first` if nothing was decoded before.
    Start {
        first: bool,
    },
    Data {
        inflate: Decompress,
        sum: Crc,
    },
    /// Before the checksum of gzip.
    Trailer(Crc),
    /// After a deflated body.
    Done,
}

impl Decoder {
    fn new(coding: Coding) -> Self {
        Self {
            coding,
            input: BytesMut::new(),
            state: State::Start { first: true },
        }
    }

    /// Returns whether the body may end here.
    fn is_complete(&self) -> bool {
        match self.state {
            State::Start { .. } => self.input.is_empty(),
            State::Done => true,
            State::Data { .. } | State::Trailer(_) => false,
        }
    }

    /// Returns the next decoded bytes, or `None` if more input is necessary.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match &mut self.state {
                State::Start { first } => {
                    let first = *first;
                    if !self.start(first)? {
                        return Ok(None);
                    }
                }
                State::Data { inflate, sum } => {
                    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                    let mut piece = vec![0; PIECE_BYTES];
                    let status =
                        inflate.decompress(&self.input, &mut piece, FlushDecompress::None)?;
                    let consumed = usize::try_from(inflate.total_in() - before_in);
                    let written = usize::try_from(inflate.total_out() - before_out);
                    let (Ok(consumed), Ok(written)) = (consumed, written) else {
                        return Err(damaged());
                    };
                    drop(self.input.split_to(consumed));
                    piece.truncate(written);
                    sum.update(&piece);
                    if status == Status::StreamEnd {
                        self.state = match self.coding {
                            Coding::Gzip => State::Trailer(std::mem::take(sum)),
                            Coding::Deflate => State::Done,
                        };
                    }
                    if written > 0 {
                        return Ok(Some(piece.into()));
                    }
                    if status != Status::StreamEnd && consumed == 0 {
                        return Ok(None);
                    }
                }
                State::Trailer(sum) => {
                    if self.input.len() < TRAILER_BYTES {
                        return Ok(None);
                    }
                    let trailer = self.input.split_to(TRAILER_BYTES);
                    let expected = [sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat();
                    if trailer != expected {
                        return Err(damaged());
                    }
                    self.state = State::Start { first: false };
                }
                State::Done => {
                    self.input.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Reads what precedes the data. Returns whether it is complete.
    fn start(&mut self, first: bool) -> io::Result<bool> {
        let zlib = match self.coding {
            Coding::Gzip => {
                if !first && self.input.iter().all(|byte| *byte == 0) {
                    // Padding after the last member.
                    self.input.clear();
                    return Ok(false);
                }
                let reader = GzDecoder::new(&self.input[..]);
                if reader.header().is_none() {
                    let magic = &self.input[..self.input.len().min(2)];
                    let plausible = b"\x1f\x8b".starts_with(magic);
                    return if plausible && self.input.len() <= MAX_HEADER_BYTES {
                        Ok(false)
                    } else {
                        Err(damaged())
                    };
                }
                let rest = reader.into_inner().len();
                let header = self.input.len() - rest;
                drop(self.input.split_to(header));
                false
            }
            // RFC 9110 means the zlib format; some servers send the bare data.
            Coding::Deflate => {
                let [cmf, flags, ..] = self.input[..] else {
                    return Ok(false);
                };
                cmf & 0x0F == 8 && u16::from_be_bytes([cmf, flags]) % 31 == 0
            }
        };
        self.state = State::Data {
            inflate: Decompress::new(zlib),
            sum: Crc::new(),
        };
        Ok(true)
    }
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::HttpClient;
    use super::super::http::ReqwestClient;
    use super::*;
    use crate::testing::get;
    use futures_util::stream;
    use testkit::raw_server::{RawServer, Step, send};

    fn chunks(list: &[&'static str]) -> ByteStream {
        let list: Vec<_> = list
            .iter()
            .map(|c| Ok(Bytes::from_static(c.as_bytes())))
            .collect();
        Box::pin(stream::iter(list))
    }

    fn cut() -> NetError {
        NetError::new(NetFault::Cut, Sent::Unknown, "cut")
    }

    fn broken(list: &[&'static str]) -> ByteStream {
        Box::pin(chunks(list).chain(stream::iter([Err(cut())])))
    }

    #[tokio::test]
    async fn body_is_read_up_to_the_limit() {
        for (body, limit, expected) in [
            (chunks(&["ab", "", "c", "de"]), 5, Ok("abcde")),
            (chunks(&["abcde"]), 5, Ok("abcde")),
            (chunks(&[]), 0, Ok("")),
            (chunks(&["ab", "cdef"]), 5, Err(NetFault::TooLarge)),
            (chunks(&["abcdef"]), 5, Err(NetFault::TooLarge)),
            (
                chunks(&["a", "b", "c", "d", "e", "f"]),
                5,
                Err(NetFault::TooLarge),
            ),
            (broken(&["ab"]), 5, Err(NetFault::Cut)),
        ] {
            let read = read_all(body, limit).await;
            assert_eq!(
                read.map_err(|error| error.fault()),
                expected.map(Bytes::from)
            );
        }
    }

    #[tokio::test]
    async fn prefix_ends_at_the_limit_and_says_what_follows() {
        for (body, read, expected) in [
            (chunks(&["ab", "cd"]), "abc", BodyRest::More),
            (broken(&["ab"]), "ab", BodyRest::Broken(cut())),
            (chunks(&["abc"]), "abc", BodyRest::None),
            (chunks(&["abc", "d"]), "abc", BodyRest::More),
            (broken(&["abc"]), "abc", BodyRest::Broken(cut())),
        ] {
            let (prefix, rest) = prefix(body, 3).await;
            assert_eq!(prefix, read);
            assert_eq!(
                std::mem::discriminant(&rest),
                std::mem::discriminant(&expected)
            );
        }
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
    async fn content_length_beyond_the_limit_is_refused_before_the_body() {
        let head = |length| {
            send(format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"
            ))
        };
        let server = RawServer::start(vec![
            vec![head(50), send("a".repeat(50)), Step::WaitForClose],
            vec![head(51), Step::WaitForClose],
        ])
        .await;
        let client = ReqwestClient::new().unwrap();
        let mut allowed = client.exchange(get(server.url("/"))).await.unwrap();
        assert_eq!(read_response(&mut allowed, 50).await.unwrap().len(), 50);
        let mut refused = ReqwestClient::new()
            .unwrap()
            .exchange(get(server.url("/")))
            .await
            .unwrap();
        assert_eq!(
            read_response(&mut refused, 50).await.unwrap_err().fault(),
            NetFault::TooLarge
        );
    }
}

#[cfg(test)]
mod encoding_tests;
