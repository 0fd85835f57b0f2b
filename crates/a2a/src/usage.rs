//! What a peer says that its work used: tokens, money and time.
//!
//! A2A has no place for it, and peers have no common names. This module is the table of those in use: OpenClaw, ADK
//! (Gemini's names), the names of OpenAI's and Anthropic's APIs, `gen_ai.usage.*` of OpenTelemetry, extensions under their
//! URI, and the form that it writes itself. A number is only what the peer reports, so any value is possible.
//!
//! The reports that a call receives speak of one task: the largest value of each field counts. So a report that an event and the
//! task repeat counts once, and the last value of a running total counts. Under [`USAGE_KEY`] a server reports the whole task; many other
//! servers report each turn alone, and only the largest turn of a call counts.

use serde::Serialize;
use serde_json::{Map, Value};

/// The metadata key under which a server reports a [`Usage`].
pub const USAGE_KEY: &str = "openclaw-remote-agent/usage";

/// The largest count: readers of JSON keep it exact. Larger values become this one.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

/// The longest name of a member that can have a meaning here, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// How deep a report may lie in the value of an extension.
const MAX_DEPTH: usize = 3;

/// What a task used, as its peer reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The numbers of tokens.
    #[serde(skip_serializing_if = "Tokens::is_empty")]
    pub tokens: Tokens,
    /// The cost in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<u64>,
    /// The currency of a cost that is not in US dollars and is not converted; `unknown` if the peer names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_currency: Option<String>,
    /// The time that the work took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whether the peer calls its numbers an estimate.
    pub estimated: bool,
}

/// Counts of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// What the model read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// What the model wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// What came from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// What was put into a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// At least the sum of input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl Tokens {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the count that a token name stands for.
    fn named(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match name {
            "input" | "inputtokens" | "prompttokens" | "prompttokencount" => &mut self.input,
            "output" | "outputtokens" | "completiontokens" | "candidatestokencount" => {
                &mut self.output
            }
            "cacheread"
            | "cachereadtokens"
            | "cachereadinputtokens"
            | "cachedcontenttokencount" => &mut self.cache_read,
            "cachewrite" | "cachewritetokens" | "cachecreationinputtokens" => &mut self.cache_write,
            "total" | "totaltokens" | "totaltokencount" => &mut self.total,
            _ => return None,
        })
    }

    /// Reads the counts of an object, of an extension only those that say what they count.
    fn read(&mut self, counts: &Map<String, Value>, is_extension: bool) {
        for (key, value) in counts {
            let name = name_of(key).filter(|name| !is_extension || name.contains("token"));
            if let (Some(name), Some(count)) = (name, count(value, 1.0)) {
                self.set(&name, count);
            }
        }
    }

    fn set(&mut self, name: &str, count: u64) {
        if let Some(field) = self.named(name) {
            *field = (*field).max(Some(count));
        }
    }

    /// Sets the total that the peer leaves out, or that is less than its parts. Cached tokens are part of the input in
    /// some APIs, which all report a total.
    fn complete(&mut self) {
        let sum = |counts: &[Option<u64>]| {
            let known = counts.iter().flatten();
            known
                .fold(0_u64, |sum, count| sum.saturating_add(*count))
                .min(MAX_COUNT)
        };
        self.total = match self.total {
            Some(total) => Some(total.max(sum(&[self.input, self.output]))),
            None if self.is_empty() => None,
            None => Some(sum(&[
                self.input,
                self.output,
                self.cache_read,
                self.cache_write,
            ])),
        };
    }

    fn merge(&mut self, other: &Self) {
        self.input = self.input.max(other.input);
        self.output = self.output.max(other.output);
        self.cache_read = self.cache_read.max(other.cache_read);
        self.cache_write = self.cache_write.max(other.cache_write);
        self.total = self.total.max(other.total);
    }
}

