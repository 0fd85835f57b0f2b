//! Replaces secrets in text, in JSON and in bytes, also in text that arrives in pieces.
//!
//! [`Secrets`] redacts complete text; [`Redactor`] redacts text that arrives in pieces. Both have the same result, wherever
//! the text is split. The positions where a redactor splits its output depend on the text and on the lengths of the secrets,
//! never on their characters. Otherwise, a peer that makes an agent repeat guesses could learn how much of a guess is right.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use memchr::{memchr_iter, memmem};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::visible::visible;

use visible_text::VisibleText;

mod visible_text;

/// Implements `Debug` for a struct with secrets, or with fields that say nothing: it shows only those that are named.
///
/// # Examples
///
/// ```
/// struct Account {
///     name: String,
///     password: Option<String>,
/// }
///
/// openclaw_remote_agent_base::debug_fields!(self: Account { name, password = self.password.is_some() });
///
/// let account = Account { name: "ada".to_owned(), password: Some("s3cret".to_owned()) };
/// assert_eq!(format!("{account:?}"), "Account { name: \"ada\", password: true, .. }");
/// ```
#[macro_export]
macro_rules! debug_fields {
    ($self:ident: $type:ident $(<$lifetime:lifetime>)? { $($field:ident $(= $shown:expr)?),* $(,)? }) => {
        impl std::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&$self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &$crate::debug_fields!(@$self.$field $(= $shown)?)))*
                    .finish_non_exhaustive()
            }
        }
    };
    (@$self:ident.$field:ident) => { $self.$field };
    (@$self:ident.$field:ident = $shown:expr) => { $shown };
}

/// The replacement of a secret.
pub const MARK: &str = "[redacted]";

/// The maximum number of hidden bytes that a redactor buffers between the characters of a secret.
const MAX_HIDDEN_BYTES: usize = 2048;

/// Characters that URLs keep (RFC 3986 §2.3), those that JavaScript's `encodeURIComponent` keeps, and those that paths
/// keep.
const URL_ENCODE_SETS: [&AsciiSet; 3] = [UNRESERVED, COMPONENT, PATH];
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const COMPONENT: &AsciiSet = &UNRESERVED
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*');
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// Words in the names of headers whose values are credentials.
const CREDENTIAL_NAME_PARTS: [&str; 7] = [
    "auth", "cookie", "key", "token", "secret", "password", "session",
];

/// The length from which the value of any header counts as a credential.
const MIN_CREDENTIAL_CHARS: usize = 20;

/// Returns whether the value of an HTTP header counts as a credential.
pub fn is_credential_header(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    value.len() >= MIN_CREDENTIAL_CHARS
        || CREDENTIAL_NAME_PARTS.iter().any(|word| name.contains(word))
}

/// Texts to redact. `Debug` shows none of them.
#[derive(Debug, Default)]
pub struct Secrets {
    all: Vec<SecretString>,
    /// The length in bytes of the shortest secret. A shorter text has none.
    shortest: usize,
    /// The length in bytes of the longest secret that is one run of visible ASCII characters.
    longest_ascii: usize,
    /// The length in bytes of the longest of the other secrets.
    longest_other: usize,
    /// Whether a secret contains white space.
    has_space: bool,
}

