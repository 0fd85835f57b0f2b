//! Lines of another program, each with a maximum length.
//!
//! # Examples
//!
//! ```
//! use openclaw_remote_agent_base::lines::{Line, LineReader};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let mut lines = LineReader::new(&b"one\n\nmuch too long\nlast"[..], 5);
//! assert_eq!(lines.next_line().await?, Some(Line::Bytes(b"one".to_vec())));
//! assert_eq!(lines.next_line().await?, Some(Line::TooLong));
//! assert_eq!(lines.next_line().await?, Some(Line::Bytes(b"last".to_vec())));
//! assert_eq!(lines.next_line().await?, None);
//! # Ok(())
//! # }
//! ```

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Its bytes, without the line feed.
    Bytes(Vec<u8>),
    /// It was longer than allowed, and the reader discarded it.
    TooLong,
}

/// Reads lines, and keeps at most the allowed bytes of one.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: BufReader<R>,
    max_bytes: usize,
    line: Vec<u8>,
    number: u64,
    /// Whether the rest of the line is discarded.
    is_too_long: bool,
    is_ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `max_bytes` bytes, without their line feeds.
    pub fn new(input: R, max_bytes: usize) -> Self {
        Self {
            reader: BufReader::new(input),
            max_bytes,
            line: Vec::new(),
            number: 0,
            is_too_long: false,
            is_ended: false,
        }
    }

    /// Returns the number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the input has ended or failed.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns the next line that is not blank; `None` at the end of the input. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The input is unreadable, which ends it.
    pub async fn next_line(&mut self) -> io::Result<Option<Line>> {
        while !self.is_ended {
            let available = match self.reader.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    self.is_ended = true;
                    return Err(error);
                }
            };
            let newline = memchr::memchr(b'\n', available);
            let data = &available[..newline.unwrap_or(available.len())];
            if self.is_too_long || self.line.len() + data.len() > self.max_bytes {
                self.is_too_long = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(data);
            }
            self.is_ended = available.is_empty();
            let read = data.len() + usize::from(newline.is_some());
            self.reader.consume(read);
            if newline.is_none() && !self.is_ended {
                continue;
            }
            self.number += 1;
            let line = std::mem::take(&mut self.line);
            match std::mem::take(&mut self.is_too_long) {
                true => return Ok(Some(Line::TooLong)),
                false if line.trim_ascii().is_empty() => {}
                false => return Ok(Some(Line::Bytes(line))),
            }
        }
        Ok(None)
    }
}
