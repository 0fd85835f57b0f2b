//! The W3C trace context of a call, and its spans, which are logged when they end.
//!
//! Every call has a trace id: the caller's, where its host passes a valid `traceparent`, else a random one. Every
//! request to a peer's interface carries a `traceparent` with that id and one span id for the whole call, so the peer's
//! spans are children of the call. Requests for cards carry none: one card serves many calls.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use base::environment::Environment;
use base::log::{Level, Log};
use uuid::Uuid;

/// The request header (W3C Trace Context §3.2).
pub const HEADER: &str = "traceparent";

/// The companion header, which the plugin does not send (W3C Trace Context §3.3).
pub const STATE_HEADER: &str = "tracestate";

/// The sampled flag (W3C Trace Context §3.2.2.5.1).
const SAMPLED: u8 = 1;

/// The trace context of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span: u64,
    flags: u8,
}

impl Trace {
    /// Continues the trace of `traceparent`, or starts a new one where that is missing or invalid. Ids come from
    /// `fresh`. The sampled flag is the caller's.
    pub fn new(traceparent: Option<&str>, fresh: impl Fn() -> Uuid) -> Self {
        let (id, flags) = traceparent
            .and_then(parse_traceparent)
            .unwrap_or_else(|| (fresh().as_u128().max(1), SAMPLED));
        // Fixed bits of a random UUID: four in the first half, two in the second.
        let span = fresh().as_u64_pair().1.max(1);
        Self { id, span, flags }
    }

    /// Returns the trace id: 32 lower-case hexadecimal digits.
    pub fn id(&self) -> String {
        Uuid::from_u128(self.id).simple().to_string()
    }

    /// Returns the header's value for requests of this call.
    pub fn traceparent(&self) -> String {
        // Encoding a UUID is several times as fast as formatting a number.
        let (mut id, mut span) = ([0; 32], [0; 32]);
        let id = Uuid::from_u128(self.id).simple().encode_lower(&mut id);
        let span = Uuid::from_u128(self.span.into())
            .simple()
            .encode_lower(&mut span);
        let sampled = if self.flags == SAMPLED { "01" } else { "00" };
        ["00", &*id, &span[16..], sampled].join("-")
    }
}

