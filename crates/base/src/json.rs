//! JSON from bytes of others.
//!
//! Every reader of JSON that another program wrote uses this module, so that each accepts and refuses the same texts:
//!
//! - A byte order mark before the text is dropped (RFC 8259, section 8.1, permits that).
//! - An escaped surrogate without its pair becomes U+FFFD, as `String.prototype.toWellFormed` of ECMAScript writes it. Some
//!   encoders cut a text between the two halves of a character.
//! - The limits hold on the bytes, before anything is parsed: a parsed value takes up to 320 times the memory of its text.
//! - An error names the place and the fault, and never quotes the text.

use std::borrow::Cow;
use std::{fmt, io};

use memchr::{memchr2, memchr2_iter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::text::utf8;

/// The estimated memory of a parsed value, in bytes. An array and an object that are not empty take more.
pub const VALUE_BYTES: usize = 48;
/// The estimated memory of a key of an object, in bytes, without its text.
pub const KEY_BYTES: usize = 48;
/// The estimated memory of an array that is not empty, in bytes, without its items.
pub const ARRAY_BYTES: usize = 128;
/// The estimated memory of an object that is not empty, in bytes: its first node has room for eleven entries.
pub const OBJECT_BYTES: usize = 640;

/// The memory that the parsed values of a text may take under a limit on its length, as a multiple of that limit.
pub const MAX_MEMORY_RATIO: usize = 8;

/// The largest whole number up to which a double expresses every one.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The maximum nesting of arrays and objects that the parser accepts.
const PARSER_DEPTH: usize = 127;

/// The limits of a JSON text, which are checked before it is parsed.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::json::{self, Limits};
///
/// let limits = Limits { depth: 2, ..Limits::NONE };
/// assert_eq!(json::from_slice::<Vec<u8>>(b"\xEF\xBB\xBF[1]", limits).unwrap(), [1]);
/// let error = json::from_slice::<serde_json::Value>(b"[[[]]]", limits).unwrap_err();
/// assert_eq!(error.to_string(), "it nests arrays and objects deeper than 2 levels");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum nesting of arrays and objects.
    pub depth: usize,
    /// The maximum number of values and keys.
    pub values: usize,
    /// The maximum estimated memory of the parsed values, in bytes, without their strings.
    pub memory: usize,
}

impl Limits {
    /// No limit but that of the parser: 127 levels.
    pub const NONE: Self = Self {
        depth: PARSER_DEPTH,
        values: usize::MAX,
        memory: usize::MAX,
    };
}

/// Why a text was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// The text is not JSON.
    Syntax,
    /// The text is JSON of another type than expected.
    Type,
    /// The text nests arrays and objects too deeply.
    TooDeep,
    /// The text has too many values.
    TooManyValues,
}

/// The error of an unreadable JSON text: a clause whose subject is the text, for a message such as
/// `cannot read the card: {error}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The kind of the error.
    pub kind: JsonErrorKind,
    message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JsonError {}

/// The structure of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// The deepest nesting of arrays and objects.
    pub depth: usize,
    /// The number of values and keys.
    pub values: usize,
    /// The estimated memory of the parsed values, in bytes, without their strings.
    pub memory: usize,
}

