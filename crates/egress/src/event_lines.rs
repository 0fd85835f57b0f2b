//! The lines of an event stream that affect its events.
//!
//! WHATWG, "Interpreting an event stream": a field of an unknown name and a value that its field cannot have are ignored.
//! The parser instead fails at a block without a known field.

use bytes::Bytes;
use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Keeps `data` and `event` fields and blank lines, and removes the content of comments and every other line, in constant
/// memory. Lines end as in [`EventCap`](super::event_cap::EventCap).
#[derive(Debug, Default)]
pub(super) struct EventLines {
    /// The beginning of the current line, while the field is unknown.
    head: Vec<u8>,
    line: Line,
    after_cr: bool,
    started: bool,
}

/// What becomes of the rest of the current line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// Not decided: the line has not begun, or only its name.
    #[default]
    Undecided,
    Keep,
    Drop,
}

impl EventLines {
    /// Returns the lines of the next bytes that are kept.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Bytes {
        let mut kept = Vec::with_capacity(bytes.len());
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', bytes);
            let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.text(text, &mut kept);
            if end.is_some() {
                self.end(&mut kept);
                self.after_cr = rest[0] == b'\r';
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        kept.into()
    }

    /// Reads a part of a line.
    fn text(&mut self, mut text: &[u8], kept: &mut Vec<u8>) {
        while self.line == Line::Undecided && !text.is_empty() {
            self.head.push(text[0]);
            text = &text[1..];
            if !self.started && BYTE_ORDER_MARK.starts_with(&self.head) {
                if self.head == BYTE_ORDER_MARK {
                    self.head.clear();
                    self.started = true;
                }
                continue;
            }
            self.started = true;
            self.decide(kept);
        }
        if self.line == Line::Keep {
            kept.extend_from_slice(text);
        }
    }

    /// Decides about a line by its beginning.
    fn decide(&mut self, kept: &mut Vec<u8>) {
        // The value of `event` decides too: an empty one means the default.
        let is_prefix = |field: &[u8]| field.starts_with(&self.head);
        if is_prefix(b"data:") && self.head.len() < 5 || is_prefix(b"event: ") {
            return;
        }
        self.line = if self.head == b"data:" || self.head.starts_with(b"event:") {
            kept.extend_from_slice(&self.head);
            Line::Keep
        } else {
            if self.head[0] == b':' {
                kept.push(b':');
                kept.push(b'\n');
            }
            Line::Drop
        };
    }

    /// Ends the line.
    fn end(&mut self, kept: &mut Vec<u8>) {
        match (self.line, self.head.as_slice()) {
            (Line::Keep, _) | (Line::Undecided, b"") => kept.push(b'\n'),
            (Line::Undecided, b"data") => kept.extend_from_slice(b"data\n"),
            (Line::Undecided, b"event" | b"event:" | b"event: ") => {
                kept.extend_from_slice(b"event:message\n");
            }
            _ => {}
        }
        self.started = true;
        self.head.clear();
        self.line = Line::Undecided;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(text: &str) -> String {
        String::from_utf8_lossy(&EventLines::default().feed(text.as_bytes())).into_owned()
    }

    #[test]
    fn lines_without_meaning_are_removed() {
        for (text, expected) in [
            ("data: a\n\n", "data: a\n\n"),
            ("data:a\r\rdata\r\n\r\n", "data:a\n\ndata\n\n"),
            (
                "event: x\nevent\ndata: 1\n\n",
                "event: x\nevent:message\ndata: 1\n\n",
            ),
            (
                "event:\nevent: \nevent:  \nevent:y\n",
                "event:message\nevent:message\nevent:  \nevent:y\n",
            ),
            (": a comment\n:\n", ":\n:\n"),
            ("unknown: 1\n\nno colon\n\n", "\n\n"),
            (
                "dat\ndatax: 1\ndatas\nData: 1\ndata : 1\n data: 1\nevents: 1\nevent : 1\nevenT\n",
                "",
            ),
            ("id: 1\nid: a\u{0}b\nid\nretry: x\nretry: 9\n\n", "\n"),
            ("\u{feff}data: a\n", "data: a\n"),
            ("\u{feff}\ndata: \u{feff}\n", "\ndata: \u{feff}\n"),
            ("\u{feff}\u{feff}data: a\n", ""),
            ("\n\u{feff}data: a\n", "\n"),
        ] {
            assert_eq!(kept(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(parts in prop::collection::vec("(data|event|id|:| |x|\u{feff}|\r|\n|da){0,3}", 0..12)) {
            let mut lines = EventLines::default();
            let chunks: Vec<u8> = parts.iter().flat_map(|part| lines.feed(part.as_bytes())).collect();
            prop_assert_eq!(String::from_utf8_lossy(&chunks).into_owned(), kept(&parts.concat()));
        }
    }
}
