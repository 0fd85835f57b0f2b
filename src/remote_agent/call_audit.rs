//! The audit of a call: from its start to its line in the audit log, even if the call is dropped.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;
use tracing::{Span, debug_span, field::Empty};

use crate::audit::Record;
use crate::targets::Target;
use crate::trace::Trace;
use a2a::{TaskState, Transport};
use peer::PeerConfig;

use super::RemoteAgent;
use super::call_metrics::CallMetrics;
use super::caller::Caller;
use super::error::Reason;
use super::request::Action;
use super::resolve::Resolved;

/// The audit of one call. It ends once: with the call's outcome, or, when the call is dropped, with the reason for
/// that.
pub(super) struct CallAudit<'a> {
    tool: &'a RemoteAgent,
    pub(super) caller: Caller,
    /// The call's trace context.
    pub(super) trace: Trace,
    closing: CancellationToken,
    time: SystemTime,
    began: Instant,
    action: &'static str,
    span: Span,
    target: Option<Arc<Target>>,
    subject: Subject,
    ended: bool,
}

/// The subject of a call, and the observers of its outcome.
#[derive(Default)]
struct Subject {
    task_id: Option<String>,
    context_id: Option<String>,
    metrics: Option<Arc<CallMetrics>>,
}

impl<'a> CallAudit<'a> {
    /// Starts the audit of a call of `caller`.
    pub(super) fn open(tool: &'a RemoteAgent, caller: Caller, closing: CancellationToken) -> Self {
        let trace = Trace::new(caller.traceparent.as_deref(), || tool.env.uuid());
        let span = debug_span!(
            "call",
            trace_id = Empty,
            action = Empty,
            target = Empty,
            outcome = Empty
        );
        if !span.is_disabled() {
            span.record("trace_id", trace.id());
        }
        Self {
            time: tool.env.system_time(),
            began: tool.env.now(),
            tool,
            caller,
            trace,
            closing,
            action: "unknown",
            span,
            target: None,
            subject: Subject::default(),
            ended: false,
        }
    }

    /// Returns the time since the call started.
    pub(super) fn elapsed(&self) -> Duration {
        self.tool.env.now().saturating_duration_since(self.began)
    }

    /// Records the action, even if the rest of the request is invalid.
    pub(super) fn set_action(&mut self, action: Action) {
        self.action = action.as_str();
        self.span.record("action", self.action);
    }

    /// Records the target, even if its caller may not use it.
    pub(super) fn set_target(&mut self, target: &Arc<Target>) {
        let name = target.alias.as_deref().unwrap_or("by URL");
        self.span.record("target", name);
        self.target = Some(Arc::clone(target));
    }

    /// Records the resolved request. Returns the metrics for the exchanges with the peer.
    pub(super) fn set_resolved(&mut self, resolved: &Resolved) -> Arc<CallMetrics> {
        let is_counting = self.tool.audit.is_some();
        let metrics = Arc::new(CallMetrics::new(self.trace.id(), is_counting));
        self.subject = Subject {
            task_id: resolved.task_id.clone(),
            context_id: resolved.context_id.clone(),
            metrics: Some(Arc::clone(&metrics)),
        };
        metrics
    }

    /// Ends the audit with the call's outcome.
    pub(super) fn finish(mut self, outcome: Result<(), Reason>) {
        self.close(outcome.map_or_else(Reason::as_str, |()| "ok"));
    }

    fn close(&mut self, outcome: &'static str) {
        self.ended = true;
        self.span.record("outcome", outcome);
        let Some(audit) = &self.tool.audit else {
            return;
        };
        let (target, subject) = (self.target.as_ref(), &self.subject);
        let origin = target.map(|target| origin(&target.peer_config));
        let recorded = subject
            .metrics
            .as_ref()
            .map(|metrics| std::mem::take(&mut *metrics.recorded()));
        let recorded = recorded.unwrap_or_default();
        audit.write(&Record {
            time: self.time,
            trace_id: self.trace.id(),
            agent: self.caller.agent_id.as_deref(),
            operator: self.caller.operator.as_deref(),
            session: self.caller.session_key.as_deref(),
            action: self.action,
            target: target.and_then(|target| target.alias.as_deref()),
            origin: origin.as_deref(),
            transport: recorded.transport.map(Transport::as_str),
            task_id: recorded.task_id.as_deref().or(subject.task_id.as_deref()),
            context_id: recorded
                .context_id
                .as_deref()
                .or(subject.context_id.as_deref()),
            sent_bytes: recorded.sent_bytes,
            received_bytes: recorded.received_bytes,
            state: recorded.state.as_ref().map(TaskState::as_str),
            duration: self.elapsed(),
            outcome,
        });
    }
}

/// Returns the origin of the URL that the connection uses.
fn origin(peer_config: &PeerConfig) -> String {
    let connected = peer_config
        .endpoint
        .as_ref()
        .filter(|_| peer_config.is_local());
    let url = connected.unwrap_or(&peer_config.base_url);
    url.origin().ascii_serialization()
}

impl Drop for CallAudit<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let reason = if std::thread::panicking() {
            Reason::InternalFault
        } else if self.closing.is_cancelled() {
            Reason::ShuttingDown
        } else {
            Reason::Aborted
        };
        self.close(reason.as_str());
    }
}