/// Returns the trace id and the sampled flag of a valid `traceparent` (W3C Trace Context §3.2.2 and, for later
/// versions, §4.3).
fn parse_traceparent(header: &str) -> Option<(u128, u8)> {
    let field = |from: usize, to: usize| header.get(from..to).filter(|text| is_hex(text));
    let ends = [2, 35, 52].map(|at| header.as_bytes().get(at) == Some(&b'-'));
    let more = header.as_bytes().get(55).copied();
    let version = field(0, 2)?;
    if ends.contains(&false) || version == "ff" || (version == "00" && more.is_some()) {
        return None;
    }
    if more.is_some_and(|byte| byte != b'-') {
        return None;
    }
    let id = u128::from_str_radix(field(3, 35)?, 16).ok()?;
    let parent = u64::from_str_radix(field(36, 52)?, 16).ok()?;
    let flags = u8::from_str_radix(field(53, 55)?, 16).ok()?;
    (id != 0 && parent != 0).then_some((id, flags & SAMPLED))
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Opens the spans of one instance.
#[derive(Clone)]
pub struct Spans {
    log: Arc<dyn Log>,
    env: Arc<dyn Environment>,
}

impl Spans {
    /// Creates the spans of an instance; `env` times them and `log` receives them at debug level.
    pub fn new(log: Arc<dyn Log>, env: Arc<dyn Environment>) -> Self {
        Self { log, env }
    }

    /// Opens a span of a call with `trace`. It costs nothing if the log is not at debug level.
    pub fn open(&self, name: &'static str, trace: &Trace) -> Span {
        let open = || OpenSpan {
            began: self.env.now(),
            spans: self.clone(),
            name,
            fields: format!(" trace_id={}", trace.id()),
        };
        Span(self.log.enabled(Level::Debug).then(open))
    }
}

/// A span, which is logged when it is dropped, so that the span of a cancelled call is logged too.
pub struct Span(Option<OpenSpan>);

struct OpenSpan {
    began: Instant,
    spans: Spans,
    name: &'static str,
    fields: String,
}

impl Span {
    /// Adds a field.
    pub fn record(&mut self, field: &str, value: &str) {
        if let Some(open) = &mut self.0 {
            // Writing to a `String` never fails.
            let _ = write!(open.fields, " {field}={}", value.escape_debug());
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let took = self.spans.env.now().saturating_duration_since(self.began);
        let (name, fields) = (self.name, &self.fields);
        let line = format!("span {name}: {} ms{fields}", took.as_millis());
        self.spans.log.log(Level::Debug, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn call_continues_trace_of_caller() {
        let trace = Trace::new(Some(TRACEPARENT), Uuid::new_v4);
        assert_eq!(trace.id(), "0af7651916cd43dd8448eb211c80319c");
        let sent = trace.traceparent();
        assert_ne!(sent[36..52], TRACEPARENT[36..52]);
        assert_eq!(parse_traceparent(&sent), parse_traceparent(TRACEPARENT));
    }

    #[test]
    fn call_without_trace_starts_a_sampled_one() {
        let [one, other] = [0, 1].map(|_| Trace::new(None, Uuid::new_v4));
        assert_ne!(one.id(), other.id());
        let sent = one.traceparent();
        assert!(sent.ends_with("-01"), "{sent}");
        assert!(parse_traceparent(&sent).is_some(), "{sent}");
    }

    #[test]
    fn sampled_flag_follows_the_host() {
        let unsampled = TRACEPARENT.replace("-01", "-02");
        let sent = Trace::new(Some(&unsampled), Uuid::new_v4).traceparent();
        assert!(sent.ends_with("-00"), "{sent}");
    }

    #[test]
    fn ids_are_never_zero() {
        let sent = Trace::new(None, Uuid::nil).traceparent();
        assert!(parse_traceparent(&sent).is_some(), "{sent}");
    }

    #[test]
    fn invalid_traceparent_is_ignored() {
        let later = format!("01{}", &TRACEPARENT[2..]);
        assert!(parse_traceparent(&later).is_some());
        assert!(parse_traceparent(&format!("{later}-more")).is_some());
        let invalid = [
            String::new(),
            TRACEPARENT.to_uppercase(),
            format!("{TRACEPARENT}-more"),
            format!("{later}more"),
            format!("ff{}", &TRACEPARENT[2..]),
            TRACEPARENT.replace('-', "_"),
            TRACEPARENT[..54].to_owned(),
            TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TRACEPARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            TRACEPARENT.replace("0af7", "+af7"),
            TRACEPARENT.replace("0af7", "0äf"),
        ];
        for text in invalid {
            assert_eq!(parse_traceparent(&text), None, "{text}");
        }
    }
}

#[cfg(test)]
mod spans_tests {
    #![allow(clippy::unwrap_used)]

    use std::time::SystemTime;

    use uuid::Uuid;

    use super::*;
    use base::environment::{Clock, IdGenerator};
    use base::log::{Recorder, Silent};

    /// An environment in which no time passes.
    struct Still(Instant);

    impl Clock for Still {
        fn now(&self) -> Instant {
            self.0
        }

        fn system_time(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
    }

    impl IdGenerator for Still {
        fn uuid(&self) -> Uuid {
            Uuid::nil()
        }
    }

    fn spans(log: Arc<dyn Log>) -> Spans {
        Spans::new(log, Arc::new(Still(Instant::now())))
    }

    #[test]
    fn span_is_logged_once_when_dropped() {
        let log = Arc::new(Recorder::default());
        let mut span = spans(Arc::clone(&log) as _).open("call", &Trace::new(None, Uuid::nil));
        span.record("action", "send");
        span.record("outcome", "o\nk");
        assert_eq!(log.0.lock().unwrap().len(), 0);
        drop(span);
        let lines = log.0.lock().unwrap().clone();
        let trace_id = "trace_id=00000000000000000000000000000001";
        let line = format!("debug: span call: 0 ms {trace_id} action=send outcome=o\\nk");
        assert_eq!(lines, [line]);
    }

    #[test]
    fn no_spans_without_debug_logging() {
        let span = spans(Arc::new(Silent)).open("call", &Trace::new(None, Uuid::nil));
        assert!(span.0.is_none());
    }
}
