//! The raw WebSocket (RFC 6455) of scripted gateways and of tests: writes frames with any fault, and reads strictly.
#![allow(missing_docs, reason = "used only by scripted gateways and tests")]

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::http::Request;

/// The maximum size of a client's message, in bytes. Gateways have lower limits.
const MAX_FRAME_BYTES: u64 = 64 * 1024 * 1024;

/// The mask of client frames. It is fixed, so that runs are equal.
const MASK: [u8; 4] = [0x13, 0x57, 0x9b, 0xdf];

const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// The head of a frame to write.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub last: bool,
    pub reserved: u8,
    pub opcode: u8,
    pub masked: bool,
    /// The length in the frame header. The payload may differ.
    pub length: u64,
}

impl Head {
    /// Returns a whole message, or a control frame.
    #[must_use]
    pub fn whole(opcode: u8, masked: bool, length: usize) -> Self {
        Self {
            last: true,
            reserved: 0,
            opcode,
            masked,
            length: length as u64,
        }
    }

    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let first = u8::from(self.last) << 7 | (self.reserved & 7) << 4 | (self.opcode & 15);
        let mask = u8::from(self.masked) << 7;
        let mut bytes = vec![first];
        match self.length {
            short @ 0..=125 => bytes.push(mask | short as u8),
            medium @ 126..=0xffff => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&long.to_be_bytes());
            }
        }
        if self.masked {
            bytes.extend_from_slice(&MASK);
        }
        bytes
    }
}

/// Masks `bytes`, which begin at `offset` of their payload.
pub fn mask(bytes: &mut [u8], offset: usize) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte ^= MASK[(offset + index) % 4];
    }
}

/// An incoming message, with its fragments joined, or a control frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close { code: Option<u16>, reason: String },
}

/// A received frame, unmasked.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The first byte: the last-fragment bit and the opcode.
    pub first: u8,
    pub masked: bool,
    pub payload: Vec<u8>,
}

/// Reads frames.
pub struct Reader<R> {
    pub stream: R,
    buffer: BytesMut,
    /// The kind and the bytes of an incomplete message.
    partial: Option<(u8, Vec<u8>)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Creates a reader. `buffer` contains the bytes that were read ahead.
    pub fn new(stream: R, buffer: BytesMut) -> Self {
        Self {
            stream,
            buffer,
            partial: None,
        }
    }