impl Secrets {
    /// Creates a set of `secrets`, each unchanged, as a JSON string, and as in the query of a URL. Ignores empty ones.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut all = Self::default();
        for secret in secrets {
            let plain = secret.expose_secret();
            let json = Value::from(plain).to_string();
            let quoted = &json[1..json.len() - 1];
            let escaped = quoted.replace('/', "\\/");
            let form: String = url::form_urlencoded::byte_serialize(plain.as_bytes()).collect();
            let query = form.replace('+', "%20");
            // Its form in a text that a program has joined into one line.
            let line = joined_space(plain);
            for form in [plain, quoted, &escaped, &form, &query, &line].map(str::to_owned) {
                all.insert(form.into());
            }
        }
        all
    }

    /// Creates a set of `secrets`, each in every form in which programs repeat one: unchanged, encoded as in URLs, forms
    /// and JSON strings, and in Base64 of either alphabet, alone or within other bytes.
    pub fn in_all_forms(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let secrets = secrets.into_iter();
        Self::new(secrets.flat_map(|secret| forms(secret.expose_secret())))
    }

    /// Returns these secrets and those of `other`.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut all = Self::default();
        for secret in self.all.iter().chain(&other.all) {
            all.insert(secret.clone());
        }
        all
    }

    fn insert(&mut self, secret: SecretString) {
        let text = secret.expose_secret();
        let is_duplicate = |other: &SecretString| other.expose_secret() == text;
        if text.is_empty() || self.all.iter().any(is_duplicate) {
            return;
        }
        self.has_space |= text.contains(char::is_whitespace);
        let is_ascii = text.bytes().all(|byte| byte.is_ascii_graphic());
        let longest = match is_ascii {
            true => &mut self.longest_ascii,
            false => &mut self.longest_other,
        };
        *longest = text.len().max(*longest);
        self.shortest = match self.all.is_empty() {
            true => text.len(),
            false => text.len().min(self.shortest),
        };
        self.all.push(secret);
    }

    /// Returns whether there is no secret.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns `text` without any secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let ranges = self.find(text.as_bytes(), None);
        match ranges.is_empty() {
            true => text.into(),
            false => replace_ranges(text.as_bytes(), 0..text.len(), &ranges).into(),
        }
    }

    /// Redacts consecutive texts like one text: a secret may begin in one and end in another.
    pub fn redact_joined(&self, pieces: &mut [&mut String]) {
        let whole: String = pieces.iter().map(|piece| piece.as_str()).collect();
        let ranges = self.find(whole.as_bytes(), None);
        if ranges.is_empty() {
            return;
        }
        let mut from = 0;
        for piece in pieces {
            let place = from..from + piece.len();
            from = place.end;
            **piece = replace_ranges(whole.as_bytes(), place, &ranges);
        }
    }

    /// Returns a part of `text` without the secrets of the whole, with a mark at the start of each.
    pub fn redact_part(&self, text: &str, part: Range<usize>) -> String {
        let text = text.as_bytes();
        replace_ranges(text, part, &self.find(text, None))
    }

    /// Redacts every text, key and number of a JSON value.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_text(text),
            Value::Number(number) => {
                let written = matches!(self.redact(&number.to_string()), Cow::Owned(_));
                if written || number.as_f64().is_some_and(|number| self.has(number)) {
                    *value = MARK.into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                let is_shown = |key: &String| matches!(self.redact(key), Cow::Owned(_));
                if fields.keys().any(is_shown) {
                    let entries = std::mem::take(fields).into_iter();
                    let clean = entries.map(|(key, value)| (self.redact(&key).into_owned(), value));
                    *fields = clean.collect::<Map<_, _>>();
                }
                fields
                    .values_mut()
                    .for_each(|value| self.redact_value(value));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Redacts a text in place.
    pub fn redact_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// Returns whether a number is a secret, with any number of digits.
    fn has(&self, number: f64) -> bool {
        self.all.iter().any(|secret| {
            let secret = secret.expose_secret();
            let is_number = secret.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c));
            // Both were parsed from decimal digits by the same rule.
            is_number
                && secret
                    .parse::<f64>()
                    .is_ok_and(|secret| secret.total_cmp(&number).is_eq())
        })
    }

    /// Returns the length in bytes of the longest secret.
    pub fn longest(&self) -> usize {
        self.longest_ascii.max(self.longest_other)
    }

    /// Returns the position in `text` where an incomplete secret at its end begins; the length of `text` without one.
    pub fn incomplete_from(&self, text: &str) -> usize {
        self.held_from(text, |shown| self.incomplete_in(shown.as_bytes()))
    }

    /// Returns where in `text` the position lies that `position` finds among its visible characters. An end that more text
    /// could make a control sequence is not searched, because it may become hidden.
    fn held_from(&self, text: &str, position: impl Fn(&str) -> usize) -> usize {
        let (mut visible, mut held) = (None, text.len());
        for shown in VisibleText::all(text, self.has_space, self.longest()) {
            let start = position(&shown.text[..shown.certain]);
            let start = match start < shown.certain {
                true => shown.places[start],
                false => text.len(),
            };
            match shown.is_decoded {
                true => held = start,
                false => visible = Some(start.min(visible.unwrap_or(start))),
            }
        }
        // What has no hidden characters is searched as it stands, whatever its escapes mean.
        held.min(visible.unwrap_or_else(|| position(text)))
    }

    fn incomplete_in(&self, text: &[u8]) -> usize {
        let mut start = text.len();
        for secret in &self.all {
            let secret = secret.expose_secret().as_bytes();
            let from = text.len().saturating_sub(secret.len() - 1).min(start);
            let mut places = memchr_iter(secret[0], &text[from..start]);
            start = places
                .find(|at| secret.starts_with(&text[from + at..]))
                .map_or(start, |at| from + at);
        }
        start
    }

    /// Redacts bytes in place, such as the content of a file.
    pub fn redact_bytes(&self, bytes: &mut Vec<u8>) {
        let ranges = self.find(bytes, None);
        if ranges.is_empty() {
            return;
        }
        let (mut clean, mut from) = (Vec::with_capacity(bytes.len()), 0);
        for Range { start, end } in ranges {
            clean.extend_from_slice(&bytes[from..start]);
            clean.extend_from_slice(MARK.as_bytes());
            from = end;
        }
        clean.extend_from_slice(&bytes[from..]);
        *bytes = clean;
    }

    /// Returns the ranges of secrets, in order; overlapping occurrences are one range. Hidden characters may separate
    /// those of a secret. `first` is a known range.
    fn find(&self, text: &[u8], first: Option<Range<usize>>) -> Vec<Range<usize>> {
        let mut ranges: Vec<_> = first.into_iter().collect();
        if text.len() < self.shortest {
            return ranges;
        }
        self.search(text, |place| ranges.push(place));
        let readable = str::from_utf8(text).unwrap_or_default();
        for shown in VisibleText::all(readable, self.has_space, self.longest()) {
            self.search(shown.text.as_bytes(), |place| {
                ranges.push(shown.places[place.start]..shown.end(place.end - 1));
            });
        }
        ranges.sort_unstable_by_key(|place| place.start);
        ranges.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        ranges
    }

    fn search(&self, text: &[u8], mut ranges: impl FnMut(Range<usize>)) {
        for secret in &self.all {
            let secret = secret.expose_secret().as_bytes();
            let mut from = 0;
            while let Some(at) = memmem::find(&text[from..], secret) {
                let start = from + at;
                ranges(start..start + secret.len());
                from = start + 1;
            }
        }
    }

    /// Returns the position in `text` from which it may be an incomplete secret, whatever its characters.
    fn ambiguous_from(&self, text: &str) -> usize {
        self.held_from(text, |shown| self.ambiguous_in(shown))
    }

    fn ambiguous_in(&self, text: &str) -> usize {
        let (mut word, mut other) = (text.len(), text.len());
        let (mut is_ascii, mut shown) = (true, 0);
        for (at, c) in text.char_indices().rev() {
            shown += c.len_utf8();
            is_ascii &= c.is_ascii_graphic() && shown < self.longest_ascii;
            if is_ascii {
                word = at;
            }
            if shown < self.longest_other {
                other = at;
            } else if !is_ascii {
                break;
            }
        }
        word.min(other)
    }
}

