//! Metrics for Prometheus.

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

use crate::store::state_name;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper bounds of the histogram of run durations, in seconds.
const DURATION_BUCKETS: [f64; 10] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 1800.0];

/// The metrics of one server. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    registry: Registry,
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

/// The outcome of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushResult {
    /// The webhook accepted the notification.
    Delivered,
    /// All attempts failed, or the address policy forbids the webhook.
    Failed,
    /// The queue was full.
    Dropped,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics that are all zero.
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
        Self(Arc::new(Series {
            registry,
            tasks,
            running,
            durations,
            listeners,
            pushes,
        }))
    }

    /// Encodes the metrics as [`CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let mut written = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut written, &self.0.registry);
        written
    }

    /// Counts a task that entered a state.
    pub fn record_state(&self, state: &TaskState) {
        let state = state_label(state);
        self.0.tasks.get_or_create(&InState { state }).inc();
    }

    /// Counts a run that begins.
    pub fn record_run_start(&self) {
        self.0.running.inc();
    }

    /// Counts the end of a run and its duration.
    pub fn record_run_end(&self, took: Duration) {
        self.0.running.dec();
        self.0.durations.observe(took.as_secs_f64());
    }

    /// Counts an open stream until the returned guard is dropped.
    pub fn record_stream(&self) -> OpenStream {
        self.0.listeners.inc();
        OpenStream(self.0.listeners.clone())
    }

    /// Counts a notification.
    pub fn record_push(&self, result: PushResult) {
        self.0.pushes.get_or_create(&result.label()).inc();
    }

    /// Returns the number of notifications with this result.
    pub fn pushes(&self, result: PushResult) -> u64 {
        self.0.pushes.get_or_create(&result.label()).get()
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

/// An open stream of a task.
#[derive(Debug)]
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn state_label(state: &TaskState) -> &'static str {
    match state {
        TaskState::InputRequired => "input_required",
        TaskState::AuthRequired => "auth_required",
        state => state_name(state),
    }
}

#[cfg(test)]
mod tests;
