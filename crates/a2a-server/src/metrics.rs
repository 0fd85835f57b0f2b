//! What the server counts, as Prometheus reads it.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use a2a::v1_0::TaskState;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of run durations, in seconds: from a scripted answer to the longest turn of an agent.
const DURATION_BUCKETS: [f64; 10] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0];

/// The counters of one server. Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    tasks: Family<InState, Counter>,
    running: Gauge,
    durations: Histogram,
    listeners: Gauge,
    pushes: Family<WithResult, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithResult {
    result: &'static str,
}

/// What became of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushResult {
    /// The webhook took it.
    Delivered,
    /// It was tried as often as it is, or may not go there any more.
    Failed,
    /// There were too many.
    Dropped,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let tasks = Family::default();
        let running = Gauge::<i64, AtomicI64>::default();
        let durations = Histogram::new(DURATION_BUCKETS);
        let listeners = Gauge::<i64, AtomicI64>::default();
        let pushes = Family::default();
        let mut registry = Registry::with_prefix("remote_agent");
        registry.register("tasks", "Tasks that came into a state", tasks.clone());
        registry.register("runs_active", "Runs under way", running.clone());
        registry.register_with_unit(
            "run_duration",
            "How long runs took",
            Unit::Seconds,
            durations.clone(),
        );
        registry.register("listeners", "Streams that follow a task", listeners.clone());
        registry.register("pushes", "Push notifications", pushes.clone());
        Self {
            registry: Arc::new(registry),
            tasks,
            running,
            durations,
            listeners,
            pushes,
        }
    }

    /// Everything, as [`CONTENT_TYPE`] says.
    pub fn text(&self) -> String {
        let mut written = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut written, &self.registry);
        written
    }

    /// A task came into a state.
    pub fn record_state(&self, state: &TaskState) {
        let state = word(state);
        self.tasks.get_or_create(&InState { state }).inc();
    }

    /// A run begins.
    pub fn record_run_start(&self) {
        self.running.inc();
    }

    /// A run is over.
    pub fn record_run_end(&self, took: Duration) {
        self.running.dec();
        self.durations.observe(took.as_secs_f64());
    }

    /// Somebody follows a task, until what this returns is dropped.
    pub fn record_stream(&self) -> OpenStream {
        self.listeners.inc();
        OpenStream(self.listeners.clone())
    }

    /// A notification has been dealt with.
    pub fn record_push(&self, result: PushResult) {
        self.pushes.get_or_create(&result.label()).inc();
    }

    /// How many notifications were dealt with so.
    pub fn pushes(&self, result: PushResult) -> u64 {
        self.pushes.get_or_create(&result.label()).get()
    }
}

impl PushResult {
    fn label(self) -> WithResult {
        let result = match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        };
        WithResult { result }
    }
}

/// Somebody who follows a task.
#[derive(Debug)]
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn word(state: &TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unspecified",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input_required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth_required",
    }
}

#[cfg(test)]
mod tests;