/// Returns a text with a space in place of each run of white space.
fn joined_space(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if line.ends_with(' ') => {}
            true => line.push(' '),
            false => line.push(c),
        }
    }
    line
}

/// Returns a secret in every form in which programs repeat it, except those of JSON.
fn forms(secret: &str) -> Vec<SecretString> {
    let mut all = vec![
        secret.to_owned(),
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
    ];
    for unescaped in URL_ENCODE_SETS {
        all.push(utf8_percent_encode(secret, unescaped).to_string());
    }
    // Every byte may be escaped (RFC 3986 §2.4).
    all.push(secret.bytes().map(percent_encode_byte).collect());
    let lower: Vec<_> = all[1..].iter().map(|form| lower_escapes(form)).collect();
    all.extend(lower);
    all.push(STANDARD.encode(secret));
    all.push(STANDARD_NO_PAD.encode(secret));
    // Within other bytes, it begins with the first, second or third byte of a group of three. The characters at both ends
    // that it shares with other bytes are unknown.
    for (before, shared) in [(0, 0), (1, 2), (2, 3)] {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        let text = STANDARD_NO_PAD.encode(&bytes);
        all.push(text[shared..bytes.len() * 8 / 6].to_owned());
    }
    let base64 = all.len() - 5;
    let other: Vec<_> = all[base64..]
        .iter()
        .map(|text| text.replace('+', "-").replace('/', "_"))
        .collect();
    all.extend(other);
    all.into_iter().map(SecretString::from).collect()
}

