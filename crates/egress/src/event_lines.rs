//! The lines of an event stream that affect its events, and the size limit of an event.
//!
//! WHATWG, "Interpreting an event stream": a field of an unknown name and a value that its field cannot have are ignored.
//! The parser instead fails at a block without a known field. Some servers label events and JSON as each other, so a body has
//! the form of its first bytes.

use bytes::Bytes;
use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The fields of an event.
const FIELDS: [&[u8]; 4] = [b"data:", b"event:", b"id:", b"retry:"];

/// Up to this many blank bytes before the first other one leave the form of a body open.
pub(super) const MAX_BLANK_BYTES: usize = 64;

/// The form of a body, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    Events,
    /// An object or a list.
    Json,
    /// Bytes of another encoding than UTF-8, with the words for it.
    Encoded(&'static str),
    Other,
}

/// Returns the form of a body that begins with `head`; `None` if more of it is needed.
pub(super) fn form_of(head: &[u8]) -> Option<BodyForm> {
    match head {
        // RFC 1952 §2.3.1.
        [0x1F, 0x8B, ..] => {
            let words = "they are compressed with gzip without a Content-Encoding";
            return Some(BodyForm::Encoded(words));
        }
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            return Some(BodyForm::Encoded("they are UTF-16, not UTF-8"));
        }
        [0x1F] | [0xFF] | [0xFE] => return None,
        _ => {}
    }
    if BYTE_ORDER_MARK.starts_with(head) {
        return None;
    }
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b'{' | b'[') => Some(BodyForm::Json),
        Some(b':') => Some(BodyForm::Events),
        _ if FIELDS.iter().any(|field| text.starts_with(field)) => Some(BodyForm::Events),
        _ if head.len() < MAX_BLANK_BYTES && FIELDS.iter().any(|field| field.starts_with(text)) => {
            None
        }
        _ => Some(BodyForm::Other),
    }
}

/// Makes the lines of a document of JSON those of the data of one event.
#[derive(Debug, Default)]
pub(super) struct JsonLines {
    in_line: bool,
    bytes: usize,
}

impl JsonLines {
    /// Returns the lines of the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Bytes {
        self.bytes += bytes.len();
        let mut lines = Vec::with_capacity(bytes.len() + 8);
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => {
                    if std::mem::take(&mut self.in_line) {
                        lines.push(b'\n');
                    }
                }
                byte => {
                    if !std::mem::replace(&mut self.in_line, true) {
                        lines.extend_from_slice(b"data: ");
                    }
                    lines.push(*byte);
                }
            }
        }
        lines.into()
    }

    /// Returns the size of the document so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Keeps `data` and `event` fields and blank lines, and removes the content of comments and every other line, in constant
/// memory. Lines end as in [`EventCap`].
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

/// Counts the buffered bytes of the unfinished event of a stream, in constant memory.
///
/// Lines end with LF, CR or CRLF, wherever the chunks are split. A blank line ends the event. Comment lines belong to
/// no event, so a peer may send any number of them. Each is counted until its line ends.
#[derive(Debug, Default)]
pub(super) struct EventCap {
    /// Bytes of the event's finished lines.
    event: usize,
    /// Bytes of the unfinished line.
    line: usize,
    comment: bool,
    after_cr: bool,
}

impl EventCap {
    /// Counts the next bytes. Returns false if an event exceeds `max` bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8], max: usize) -> bool {
        loop {
            if self.after_cr && !bytes.is_empty() {
                self.after_cr = false;
                if bytes[0] == b'\n' {
                    bytes = &bytes[1..];
                }
            }
            if self.line == 0 {
                self.comment = bytes.first() == Some(&b':');
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.line += bytes.len();
                return self.buffered() <= max;
            };
            self.line += end;
            if self.buffered() > max {
                return false;
            }
            if self.line == 0 {
                self.event = 0;
            } else if !self.comment {
                self.event += self.line + 1;
            }
            self.line = 0;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
        }
    }

    /// Returns whether an event has begun that no blank line has ended yet.
    pub(super) fn unfinished(&self) -> bool {
        self.event > 0 || (self.line > 0 && !self.comment)
    }

    fn buffered(&self) -> usize {
        self.event + self.line
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

#[cfg(test)]
mod event_cap_tests {
    use super::*;
    use proptest::prelude::*;

    fn fed(chunks: &[&[u8]], max: usize) -> (bool, bool) {
        let mut cap = EventCap::default();
        let within = chunks.iter().all(|chunk| cap.feed(chunk, max));
        (within, cap.unfinished())
    }

    #[test]
    fn event_above_the_limit_is_rejected() {
        assert!(fed(&[b"data: 6789"], 10).0);
        assert!(!fed(&[b"data: 67890"], 10).0);
        assert!(!fed(&[b"data: 6", b"7", b"890"], 10).0);
        assert!(!fed(&[b"data: 67890\n\n"], 10).0);
    }

    #[test]
    fn blank_line_resets_the_event_size() {
        assert!(!fed(&[b"data: 1\n", b"data: 2\n"], 10).0);
        for blank in ["\n\n", "\r\r", "\r\n\r\n", "\n\r\n", "\r\n\r"] {
            assert!(
                fed(&[b"data: 1", blank.as_bytes(), b"data: 2"], 10).0,
                "{blank:?}"
            );
        }
    }

    #[test]
    fn crlf_split_over_chunks_is_one_line_end() {
        assert!(!fed(&[b"data: 1\r", b"\ndata: 2"], 10).0);
        assert!(fed(&[b"data: 1\r", b"\n\r", b"\ndata: 2"], 10).0);
    }

    #[test]
    fn each_comment_is_limited_alone() {
        let many: Vec<&[u8]> = std::iter::repeat_n(&b": ping\n"[..], 100).collect();
        assert_eq!(fed(&many, 10), (true, false));
        assert!(!fed(&[b": a comment without an end"], 10).0);
        assert!(!fed(&[b"data: 1\n: 90"], 10).0);
    }

    #[test]
    fn event_without_blank_line_is_unfinished() {
        for (text, unfinished) in [
            ("", false),
            ("data", true),
            ("data\n", true),
            ("data\n\n", false),
            (": x", false),
            (":\n\n", false),
        ] {
            assert_eq!(fed(&[text.as_bytes()], 99).1, unfinished, "{text:?}");
        }
    }

    /// Returns the most bytes that an event or comment line of `text` takes, and whether the last one is incomplete.
    fn plainly(text: &str) -> (usize, bool) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let (mut most, mut event) = (0, 0);
        let mut lines: Vec<_> = text.split('\n').collect();
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            most = most.max(event + line.len());
            event = match line {
                "" => 0,
                comment if comment.starts_with(':') => event,
                field => event + field.len() + 1,
            };
        }
        (
            most.max(event + last.len()),
            event > 0 || !(last.is_empty() || last.starts_with(':')),
        )
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(parts in prop::collection::vec("[a:\r\n]{0,6}", 0..12), max in 0_usize..12) {
            let (most, unfinished) = plainly(&parts.concat());
            let chunks: Vec<_> = parts.iter().map(|p| p.as_bytes()).collect();
            let (within, unfinished_bytes) = fed(&chunks, max);
            prop_assert_eq!(within, most <= max);
            if within {
                prop_assert_eq!(unfinished_bytes, unfinished);
            }
        }
    }
}
