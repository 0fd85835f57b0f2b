//! Encoded response bodies.
//!
//! Every request asks for `identity`. Some proxies compress nevertheless, so this module decodes gzip and deflate
//! (RFC 9110 §8.4.1). The caller's limits count decoded bytes: a body expands piece by piece, as it is read.

use std::io;

use base::text::first_chars;
use bytes::{Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use futures_util::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

use super::{ByteStream, NetError, NetFault, Response, Sent};

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
    if !response.headers.contains_key(CONTENT_ENCODING) {
        return Ok(response);
    }
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
mod tests;
