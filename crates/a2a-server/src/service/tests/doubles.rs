//! An executor that the test controls, and the other components of a service.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use uuid::Uuid;

use super::*;

/// A run that the test controls.
pub(super) struct Run {
    pub(super) input: RunInput,
    pub(super) events: ExecutionEvents,
    pub(super) cancel: CancellationToken,
    pub(super) reattached: Option<String>,
    end: oneshot::Sender<Outcome>,
}

impl Run {
    pub(super) async fn report(&self, report: ExecutionEvent) {
        self.events.send(report).await.unwrap();
    }

    pub(super) fn end(self, outcome: Outcome) {
        // The service may have dropped the receiver.
        let _ = self.end.send(outcome);
    }

    pub(super) fn done(self) {
        self.end(Outcome::Completed(Some(vec![Part::text("done")])));
    }

    /// Ends with the question "which?".
    pub(super) fn ask(self) {
        self.end(Outcome::InputRequired(vec![Part::text("which?")]));
    }

    /// Returns whether the service has stopped waiting for the outcome.
    pub(super) fn is_dropped(&self) -> bool {
        self.end.is_closed()
    }

    pub(super) async fn closed(&mut self) {
        self.end.closed().await;
    }
}

/// An executor that passes every run to the test.
pub(super) struct ControlledExecutor {
    pub(super) runs: mpsc::UnboundedSender<Run>,
    /// The names of the runs that `reattach` finds.
    pub(super) live_runs: Vec<String>,
    pub(super) agents: Mutex<Result<Vec<Agent>, ExecutorError>>,
    pub(super) detached: AtomicBool,
}

impl ControlledExecutor {
    fn start_run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
        reattached: Option<String>,
    ) -> BoxFuture<'static, Outcome> {
        let (end, ends) = oneshot::channel();
        let _ = self.runs.send(Run {
            input,
            events,
            cancel,
            reattached,
            end,
        });
        Box::pin(async move {
            ends.await.unwrap_or(Outcome::Failed {
                reason: "gone",
                text: "the test let go of the run".to_owned(),
            })
        })
    }
}

impl Executor for ControlledExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(std::future::ready(self.agents.lock().clone()))
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        self.start_run(input, events, cancel, None)
    }

    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let is_live = self.live_runs.contains(&run);
        is_live.then(|| self.start_run(input, events, cancel, Some(run)))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn detach(&self) {
        self.detached.store(true, Ordering::SeqCst);
    }
}

/// Accepts only webhooks of `example.com`, and posts nothing.
pub(super) struct NoopPushSender;

impl PushSender for NoopPushSender {
    fn accepts(&self, url: &Url) -> Result<(), String> {
        match url.host_str() {
            Some("example.com") => Ok(()),
            _ => Err("the address is not allowed".to_owned()),
        }
    }

    fn post(
        &self,
        _url: Url,
        _headers: http::HeaderMap,
        _body: bytes::Bytes,
    ) -> BoxFuture<'_, Result<http::Response<()>, PushError>> {
        Box::pin(std::future::ready(Ok(http::Response::new(()))))
    }
}

/// A mapping whose session ids contain the client and the context.
pub(super) struct PrefixedSessions;

impl SessionMapper for PrefixedSessions {
    fn session_id(&self, client: Option<&str>, context_id: &str) -> String {
        match client {
            Some(client) => format!("a2a-{client}-{context_id}"),
            None => format!("a2a-{context_id}"),
        }
    }

    fn context_id(&self, session_id: &str) -> Option<String> {
        session_id.strip_prefix("a2a-").map(str::to_owned)
    }
}

/// A clock that the test advances.
pub(super) struct TestClock(AtomicI64);

impl TestClock {
    pub(super) fn new() -> Self {
        Self(AtomicI64::new(1_800_000_000_000))
    }

    /// Returns the time in milliseconds since 1970.
    pub(super) fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> std::time::Instant {
        SystemEnvironment.now()
    }

    fn system_time(&self) -> std::time::SystemTime {
        let millis = u64::try_from(self.millis()).unwrap();
        std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

impl IdGenerator for TestClock {
    fn uuid(&self) -> Uuid {
        SystemEnvironment.uuid()
    }
}
