//! A text as programs show or read it, for finding secrets that hidden characters interrupt or escapes disguise.

use memchr::memchr_iter;

use crate::visible::{self, Kind, Step};

/// How many characters of Base64 before a line end make a text one whose lines a program may join.
const MIN_BASE64_LINE: usize = 16;

/// Returns the first step of a text, such as a character or a control sequence.
type StepFn = fn(&str) -> Option<Step>;

/// The visible characters of a text, and the position of each byte in the text.
pub(super) struct VisibleText {
    pub(super) text: String,
    pub(super) places: Vec<usize>,
    /// Where each byte ends in the text, if escapes are decoded; otherwise each byte has its own place.
    ends: Vec<usize>,
    /// Whether escapes are decoded.
    pub(super) is_decoded: bool,
    /// The length in bytes of the visible text before what may become a longer control sequence.
    pub(super) certain: usize,
}

impl VisibleText {
    /// Returns what programs show of a text: those that know control sequences, and those that only remove control
    /// characters. Empty if both show the text itself. With `joins_space`, a run of white space counts as one space, as in
    /// a text that a program has joined into one line. The last is what a program reads that decodes escapes and joins the lines
    /// of Base64; `longest` is the length in bytes of the longest secret.
    pub(super) fn all(text: &str, joins_space: bool, longest: usize) -> impl Iterator<Item = Self> {
        let joins_space = joins_space && text.contains(char::is_whitespace);
        let is_plain = !joins_space && visible::is_all_visible(text);
        let may_have_sequences = !is_plain
            && text.contains([
                '\u{1b}', '\u{90}', '\u{98}', '\u{9b}', '\u{9d}', '\u{9e}', '\u{9f}',
            ]);
        let steps = [
            (!is_plain).then_some(visible::character as StepFn),
            may_have_sequences.then_some(visible::step as StepFn),
        ];
        let steps = steps.into_iter().flatten();
        let shown = steps.map(move |step| Self::new(text, joins_space, step));
        let decoded = may_be_encoded(text, longest).then(|| Self::decoded(text, longest));
        shown.chain(decoded)
    }

    /// Returns where the byte at `index` of the visible text ends in the text.
    pub(super) fn end(&self, index: usize) -> usize {
        let own = self.places[index] + 1;
        self.ends.get(index).copied().unwrap_or(own)
    }

    /// Returns the text with its escapes decoded (`\u0026` of JSON, `%26` of URLs), and with the lines of Base64 joined.
    fn decoded(text: &str, longest: usize) -> Self {
        let mut read = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
            ends: Vec::with_capacity(text.len()),
            is_decoded: true,
            certain: 0,
        };
        let (mut at, mut certain) = (0, None);
        while let Some(step) = visible::character(&text[at..]) {
            let rest = &text[at..];
            let (end, decoded) = match escape(rest) {
                Escape::Of(c, len) => (at + len, Some(c)),
                Escape::Unfinished => {
                    certain.get_or_insert(read.text.len());
                    (at + step.len, None)
                }
                Escape::No => (at + step.len, None),
            };
            let is_shown = step.kind != Kind::Hidden
                && !(rest.starts_with('\n') && ends_base64(&text.as_bytes()[..at], longest));
            match decoded {
                Some(c) => {
                    read.text.push(c);
                    read.places.extend([at].repeat(c.len_utf8()));
                    read.ends.extend([end].repeat(c.len_utf8()));
                }
                None if is_shown => {
                    read.text.push_str(&text[at..end]);
                    read.places.extend(at..end);
                    read.ends.extend(at + 1..=end);
                }
                None => {}
            }
            at = end;
        }
        read.certain = certain.unwrap_or(read.text.len());
        read
    }

    fn new(text: &str, joins_space: bool, step: StepFn) -> Self {
        let mut shown = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len()),
            ends: Vec::new(),
            is_decoded: false,
            certain: 0,
        };
        let (mut at, mut certain) = (0, None);
        while let Some(Step {
            kind,
            len,
            is_unfinished,
        }) = step(&text[at..])
        {
            if is_unfinished {
                certain.get_or_insert(shown.text.len());
            }
            if kind != Kind::Hidden {
                shown.push(&text[at..at + len], at, joins_space);
            }
            at += len;
        }
        shown.certain = certain.unwrap_or(shown.text.len());
        shown
    }

    fn push(&mut self, piece: &str, at: usize, joins_space: bool) {
        if joins_space && piece.contains(char::is_whitespace) {
            if !self.text.ends_with(' ') {
                self.text.push(' ');
                self.places.push(at);
            }
            return;
        }
        self.text.push_str(piece);
        self.places.extend(at..at + piece.len());
    }
}

/// Returns whether a program may read a text otherwise than it stands there.
fn may_be_encoded(text: &str, longest: usize) -> bool {
    let bytes = text.as_bytes();
    text.contains('%')
        || text.ends_with('\\')
        || text.contains("\\u")
        || memchr_iter(b'\n', bytes).any(|at| ends_base64(&bytes[..at], longest))
}

/// Returns whether a line ends with so much Base64 that its next line may continue it.
fn ends_base64(line: &[u8], longest: usize) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let min = MIN_BASE64_LINE.min(longest.saturating_sub(1)).max(1);
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    line.len() >= min && line[line.len() - min..].iter().all(is_base64)
}

/// What a text begins with.
enum Escape {
    /// The escape of a character, of this length in bytes.
    Of(char, usize),
    /// What more text could make an escape.
    Unfinished,
    No,
}

/// Returns the escape that `text` begins with. Escapes of bytes after ASCII and of surrogates count as text.
fn escape(text: &str) -> Escape {
    let (start, digits) = match text.as_bytes() {
        [b'%', ..] => (1, 2),
        [b'\\', b'u', ..] => (2, 4),
        [b'\\'] => return Escape::Unfinished,
        _ => return Escape::No,
    };
    let code = text.as_bytes()[start..].iter().take(digits);
    if !code.clone().all(u8::is_ascii_hexdigit) {
        return Escape::No;
    }
    let end = start + digits;
    let Some(code) = text.get(start..end) else {
        return Escape::Unfinished;
    };
    let c = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    match c.filter(|c| digits == 4 || c.is_ascii()) {
        Some(c) => Escape::Of(c, end),
        None => Escape::No,
    }
}