impl Structure {
    /// Measures a JSON text in one pass. Does not check that the text is valid.
    #[must_use]
    pub fn of(json: &[u8]) -> Self {
        let mut structure = Self {
            depth: 0,
            values: 1,
            memory: VALUE_BYTES,
        };
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(&byte) = json.get(at) {
            at += 1;
            match byte {
                b'"' => at = after_string(json, at),
                b',' => structure.add(1, VALUE_BYTES),
                b':' => structure.add(1, KEY_BYTES),
                b'[' | b'{' => {
                    depth += 1;
                    structure.depth = structure.depth.max(depth);
                    let (closing, bytes) = match byte {
                        b'[' => (b']', ARRAY_BYTES),
                        _ => (b'}', OBJECT_BYTES),
                    };
                    if !next_is(json, at, closing) {
                        structure.add(1, bytes);
                    }
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        structure
    }

    fn add(&mut self, values: usize, bytes: usize) {
        self.values += values;
        self.memory = self.memory.saturating_add(bytes);
    }
}

/// The items of an array, or the members of an object with their names, as their JSON. The text must be valid and without
/// white space, as serde_json writes it.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::json::Items;
///
/// let mut items = Items::of(br#"{"a":[1,2],"b":"]"},3"#);
/// assert_eq!(items.next(), Some(&br#""a":[1,2]"#[..]));
/// assert_eq!(items.next(), Some(&br#""b":"]""#[..]));
/// assert_eq!((items.next(), items.rest()), (None, &b"},3"[..]));
/// ```
#[derive(Debug, Clone)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// Reads the array or object that a text begins with.
    #[must_use]
    pub fn of(json: &'a [u8]) -> Self {
        Self {
            rest: json.get(1..).unwrap_or_default(),
        }
    }

    /// Returns the text from the next item on, or from the closing bracket.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (item, rest) = self.rest.split_at(item_end(self.rest));
        self.rest = rest.strip_prefix(b",").unwrap_or(rest);
        (!item.is_empty()).then_some(item)
    }
}

/// Returns the offset of the comma or the closing bracket after an item.
fn item_end(json: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = after_string(json, at + 1);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b',' | b']' | b'}' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    json.len()
}

/// Checks the limits on a text, without parsing it.
///
/// # Errors
/// The text exceeds a limit.
pub fn check(json: &[u8], limits: Limits) -> Result<(), JsonError> {
    // No text takes more memory than one object per byte, or nests deeper than its number of brackets, so most need no
    // scan of each byte.
    let is_small = json.len() < limits.values && json.len() < limits.memory / OBJECT_BYTES;
    let is_flat = || memchr2_iter(b'[', b'{', json).nth(limits.depth).is_none();
    if is_small && (json.len() <= limits.depth || is_flat()) {
        return Ok(());
    }
    let structure = Structure::of(json);
    let (kind, message) = if structure.depth > limits.depth {
        let message = format!(
            "it nests arrays and objects deeper than {} levels",
            limits.depth
        );
        (JsonErrorKind::TooDeep, message)
    } else if structure.values > limits.values {
        let message = format!("it has more than {} values", limits.values);
        (JsonErrorKind::TooManyValues, message)
    } else if structure.memory > limits.memory {
        let message = format!(
            "it contains more values than fit into {} bytes of memory",
            limits.memory
        );
        (JsonErrorKind::TooManyValues, message)
    } else {
        return Ok(());
    };
    Err(JsonError { kind, message })
}

/// Returns the JSON text in `bytes` without a byte order mark, and with U+FFFD for each escaped surrogate without its pair.
///
/// Use it where a type borrows from the text; [`from_slice`] does the rest.
///
/// # Errors
/// The bytes are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<Cow<'_, str>, JsonError> {
    let text = utf8(bytes).map_err(|message| JsonError {
        kind: JsonErrorKind::Syntax,
        message,
    })?;
    Ok(repaired(text))
}

fn repaired(text: &str) -> Cow<'_, str> {
    match repair_surrogates(text) {
        Some(repaired) => Cow::Owned(repaired),
        None => Cow::Borrowed(text),
    }
}

/// Parses JSON of another program.
///
/// # Errors
/// The bytes are not JSON, exceed a limit, or do not fit the type.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8], limits: Limits) -> Result<T, JsonError> {
    check(bytes, limits)?;
    parse(&text(bytes)?)
}

/// Parses a JSON text of another program: [`from_slice`] for a string.
///
/// # Errors
/// As [`from_slice`].
pub fn from_str<T: DeserializeOwned>(text: &str, limits: Limits) -> Result<T, JsonError> {
    check(text.as_bytes(), limits)?;
    parse(&repaired(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Writes a value as JSON to the end of `json`. Most of the writes of `serde_json` have one byte, which needs no copy of a slice.
///
/// # Errors
/// JSON cannot express the value.
pub fn append(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    struct Appender<'a>(&'a mut Vec<u8>);
    impl io::Write for Appender<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_all(bytes).map(|()| bytes.len())
        }

        #[inline]
        fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
            match bytes {
                [byte] => self.0.push(*byte),
                bytes => self.0.extend_from_slice(bytes),
            }
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Appender(json), value)
}

/// Returns the length of a value as JSON, in bytes. A value that JSON cannot express counts in part.
pub fn encoded_bytes(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Returns the estimated memory of a parsed value with its strings, in bytes.
#[must_use]
pub fn memory(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Array(items) if !items.is_empty() => {
                ARRAY_BYTES + items.iter().map(memory).sum::<usize>()
            }
            Value::Object(fields) if !fields.is_empty() => {
                let entries = fields.iter().map(|(key, value)| entry_memory(key, value));
                OBJECT_BYTES + entries.sum::<usize>()
            }
            Value::String(text) => text.len(),
            _ => 0,
        }
}