    /// Returns the next message or control frame; `None` after the end of the connection.
    ///
    /// # Errors
    /// As [`frame`](Self::frame), and for a frame out of place.
    pub async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            let Some(Frame { first, payload, .. }) = self.frame().await? else {
                return Ok(None);
            };
            let (last, opcode) = (first & 0x80 != 0, first & 15);
            let (kind, payload) = match (opcode, self.partial.take()) {
                (CONTINUATION, Some((kind, mut partial))) => {
                    partial.extend_from_slice(&payload);
                    (kind, partial)
                }
                (TEXT | BINARY, None) => (opcode, payload),
                (PING | PONG | CLOSE, partial) => {
                    self.partial = partial;
                    return Ok(Some(control(opcode, payload)));
                }
                _ => return Err(invalid("a frame out of place")),
            };
            if last {
                return Ok(Some(match kind {
                    TEXT => Incoming::Text(payload),
                    _ => Incoming::Binary(payload),
                }));
            }
            self.partial = Some((kind, payload));
        }
    }

    /// Returns the next frame; `None` after the end of the connection.
    ///
    /// # Errors
    /// `InvalidData` for a reserved bit or an excessive length, else the error of the socket.
    pub async fn frame(&mut self) -> io::Result<Option<Frame>> {
        if !self.need(2).await? {
            return Ok(None);
        }
        let (first, second) = (self.buffer[0], self.buffer[1]);
        if first & 0x70 != 0 {
            return Err(invalid("a reserved bit"));
        }
        let extra = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = second & 0x80 != 0;
        let head = 2 + extra + if masked { 4 } else { 0 };
        if !self.need(head).await? {
            return Ok(None);
        }
        self.buffer.advance(2);
        let length = match extra {
            0 => u64::from(second & 0x7f),
            _ => self.buffer.get_uint(extra),
        };
        if length > MAX_FRAME_BYTES {
            return Err(invalid("a frame larger than any"));
        }
        let key = masked.then(|| self.buffer.get_u32().to_be_bytes());
        let length = length as usize;
        if !self.need(length).await? {
            return Ok(None);
        }
        let mut payload = self.buffer.split_to(length).to_vec();
        if let Some(key) = key {
            for (index, byte) in payload.iter_mut().enumerate() {
                *byte ^= key[index % 4];
            }
        }
        Ok(Some(Frame {
            first,
            masked,
            payload,
        }))
    }

    async fn need(&mut self, count: usize) -> io::Result<bool> {
        while self.buffer.len() < count {
            self.buffer.reserve((count - self.buffer.len()).max(4096));
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn control(opcode: u8, mut payload: Vec<u8>) -> Incoming {
    match opcode {
        PING => Incoming::Ping(payload),
        PONG => Incoming::Pong(payload),
        _ if payload.len() < 2 => Incoming::Close {
            code: None,
            reason: String::new(),
        },
        _ => {
            let reason = String::from_utf8_lossy(&payload.split_off(2)).into_owned();
            Incoming::Close {
                code: Some(u16::from_be_bytes([payload[0], payload[1]])),
                reason,
            }
        }
    }
}

/// Returns an unmasked frame, as servers write it. `first` is its first byte.
#[must_use]
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Head::whole(first, false, payload.len()).bytes();
    bytes[0] = first;
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the head that accepts the upgrade of `request`; `headers` are whole lines.
#[must_use]
pub fn switching(request: &Request, headers: &str) -> String {
    let key = request.header("sec-websocket-key").unwrap_or_default();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n{headers}\r\n",
        accept(key)
    )
}

/// Returns the value of `Sec-WebSocket-Accept` for a key (RFC 6455 §4.2.2).
#[must_use]
pub fn accept(key: &str) -> String {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key.as_bytes());
    digest.update(GUID.as_bytes());
    STANDARD.encode(digest.finish())
}

/// Returns the payload of a close frame.
#[must_use]
pub fn closing(code: Option<u16>, reason: &str) -> Vec<u8> {
    let mut payload = code.map_or_else(Vec::new, |code| code.to_be_bytes().to_vec());
    payload.extend_from_slice(reason.as_bytes());
    payload
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("bad WebSocket frame: {reason}"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn received(bytes: &[u8]) -> io::Result<Vec<Incoming>> {
        let mut reader = Reader::new(bytes, BytesMut::new());
        let mut all = Vec::new();
        while let Some(one) = reader.next().await? {
            all.push(one);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn example_of_rfc_is_read() {
        // RFC 6455 §5.7: a masked "Hello", and the same in two fragments with a ping between them.
        let masked = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(
            received(&masked).await.unwrap(),
            [Incoming::Text(b"Hello".to_vec())]
        );
        let parts = [
            0x01, 0x03, 0x48, 0x65, 0x6c, 0x89, 0x01, 0x21, 0x80, 0x02, 0x6c, 0x6f,
        ];
        let expected = [
            Incoming::Ping(b"!".to_vec()),
            Incoming::Text(b"Hello".to_vec()),
        ];
        assert_eq!(received(&parts).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn every_length_round_trips() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let mut bytes = Head::whole(BINARY, true, length).bytes();
            let mut payload = vec![7; length];
            mask(&mut payload, 0);
            bytes.extend_from_slice(&payload);
            assert_eq!(
                received(&bytes).await.unwrap(),
                [Incoming::Binary(vec![7; length])]
            );
        }
    }

    #[tokio::test]
    async fn close_frame_has_code_and_reason() {
        let payload = closing(Some(1008), "no");
        let mut bytes = Head::whole(CLOSE, false, payload.len()).bytes();
        bytes.extend_from_slice(&payload);
        let expected = Incoming::Close {
            code: Some(1008),
            reason: "no".to_owned(),
        };
        assert_eq!(received(&bytes).await.unwrap(), [expected]);
    }

    #[tokio::test]
    async fn continuation_without_first_frame_is_an_error() {
        assert!(received(&[0x80, 0]).await.is_err());
        assert!(
            received(&[0x01, 0, 0x81, 0]).await.is_err(),
            "a new message inside of one"
        );
    }
}
