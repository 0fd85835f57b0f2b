//! Logs spans when they end.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use base::environment::Environment;
use base::log::{Level, Log};

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

    /// Returns the dispatcher for a call's spans; `None` where the log is not at debug level.
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

impl SpanLog {}

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