/// Returns a text with its percent-encoded bytes in lower case.
fn lower_escapes(text: &str) -> String {
    let mut hex_digits_left: u8 = 0;
    let lower = text.chars().map(|c| {
        let is_digit = hex_digits_left > 0;
        hex_digits_left = if c == '%' {
            2
        } else {
            hex_digits_left.saturating_sub(1)
        };
        if is_digit { c.to_ascii_lowercase() } else { c }
    });
    lower.collect()
}

/// Returns the bytes of `text` in `place` without those in `ranges`, with a mark at the start of each range.
fn replace_ranges(text: &[u8], place: Range<usize>, ranges: &[Range<usize>]) -> String {
    let (mut clean, mut from) = (Vec::with_capacity(place.len()), place.start);
    for secret in ranges {
        if secret.end <= from {
            continue;
        }
        if secret.start >= place.end {
            break;
        }
        if secret.start >= place.start {
            clean.extend_from_slice(&text[from..secret.start]);
            clean.extend_from_slice(MARK.as_bytes());
        }
        from = secret.end.min(place.end);
    }
    clean.extend_from_slice(&text[from..place.end]);
    String::from_utf8_lossy(&clean).into_owned()
}

/// Redacts a text that arrives in pieces. It buffers the end of its input as long as a secret may begin there: the last run
/// of visible ASCII characters, up to the length of the longest secret. For secrets with other characters, it buffers as
/// much as the length of the longest of those.
#[derive(Debug)]
pub struct Redactor {
    secrets: Arc<Secrets>,
    /// Whether to buffer only actual beginnings of secrets.
    exact: bool,
    buffer: String,
    /// The length of the beginning of `buffer` that belongs to a secret whose mark has been returned.
    marked: usize,
}

impl Redactor {
    /// Creates a redactor for one text.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            exact: false,
            buffer: String::new(),
            marked: 0,
        }
    }

    /// Creates a redactor that buffers only actual beginnings of secrets. Its output distinguishes right guesses from wrong
    /// ones, so it is for texts whose authors have the secrets.
    pub fn exact(secrets: Arc<Secrets>) -> Self {
        Self {
            exact: true,
            ..Self::new(secrets)
        }
    }

    /// Replaces the secrets for the rest of the text.
    pub fn set_secrets(&mut self, secrets: &Arc<Secrets>) {
        self.secrets = Arc::clone(secrets);
    }

    /// Adds the next piece. Returns the text that is certainly redacted.
    pub fn push(&mut self, piece: &str) -> String {
        self.buffer.push_str(piece);
        let until = match self.exact {
            true => self.secrets.incomplete_from(&self.buffer),
            false => self.secrets.ambiguous_from(&self.buffer),
        };
        let clean = self.release(until);
        // The buffer contains few visible characters, but a peer may send any number of invisible ones between them. A secret
        // with white space may contain a run of any length.
        if self.marked == 0 && self.buffer.len() > MAX_HIDDEN_BYTES + 4 * self.secrets.longest() {
            self.buffer = visible(&self.buffer).into_owned();
            if self.secrets.has_space {
                self.buffer = joined_space(&self.buffer);
            }
        }
        clean
    }

    /// Ends the text and returns its rest. Resets the redactor.
    pub fn finish(&mut self) -> String {
        self.release(self.buffer.len())
    }

    fn release(&mut self, until: usize) -> String {
        let marked = (self.marked > 0).then_some(0..self.marked);
        let ranges = self.secrets.find(self.buffer.as_bytes(), marked.clone());
        let clean = replace_ranges(self.buffer.as_bytes(), 0..until, &ranges);
        // The mark of a secret that began in an earlier piece has been returned with that piece.
        let clean = match marked {
            Some(_) if until > 0 => clean.strip_prefix(MARK).unwrap_or_default().to_owned(),
            _ => clean,
        };
        if until > 0 {
            let across = ranges
                .iter()
                .find(|place| place.start < until && place.end > until);
            self.marked = across.map_or(0, |place| place.end - until);
        }
        self.buffer.drain(..until);
        clean
    }
}

#[cfg(test)]
mod tests;
