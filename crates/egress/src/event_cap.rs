//! The size limit of an incoming event.

use memchr::memchr2;

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
