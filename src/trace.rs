//! The W3C trace context of a call, and its spans, which are logged when they end.
//!
//! Every call has a trace id: the caller's, where its host passes a valid `traceparent`, else a random one. Every
//! request to a peer's interface carries a `traceparent` with that id and one span id for the whole call, so the peer's
//! spans are children of the call. Requests for cards carry none: one card serves many calls.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use base::environment::Environment;
use base::log::{Level, Log};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};
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

/// The spans of one instance. Each span is logged to the instance's own log when it ends. A call carries the dispatcher
/// with its future, so nothing is global.
pub struct Spans {
    log: Arc<dyn Log>,
    env: Arc<dyn Environment>,
    dispatch: OnceLock<Dispatch>,
}

impl Spans {
    /// Creates the spans of an instance; `env` times them and `log` receives them at debug level.
    pub fn new(log: Arc<dyn Log>, env: Arc<dyn Environment>) -> Self {
        Self {
            log,
            env,
            dispatch: OnceLock::new(),
        }
    }

    /// Returns the dispatcher for a call's spans; `None` if the log is not at debug level.
    pub fn dispatch(&self) -> Option<Dispatch> {
        if !self.log.enabled(Level::Debug) {
            return None;
        }
        let made = || {
            Dispatch::new(SpanLog {
                log: Arc::clone(&self.log),
                env: Arc::clone(&self.env),
                next: AtomicU64::new(1),
                open: Mutex::default(),
            })
        };
        Some(self.dispatch.get_or_init(made).clone())
    }
}

struct SpanLog {
    log: Arc<dyn Log>,
    env: Arc<dyn Environment>,
    next: AtomicU64,
    open: Mutex<HashMap<u64, OpenSpan>>,
}

struct OpenSpan {
    name: &'static str,
    began: Instant,
    fields: FieldText,
    holders: usize,
}

/// Only spans of this crate are logged. Libraries open spans too, and some carry peer data in their fields.
fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

impl Subscriber for SpanLog {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_own(metadata) {
            // Not `always`: that would enable the span for instances whose log is not at debug level.
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_own(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        // Ids begin at 1 and are never reused. `Id` refuses zero.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut fields = FieldText::default();
        span.record(&mut fields);
        let open = OpenSpan {
            name: span.metadata().name(),
            began: self.env.now(),
            fields,
            holders: 1,
        };
        self.open.lock().insert(id, open);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(open) = self.open.lock().get_mut(&span.into_u64()) {
            values.record(&mut open.fields);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(open) = self.open.lock().get_mut(&id.into_u64()) {
            open.holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut all = self.open.lock();
        let Some(open) = all.get_mut(&id.into_u64()) else {
            return false;
        };
        open.holders -= 1;
        if open.holders > 0 {
            return false;
        }
        let ended = all.remove(&id.into_u64());
        drop(all);
        if let Some(open) = ended {
            let took = self.env.now().saturating_duration_since(open.began);
            let (name, fields) = (open.name, open.fields.0);
            let line = format!("span {name}: {} ms{fields}", took.as_millis());
            self.log.log(Level::Debug, &line);
        }
        true
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct FieldText(String);

impl Visit for FieldText {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Writing to a `String` never fails.
        let _ = write!(self.0, " {}={}", field.name(), value.escape_debug());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
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

    use tracing::instrument::WithSubscriber as _;
    use tracing::{Instrument as _, debug_span, field::Empty};

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

    #[tokio::test]
    async fn span_is_logged_once_when_dropped() {
        let log = Arc::new(Recorder::default());
        let spans = spans(Arc::clone(&log) as _);
        let work = async {
            let span = debug_span!("call", action = "send", outcome = Empty);
            let clone = span.clone();
            async { tokio::task::yield_now().await }
                .instrument(span.clone())
                .await;
            span.record("outcome", "o\nk");
            drop(span);
            assert_eq!(log.0.lock().unwrap().len(), 0);
            drop(clone);
        };
        work.with_subscriber(spans.dispatch().unwrap()).await;
        let lines = log.0.lock().unwrap().clone();
        assert_eq!(lines, ["debug: span call: 0 ms action=send outcome=o\\nk"]);
    }

    #[tokio::test]
    async fn spans_of_other_crates_are_not_logged() {
        let log = Arc::new(Recorder::default());
        let spans = spans(Arc::clone(&log) as _);
        let work = async {
            tracing::debug!("an event");
            let others =
                tracing::span!(target: "h2", tracing::Level::TRACE, "frame", secret = "hush");
            drop(others);
        };
        work.with_subscriber(spans.dispatch().unwrap()).await;
        assert_eq!(log.0.lock().unwrap().len(), 0);
    }

    #[test]
    fn no_spans_without_debug_logging() {
        let spans = spans(Arc::new(Silent));
        assert!(spans.dispatch().is_none());
    }
}