/// Returns the bytes that JSON counts against a limit on its length: its length, or more if it consists of many small values.
#[must_use]
pub fn counted_bytes(length: usize, memory: usize) -> usize {
    length.max(memory / MAX_MEMORY_RATIO)
}

/// Returns the estimated memory of an entry of an object, in bytes.
#[must_use]
pub fn entry_memory(key: &str, value: &Value) -> usize {
    KEY_BYTES + key.len() + memory(value)
}

/// Returns the value of a whole number that is not negative. Some programs write all numbers as doubles, as in `1.0`: such a
/// number counts up to 2^53, where doubles are exact.
#[must_use]
pub fn whole_number(number: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only whole numbers between 0 and 2^53 get there"
    )]
    let exact = |number: f64| {
        ((0.0..=MAX_EXACT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    number.as_u64().or_else(|| exact(number.as_f64()?))
}

/// Deserializes a member that may be `null`, for `#[serde(default, deserialize_with)]`: `None` if it is absent, and
/// `Some(None)` of an optional type if it is `null`.
///
/// # Errors
/// Those of the type.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| describe(&error, text))
}

/// Describes an error of the parser. serde's error for a wrong type quotes the value, which may be a secret, so only
/// the fixed texts of serde are repeated.
fn describe(error: &serde_json::Error, text: &str) -> JsonError {
    let (line, column) = (error.line(), error.column());
    if error.is_data() {
        let reason = error.to_string();
        let fault = ["missing field", "duplicate field", "unknown field"]
            .into_iter()
            .find(|fault| reason.starts_with(fault))
            .unwrap_or("a value of the wrong type");
        return JsonError {
            kind: JsonErrorKind::Type,
            message: format!("{fault} at line {line}, column {column}"),
        };
    }
    let is_empty = text.trim().is_empty();
    let message = if is_empty {
        "it is empty".to_owned()
    } else {
        let reason = error.to_string();
        let reason = reason
            .rsplit_once(" at line ")
            .map_or(&*reason, |(reason, _)| reason);
        format!("{reason} at line {line}, column {column}")
    };
    let kind = JsonErrorKind::Syntax;
    JsonError { kind, message }
}

/// Replaces escaped surrogates without their pair. Returns `None` if there are none.
fn repair_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\\', bytes).find(|at| bytes.get(at + 1) == Some(&b'u'))?;
    let mut repaired: Option<String> = None;
    let (mut copied, mut at) = (0, 0);
    // Escapes are read from left to right: in `\\ud800` the backslash is escaped, not the surrogate.
    while let Some(found) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        match surrogate(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(surrogate(bytes, at + 6), Some(0xDC00..=0xDFFF)) => {
                at += 12;
            }
            Some(_) => {
                let repaired = repaired.get_or_insert_with(String::new);
                repaired.push_str(&text[copied..at]);
                repaired.push_str(r"\ufffd");
                at += 6;
                copied = at;
            }
            None => at += 2,
        }
    }
    let mut repaired = repaired?;
    repaired.push_str(&text[copied..]);
    Some(repaired)
}

/// Returns the surrogate that is escaped at `at`.
fn surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?.strip_prefix(br"\u")?;
    let digits = std::str::from_utf8(escape).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    (0xD800..=0xDFFF).contains(&code).then_some(code)
}

/// Returns the offset after the string that contains `at`.
fn after_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(quote_or_escape) {
        at += found + 1;
        if json[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    json.len()
}

/// The number of words of a text that are compared before a search: most keys and ids are so short that its set-up costs more.
const SHORT_WORDS: usize = 5;

/// Returns the offset of the first quote or backslash.
fn quote_or_escape(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // The lowest bit that is set belongs to the first byte that is zero.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let of = |byte: u8| ONES * u64::from(byte);
    let (words, _) = text.as_chunks::<8>();
    let short = &words[..words.len().min(SHORT_WORDS)];
    for (place, word) in short.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ of(b'"')) | zeros(word ^ of(b'\\'));
        if found != 0 {
            return Some(8 * place + found.trailing_zeros() as usize / 8);
        }
    }
    let searched = 8 * short.len();
    Some(searched + memchr2(b'"', b'\\', &text[searched..])?)
}

fn next_is(json: &[u8], at: usize, expected: u8) -> bool {
    let rest = json.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&expected)
}

#[cfg(test)]
mod tests;