impl Usage {
    /// Returns whether the peer has reported nothing. Time alone is no report: agents tell the time of many things.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.usd_micros.is_none() && self.unknown_currency.is_none()
    }

    /// Adds what a task, a message or an event reports, in the form of A2A 0.3: in its metadata, in those of its status
    /// message and its artifacts, and in their data parts. The history is not read: it has earlier messages.
    pub fn add(&mut self, event: &Value) {
        let (mut message, mut artifact, mut artifacts) = (None, None, None);
        // An event has few members, so reading all of them is faster than looking up each.
        for (key, value) in event.as_object().into_iter().flatten() {
            match key.as_str() {
                "status" => message = value.get("message"),
                "artifact" => artifact = Some(value),
                "artifacts" => artifacts = value.as_array(),
                key => self.add_member(key, value),
            }
        }
        let holders = message.into_iter().chain(artifact);
        for holder in holders.chain(artifacts.into_iter().flatten()) {
            for (key, value) in holder.as_object().into_iter().flatten() {
                self.add_member(key, value);
            }
        }
    }

    /// Adds what the member of an event, a message or an artifact reports.
    fn add_member(&mut self, key: &str, value: &Value) {
        match (key, value) {
            ("metadata", Value::Object(metadata)) => self.merge(&Self::in_metadata(metadata)),
            ("parts", Value::Array(parts)) => {
                parts
                    .iter()
                    .for_each(|part| self.merge(&Self::in_data(part)));
            }
            _ => {}
        }
    }

    /// Returns what the metadata of a task, a message or an artifact reports.
    pub fn in_metadata(metadata: &Map<String, Value>) -> Self {
        let mut usage = Self::default();
        for (key, value) in metadata {
            let Some(name) = name_of(key) else { continue };
            match (&*name, value) {
                (
                    "usage" | "usagemetadata" | "adkusagemetadata" | "incurred" | "openclaw",
                    Value::Object(report),
                ) => usage.read(report, MAX_DEPTH, false),
                // The value of an extension.
                (_, Value::Object(report)) if key.contains("://") => {
                    usage.read(report, MAX_DEPTH, true);
                }
                _ => usage.read_clear(&name, value),
            }
        }
        if usage.is_empty() {
            return Self::default();
        }
        for (key, value) in metadata {
            usage.read_time(key, value);
        }
        usage.tokens.complete();
        usage
    }

    /// Returns a usage in the form that it is written in.
    pub fn read_own(report: &Value) -> Self {
        Self::in_metadata(&Map::from_iter([(USAGE_KEY.to_owned(), report.clone())]))
    }

    /// Returns what a data part reports. The data of a result may have a price, so it counts only beside token counts.
    fn in_data(part: &Value) -> Self {
        let Some(Value::Object(data)) = part.get("data") else {
            return Self::default();
        };
        let mut counts = Tokens::default();
        if let Some(Value::Object(usage)) = data.get("usage") {
            counts.read(usage, false);
        }
        match counts.is_empty() {
            true => Self::default(),
            false => Self::in_metadata(data),
        }
    }

    /// Adds another report of the same work.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.tokens.merge(&other.tokens);
        self.usd_micros = self.usd_micros.max(other.usd_micros);
        self.duration_ms = self.duration_ms.max(other.duration_ms);
        if other.unknown_currency.is_some() {
            self.unknown_currency.clone_from(&other.unknown_currency);
        }
        self.estimated = other.estimated;
    }

    /// Adds what other work used.
    pub fn add_other(&mut self, other: &Self) {
        let plus = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more).min(MAX_COUNT));
            }
        };
        let tokens = &mut self.tokens;
        plus(&mut tokens.input, other.tokens.input);
        plus(&mut tokens.output, other.tokens.output);
        plus(&mut tokens.cache_read, other.tokens.cache_read);
        plus(&mut tokens.cache_write, other.tokens.cache_write);
        plus(&mut tokens.total, other.tokens.total);
        plus(&mut self.usd_micros, other.usd_micros);
        plus(&mut self.duration_ms, other.duration_ms);
        if other.unknown_currency.is_some() {
            self.unknown_currency.clone_from(&other.unknown_currency);
        }
        self.estimated |= other.estimated;
    }

    /// Reads an object that is a report, or the value of an extension, which may be one.
    fn read(&mut self, report: &Map<String, Value>, depth: usize, is_extension: bool) {
        self.tokens.read(report, is_extension);
        let currency = report.get("currency");
        for (key, value) in report {
            let Some(name) = name_of(key) else { continue };
            match (&*name, value) {
                ("tokens", Value::Object(counts)) => self.tokens.read(counts, false),
                ("tokens", counts) => {
                    if let Some(total) = count(counts, 1.0) {
                        self.tokens.set("total", total);
                    }
                }
                ("cost", Value::Object(cost)) => {
                    self.read_cost(cost.get("amount"), cost.get("currency"));
                    self.estimated |= cost
                        .get("source")
                        .is_some_and(|source| source == "estimated");
                }
                ("cost", amount) => self.read_cost(Some(amount), currency),
                ("unknowncurrency", Value::String(_)) => {
                    self.unknown_currency = Some(currency_code(Some(value)));
                }
                ("usage" | "incurred", Value::Object(inner)) if depth > 0 => {
                    self.read(inner, depth - 1, false);
                }
                _ => {
                    self.read_clear(&name, value);
                    self.read_time(key, value);
                }
            }
        }
    }

    /// Reads a member whose name says enough wherever it is.
    fn read_clear(&mut self, name: &str, value: &Value) {
        let micros = match name {
            "costusd" | "totalcostusd" | "usdcost" => count(value, 1e6),
            "usdmicros" => count(value, 1.0),
            _ => {
                if let Some(name) = name.strip_prefix("genaiusage")
                    && let Some(count) = count(value, 1.0)
                {
                    self.tokens.set(name, count);
                }
                return;
            }
        };
        self.usd_micros = self.usd_micros.max(micros);
    }

    fn read_time(&mut self, key: &str, value: &Value) {
        match name_of(key).as_deref() {
            Some("durationms" | "latencyms") => {
                self.duration_ms = self.duration_ms.max(count(value, 1.0));
            }
            Some("estimated") => self.estimated |= value == true,
            _ => {}
        }
    }

    fn read_cost(&mut self, amount: Option<&Value>, currency: Option<&Value>) {
        let Some(micros) = amount.and_then(|amount| count(amount, 1e6)) else {
            return;
        };
        match currency_code(currency) {
            usd if usd == "USD" => self.usd_micros = self.usd_micros.max(Some(micros)),
            other => self.unknown_currency = Some(other),
        }
    }
}

/// Returns the name of a member in one spelling: of a URI or a path its last segment, in lower case without separators.
fn name_of(key: &str) -> Option<String> {
    if key.len() > MAX_NAME_BYTES {
        return None;
    }
    let letters = key.rsplit('/').next().unwrap_or(key).chars();
    let letters = letters.filter(|letter| !matches!(letter, '_' | '-' | '.'));
    Some(letters.map(|letter| letter.to_ascii_lowercase()).collect())
}

/// Returns a currency's code (ISO 4217); `unknown` for everything else.
fn currency_code(currency: Option<&Value>) -> String {
    let code = currency.and_then(Value::as_str).unwrap_or_default();
    match code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        true => code.to_ascii_uppercase(),
        false => "unknown".to_owned(),
    }
}

/// Returns a number, or the text of one, times `factor`, at most [`MAX_COUNT`]; `None` if it is negative or not a number.
fn count(value: &Value, factor: f64) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) if text.len() <= MAX_NAME_BYTES => text.trim().parse().ok()?,
        _ => return None,
    };
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    let rounded = (number * factor).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a larger number becomes the largest u64"
    )]
    Some((rounded as u64).min(MAX_COUNT))
}

#[cfg(test)]
mod tests;
