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
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::confusables::is_ignorable;

/// The replacement of a secret.
pub const MARK: &str = "[redacted]";

/// The maximum number of hidden bytes that a redactor tolerates between the characters of a secret.
const MAX_HIDDEN_BYTES: usize = 1024;

/// Characters that URLs keep (RFC 3986 §2.3), those that JavaScript's `encodeURIComponent` keeps, and those that paths
/// keep.
const KEPT_IN_URLS: [&AsciiSet; 3] = [UNRESERVED, COMPONENT, PATH];
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
const CREDENTIAL_WORDS: [&str; 7] = [
    "auth", "cookie", "key", "token", "secret", "password", "session",
];

/// The length from which the value of any header counts as a credential.
const MIN_CREDENTIAL_CHARS: usize = 20;

/// Returns whether the value of an HTTP header counts as a credential.
pub fn is_credential_header(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    value.len() >= MIN_CREDENTIAL_CHARS || CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
}

/// Texts to redact. `Debug` shows none of them.
#[derive(Debug, Default)]
pub struct Secrets {
    all: Vec<SecretString>,
    /// The length in bytes of the shortest secret. A shorter text has none.
    shortest: usize,
    /// The length in bytes of the longest secret that is one run of visible ASCII characters.
    longest_word: usize,
    /// The length in bytes of the longest of the other secrets.
    longest_other: usize,
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
            for form in [plain, quoted, &escaped, &form, &query].map(str::to_owned) {
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
        let known = |other: &SecretString| other.expose_secret() == text;
        if text.is_empty() || self.all.iter().any(known) {
            return;
        }
        let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
        let longest = match is_word {
            true => &mut self.longest_word,
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
        let found = self.find(text.as_bytes(), None);
        match found.is_empty() {
            true => text.into(),
            false => without(text.as_bytes(), 0..text.len(), &found).into(),
        }
    }

    /// Redacts consecutive texts like one text: a secret may begin in one and end in another.
    pub fn redact_joined(&self, pieces: &mut [&mut String]) {
        let whole: String = pieces.iter().map(|piece| piece.as_str()).collect();
        let found = self.find(whole.as_bytes(), None);
        if found.is_empty() {
            return;
        }
        let mut from = 0;
        for piece in pieces {
            let place = from..from + piece.len();
            from = place.end;
            **piece = without(whole.as_bytes(), place, &found);
        }
    }

    /// Returns a part of `text` without the secrets of the whole, with a mark at the start of each.
    pub fn redact_part(&self, text: &str, part: Range<usize>) -> String {
        let text = text.as_bytes();
        without(text, part, &self.find(text, None))
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
                    let kept = std::mem::take(fields).into_iter();
                    let clean = kept.map(|(key, value)| (self.redact(&key).into_owned(), value));
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
        self.longest_word.max(self.longest_other)
    }

    /// Returns the position in `text` where an incomplete secret at its end begins; the length of `text` without one.
    pub fn incomplete_from(&self, text: &str) -> usize {
        match VisibleText::new(text) {
            Some(shown) => {
                let begun = self.incomplete_in(&shown.bytes);
                shown.places.get(begun).copied().unwrap_or(text.len())
            }
            None => self.incomplete_in(text.as_bytes()),
        }
    }

    fn incomplete_in(&self, text: &[u8]) -> usize {
        let mut begun = text.len();
        for secret in &self.all {
            let secret = secret.expose_secret().as_bytes();
            let from = text.len().saturating_sub(secret.len() - 1).min(begun);
            let mut places = memchr_iter(secret[0], &text[from..begun]);
            begun = places
                .find(|at| secret.starts_with(&text[from + at..]))
                .map_or(begun, |at| from + at);
        }
        begun
    }

    /// Redacts bytes in place, such as the content of a file.
    pub fn redact_bytes(&self, bytes: &mut Vec<u8>) {
        let found = self.find(bytes, None);
        if found.is_empty() {
            return;
        }
        let (mut clean, mut from) = (Vec::with_capacity(bytes.len()), 0);
        for Range { start, end } in found {
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
        let mut found: Vec<_> = first.into_iter().collect();
        if text.len() < self.shortest {
            return found;
        }
        self.search(text, |place| found.push(place));
        if let Some(shown) = str::from_utf8(text).ok().and_then(VisibleText::new) {
            self.search(&shown.bytes, |place| {
                found.push(shown.places[place.start]..shown.places[place.end - 1] + 1);
            });
        }
        found.sort_unstable_by_key(|place| place.start);
        found.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        found
    }

    fn search(&self, text: &[u8], mut found: impl FnMut(Range<usize>)) {
        for secret in &self.all {
            let secret = secret.expose_secret().as_bytes();
            let mut from = 0;
            while let Some(at) = memmem::find(&text[from..], secret) {
                let start = from + at;
                found(start..start + secret.len());
                from = start + 1;
            }
        }
    }

    /// Returns the position in `text` from which it may be an incomplete secret, whatever its characters.
    fn undecided(&self, text: &str) -> usize {
        let (mut word, mut other) = (text.len(), text.len());
        let (mut is_word, mut shown) = (true, 0);
        for (at, c) in text.char_indices().rev() {
            if is_ignorable(c) {
                continue;
            }
            shown += c.len_utf8();
            is_word &= c.is_ascii_graphic() && shown < self.longest_word;
            if is_word {
                word = at;
            }
            if shown < self.longest_other {
                other = at;
            } else if !is_word {
                break;
            }
        }
        word.min(other)
    }
}

/// The visible characters of a text, and the position of each byte in the text.
struct VisibleText {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl VisibleText {
    /// Returns `None` if every character is visible.
    fn new(text: &str) -> Option<Self> {
        if text.is_ascii() || !text.contains(is_ignorable) {
            return None;
        }
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (at, c) in text.char_indices().filter(|(_, c)| !is_ignorable(*c)) {
            let range = at..at + c.len_utf8();
            bytes.extend_from_slice(&text.as_bytes()[range.clone()]);
            places.extend(range);
        }
        Some(Self { bytes, places })
    }
}

/// Returns a secret in every form in which programs repeat it, except those of JSON.
fn forms(secret: &str) -> Vec<SecretString> {
    let mut all = vec![
        secret.to_owned(),
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
    ];
    for kept in KEPT_IN_URLS {
        all.push(utf8_percent_encode(secret, kept).to_string());
    }
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
    let mut left: u8 = 0;
    let lower = text.chars().map(|c| {
        let is_digit = left > 0;
        left = if c == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    });
    lower.collect()
}

/// Returns the bytes of `text` in `place` without the `found` ranges, with a mark at the start of each.
fn without(text: &[u8], place: Range<usize>, found: &[Range<usize>]) -> String {
    let (mut clean, mut from) = (Vec::with_capacity(place.len()), place.start);
    for secret in found {
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
    kept: String,
    /// The length of the beginning of `kept` that belongs to a secret whose mark has been returned.
    marked: usize,
}

impl Redactor {
    /// Creates a redactor for one text.
    pub fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            exact: false,
            kept: String::new(),
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
        self.kept.push_str(piece);
        let until = match self.exact {
            true => self.secrets.incomplete_from(&self.kept),
            false => self.secrets.undecided(&self.kept),
        };
        let clean = self.release(until);
        // The buffer contains few visible characters, but a peer may send any number of invisible ones between them.
        if self.marked == 0 && self.kept.len() > MAX_HIDDEN_BYTES + 4 * self.secrets.longest() {
            self.kept.retain(|c| !is_ignorable(c));
        }
        clean
    }

    /// Ends the text and returns its rest. Resets the redactor.
    pub fn finish(&mut self) -> String {
        self.release(self.kept.len())
    }

    fn release(&mut self, until: usize) -> String {
        let marked = (self.marked > 0).then_some(0..self.marked);
        let found = self.secrets.find(self.kept.as_bytes(), marked.clone());
        let clean = without(self.kept.as_bytes(), 0..until, &found);
        // The mark of a secret that began in an earlier piece has been returned with that piece.
        let clean = match marked {
            Some(_) if until > 0 => clean.strip_prefix(MARK).unwrap_or_default().to_owned(),
            _ => clean,
        };
        if until > 0 {
            let across = found
                .iter()
                .find(|place| place.start < until && place.end > until);
            self.marked = across.map_or(0, |place| place.end - until);
        }
        self.kept.drain(..until);
        clean
    }
}

#[cfg(test)]
mod tests;
