//! Bodies, written in pieces so that a hundred megabytes need no memory.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::script::Padding;

/// The size of the write buffer, in bytes.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// A writer of bodies: plain, or as HTTP/1.1 chunks.
pub(super) struct Sink<'a> {
    stream: &'a mut TcpStream,
    chunked: bool,
    gathered: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(super) fn plain(stream: &'a mut TcpStream) -> Self {
        Self {
            stream,
            chunked: false,
            gathered: Vec::new(),
        }
    }

    pub(super) fn chunked(stream: &'a mut TcpStream) -> Self {
        Self {
            stream,
            chunked: true,
            gathered: Vec::new(),
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BUFFER_BYTES {
            self.flush().await
        } else {
            Ok(())
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        if self.chunked {
            let mut framed = format!("{:x}\r\n", self.gathered.len()).into_bytes();
            framed.append(&mut self.gathered);
            framed.extend_from_slice(b"\r\n");
            return self.stream.write_all(&framed).await;
        }
        self.stream.write_all(&self.gathered).await?;
        self.gathered.clear();
        Ok(())
    }

    /// Flushes; with `whole`, also writes the final chunk.
    pub(super) async fn end(mut self, whole: bool) -> io::Result<()> {
        self.flush().await?;
        if self.chunked && whole {
            self.stream.write_all(b"0\r\n\r\n").await
        } else {
            Ok(())
        }
    }
}

/// The body of a response without events.
pub(super) enum Body<'a> {
    Text(String),
    Json(String),
    Padding(&'a Padding),
}

impl Body<'_> {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Text(_) | Self::Padding(_) => "text/plain",
        }
    }

    /// Returns the length in bytes; `None` for an endless body.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Text(text) | Self::Json(text) => Some(text.len() as u64),
            Self::Padding(fill) => Some((fill.chunk.len() as u64).saturating_mul(fill.count?)),
        }
    }

    /// Writes the body, or its first `limit` bytes.
    pub(super) async fn write(&self, sink: &mut Sink<'_>, limit: Option<u64>) -> io::Result<()> {
        let mut remaining = limit.unwrap_or(u64::MAX);
        let (piece, count, gap) = match self {
            Self::Text(text) | Self::Json(text) => (text.as_bytes(), Some(1), 0),
            Self::Padding(fill) => (fill.chunk.as_bytes(), fill.count, fill.gap_ms),
        };
        let mut written = 0;
        while remaining > 0 && !piece.is_empty() && count.is_none_or(|count| written < count) {
            if gap > 0 {
                sink.flush().await?;
                sleep(Duration::from_millis(gap)).await;
            }
            let part = &piece[..piece
                .len()
                .min(usize::try_from(remaining).unwrap_or(usize::MAX))];
            sink.write(part).await?;
            remaining -= part.len() as u64;
            written += 1;
        }
        sink.flush().await
    }
}
