//! The health of targets, as the calls of this process see it: a breaker that refuses calls to a target which failed several times
//! in a row, and the figures of the last hour.
//!
//! Only a target that does not answer, or answers with 5xx, fails. Every other answer closes its breaker, also a refusal: one of
//! a credential must reach the caller.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use base::backoff::Backoff;
use humantime::format_rfc3339_millis;
use lru::LruCache;
use parking_lot::Mutex;
use peer::Delivered;
use serde_json::{Value, json};

use super::error::{Reason, ToolError};
use crate::config::Breaker;

/// How many targets are remembered. Requests may name any number.
const MAX_TARGETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);

/// The longest time that a breaker stays open, unless the setting is longer.
const MAX_OPEN: Duration = Duration::from_secs(10 * 60);

/// How many calls of a target the figures are about.
const MAX_CALLS: usize = 128;

/// How far back they go.
const PERIOD: Duration = Duration::from_secs(60 * 60);

/// What a call shows about its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It answers.
    Answered,
    /// It does not answer, or is broken.
    Failed(Reason),
    /// Nothing.
    Unknown,
}

impl Verdict {
    /// Reads the outcome of a call that reached its target, or tried to, and whose target `has_answered` another request of it.
    /// `uses_default_timeout` says that the call had the time that the operator gives an agent, and not one of its request.
    pub(super) fn of(
        outcome: Result<(), &ToolError>,
        has_answered: bool,
        uses_default_timeout: bool,
    ) -> Self {
        if has_answered {
            return Self::Answered;
        }
        // A wait that expired has a result too.
        let Err(error) = outcome else {
            return Self::Unknown;
        };
        let status = error.details.get("http_status").and_then(Value::as_u64);
        match error.reason {
            Reason::Dns | Reason::Unreachable | Reason::Tls | Reason::ConnectionCut => {
                Self::Failed(error.reason)
            }
            Reason::Timeout if uses_default_timeout => Self::Failed(error.reason),
            // 500 may be about one message.
            Reason::HttpStatus if matches!(status, Some(502..=504)) => Self::Failed(error.reason),
            Reason::HttpStatus
            | Reason::AuthRequired
            | Reason::RpcError
            | Reason::InvalidResponse
            | Reason::TooLarge
            | Reason::EventTooLarge
            | Reason::TooManyArtifacts
            | Reason::ArtifactsTooLarge
            | Reason::RedirectRefused
            | Reason::MessageReturned
            | Reason::StreamCut => Self::Answered,
            _ => Self::Unknown,
        }
    }
}

/// The health of all targets.
pub(super) struct Health {
    /// After how many failures in a row a breaker opens; `None` never.
    failures: Option<u32>,
    open: Backoff,
    targets: Mutex<LruCache<Arc<str>, TargetHealth>>,
}

#[derive(Default)]
struct TargetHealth {
    /// The failures since the last answer.
    failures: u32,
    /// How many of them were those of a call that tried whether the target is well again.
    probes: u32,
    /// Until when an open breaker refuses calls; after that it lets one through at a time.
    open_until: Option<Instant>,
    /// Whether the call that tries the target has an answer already; `None` while no call tries it.
    probe: Option<Arc<AtomicBool>>,
    /// Until when others wait for that call, which may take as long as its request says.
    probe_until: Option<Instant>,
    /// Why the last call failed.
    reason: Option<Reason>,
    answered_at: Option<SystemTime>,
    /// The latest calls, the newest last.
    calls: Vec<Recorded>,
}

struct Recorded {
    at: Instant,
    /// How long an answer took, in milliseconds; `None` where the target failed, or a person was asked meanwhile.
    took: Option<u64>,
    has_failed: bool,
}

impl TargetHealth {
    /// Returns how long the breaker refuses calls; `None` if it lets one through.
    fn refused_for(&self, now: Instant) -> Option<Duration> {
        let left = self.open_until?.saturating_duration_since(now);
        if !left.is_zero() {
            return Some(left);
        }
        let probe = self.probe.as_ref()?;
        // The call that tries the target may have its answer at any time, and go on long after it.
        let is_recent = self.probe_until.is_some_and(|until| now < until);
        (is_recent && !probe.load(Ordering::Relaxed)).then_some(Duration::from_secs(1))
    }

    fn check(&self, now: Instant) -> Result<(), ToolError> {
        let Some(left) = self.refused_for(now) else {
            return Ok(());
        };
        let last = self.reason.map_or("", Reason::as_str);
        let seconds = left.as_millis().div_ceil(1000);
        let message = format!(
            "the last {} calls to this target failed, the latest with `{last}`; it is tried again in {seconds} s",
            self.failures
        );
        let error = ToolError::local(Reason::TargetUnavailable, message);
        Err(error
            .with("retry_after_ms", json!(left.as_millis()))
            .with("last_reason", last)
            .delivered(Delivered::No))
    }
}

impl TargetHealth {
    fn record(
        &mut self,
        health: &Health,
        verdict: Verdict,
        is_probe: bool,
        (now, time): (Instant, SystemTime),
    ) {
        let Verdict::Failed(reason) = verdict else {
            self.failures = 0;
            self.probes = 0;
            self.open_until = None;
            self.answered_at = Some(time);
            return;
        };
        self.failures = self.failures.saturating_add(1);
        self.reason = Some(reason);
        let opens = health.failures.is_some_and(|most| self.failures >= most);
        // A call from before it opened says nothing new.
        if is_probe {
            self.probes = self.probes.saturating_add(1);
            self.open_until = Some(now + health.open.delay(self.probes));
        } else if opens && self.open_until.is_none() {
            self.open_until = Some(now + health.open.delay(0));
        }
    }
}

/// A call that the breaker lets through, until its verdict or its drop.
pub(super) struct Admission<'a> {
    health: &'a Health,
    target: Arc<str>,
    is_probe: bool,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(target) = self.health.targets.lock().get_mut(&self.target)
        {
            target.probe = None;
        }
    }
}

impl Health {
    pub(super) fn new(settings: &Breaker) -> Self {
        let open = Duration::from_millis(settings.open_ms);
        Self {
            failures: settings.enabled.then_some(settings.failures),
            open: Backoff::new(open, open.max(MAX_OPEN)),
            targets: Mutex::new(LruCache::new(MAX_TARGETS)),
        }
    }

    /// Checks that the breaker of a target lets a call through now.
    ///
    /// # Errors
    /// [`Reason::TargetUnavailable`]. Nothing was sent.
    pub(super) fn check(&self, target: &Arc<str>, now: Instant) -> Result<(), ToolError> {
        let mut targets = self.targets.lock();
        targets.get(target).map_or(Ok(()), |known| known.check(now))
    }

    /// Lets a call to a target through: each while its breaker is closed, and one at a time after it was open, until one
    /// `has_answered`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn admit(
        &self,
        target: &Arc<str>,
        has_answered: &Arc<AtomicBool>,
        now: Instant,
    ) -> Result<Admission<'_>, ToolError> {
        let mut targets = self.targets.lock();
        let known = targets.get_or_insert_mut(Arc::clone(target), TargetHealth::default);
        known.check(now)?;
        let is_probe = known.open_until.is_some();
        known.probe = is_probe.then(|| Arc::clone(has_answered));
        known.probe_until = is_probe.then(|| now + self.open.delay(0));
        Ok(Admission {
            health: self,
            target: Arc::clone(target),
            is_probe,
        })
    }

    /// Records the verdict of a call. `took` is how long the target had for it.
    pub(super) fn record(
        &self,
        call: Admission<'_>,
        verdict: Verdict,
        took: Option<Duration>,
        (now, time): (Instant, SystemTime),
    ) {
        if verdict != Verdict::Unknown
            && let Some(known) = self.targets.lock().get_mut(&call.target)
        {
            known.record(self, verdict, call.is_probe, (now, time));
            if known.calls.len() >= MAX_CALLS {
                known.calls.remove(0);
            }
            let has_failed = verdict != Verdict::Answered;
            let took = took.filter(|_| !has_failed);
            known.calls.push(Recorded {
                at: now,
                took: took.and_then(|took| u64::try_from(took.as_millis()).ok()),
                has_failed,
            });
        }
    }

    /// Returns when calls to a target are not refused any more; `None` if they are not refused now.
    pub(super) fn retry_after(&self, target: &Arc<str>, now: Instant) -> Option<Value> {
        let left = self.targets.lock().get(target)?.refused_for(now)?;
        Some(json!({"retry_after_ms": left.as_millis()}))
    }

    /// Returns the figures of a target for an operator; `None` before its first call.
    pub(super) fn figures(&self, target: &Arc<str>, now: Instant) -> Option<Value> {
        let mut targets = self.targets.lock();
        let known = targets.get(target)?;
        let (mut calls, mut failed, mut took) = (0, 0, Vec::new());
        for call in &known.calls {
            if now.saturating_duration_since(call.at) > PERIOD {
                continue;
            }
            calls += 1;
            failed += u32::from(call.has_failed);
            if let Some(ms) = call.took {
                // They are few.
                let at = took.partition_point(|earlier| *earlier < ms);
                took.insert(at, ms);
            }
        }
        let mut figures = json!({"calls": calls, "failed": failed});
        let median = took.get(took.len() / 2);
        let left = known.refused_for(now).map(|left| left.as_millis());
        for (name, value) in [
            ("p50_ms", median.map(|ms| json!(ms))),
            (
                "last_success_at",
                known
                    .answered_at
                    .map(|at| json!(format_rfc3339_millis(at).to_string())),
            ),
            ("retry_after_ms", left.map(|ms| json!(ms))),
        ] {
            if let Some(value) = value {
                figures[name] = value;
            }
        }
        Some(figures)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn health(failures: u32) -> (Health, Arc<str>, Instant) {
        let settings = Breaker {
            failures,
            open_ms: 30_000,
            ..Breaker::default()
        };
        (Health::new(&settings), "a".into(), Instant::now())
    }

    fn admit<'a>(
        health: &'a Health,
        target: &Arc<str>,
        now: Instant,
    ) -> Result<Admission<'a>, ToolError> {
        health.admit(target, &Arc::default(), now)
    }

    fn call(health: &Health, target: &Arc<str>, now: Instant, verdict: Verdict) {
        let admitted = admit(health, target, now).unwrap();
        health.record(
            admitted,
            verdict,
            Some(SECOND),
            (now, SystemTime::UNIX_EPOCH),
        );
    }

    const FAILED: Verdict = Verdict::Failed(Reason::Unreachable);

    #[test]
    fn breaker_opens_after_failures_in_a_row_and_tries_one_call_at_a_time() {
        let (health, a, now) = health(3);
        for verdict in [
            FAILED,
            FAILED,
            Verdict::Answered,
            FAILED,
            Verdict::Unknown,
            FAILED,
        ] {
            call(&health, &a, now, verdict);
        }
        health.check(&a, now).unwrap();
        call(&health, &a, now, FAILED);
        let refused = health.check(&a, now + SECOND).unwrap_err();
        assert_eq!(refused.reason, Reason::TargetUnavailable);
        assert_eq!(refused.details["retry_after_ms"], 29_000);
        assert_eq!(refused.delivered, Delivered::No);
        assert!(refused.message.contains("3 calls") && refused.message.contains("unreachable"));
        health.check(&"b".into(), now).unwrap();

        let later = now + 30 * SECOND;
        let has_answered = Arc::default();
        let probe = health.admit(&a, &has_answered, later).unwrap();
        admit(&health, &a, later).map(drop).unwrap_err();
        has_answered.store(true, Ordering::Relaxed);
        health.check(&a, later).unwrap();
        has_answered.store(false, Ordering::Relaxed);
        // A call that was cancelled shows nothing, and the next one tries.
        drop(probe);
        call(&health, &a, later, FAILED);
        let refused = health.check(&a, later).unwrap_err();
        assert_eq!(refused.details["retry_after_ms"], 60_000);
        call(&health, &a, later + 60 * SECOND, Verdict::Answered);
        for _ in 0..2 {
            call(&health, &a, later + 60 * SECOND, FAILED);
        }
        health.check(&a, later + 60 * SECOND).unwrap();
    }

    #[test]
    fn open_time_grows_to_its_maximum_and_the_breaker_can_be_off() {
        let (health, a, mut now) = health(1);
        call(&health, &a, now, FAILED);
        for _ in 0..9 {
            now += MAX_OPEN;
            call(&health, &a, now, FAILED);
        }
        let refused = health.check(&a, now).unwrap_err();
        assert_eq!(
            refused.details["retry_after_ms"],
            json!(MAX_OPEN.as_millis())
        );
        let off = Health::new(&Breaker {
            enabled: false,
            ..Breaker::default()
        });
        for _ in 0..99 {
            call(&off, &a, now, FAILED);
        }
    }

    #[test]
    fn call_from_before_the_breaker_opened_does_not_prolong_it() {
        let (health, a, now) = health(1);
        let [early, late] = [(); 2].map(|()| admit(&health, &a, now).unwrap());
        health.record(early, FAILED, None, (now, SystemTime::UNIX_EPOCH));
        let later = now + 30 * SECOND;
        health.record(late, FAILED, None, (later, SystemTime::UNIX_EPOCH));
        health.check(&a, later).unwrap();
    }

    #[test]
    fn target_that_is_called_stays_known() {
        let (health, a, now) = health(1);
        call(&health, &a, now, FAILED);
        for number in 0..2000 {
            call(&health, &number.to_string().into(), now, FAILED);
            health.check(&a, now).unwrap_err();
        }
    }

    #[test]
    fn figures_are_those_of_the_last_hour() {
        let (health, a, now) = health(5);
        assert_eq!(health.figures(&a, now), None);
        for (at, verdict, seconds) in [
            (0, FAILED, 9),
            (3600, Verdict::Answered, 4),
            (3601, Verdict::Answered, 2),
            (3602, FAILED, 9),
            (3603, Verdict::Answered, 3),
        ] {
            let at = now + at * SECOND;
            let admitted = admit(&health, &a, at).unwrap();
            health.record(
                admitted,
                verdict,
                Some(seconds * SECOND),
                (at, SystemTime::UNIX_EPOCH),
            );
        }
        let figures = health.figures(&a, now + 3604 * SECOND).unwrap();
        assert_eq!(
            figures,
            json!({"calls": 4, "failed": 1, "p50_ms": 3000, "last_success_at": "1970-01-01T00:00:00.000Z"})
        );
        for _ in 0..1000 {
            call(&health, &a, now, Verdict::Answered);
        }
        assert_eq!(
            health.targets.lock().get(&a).unwrap().calls.len(),
            MAX_CALLS
        );
    }

    #[test]
    fn refusals_and_the_limits_of_the_caller_are_no_failures() {
        let of = |reason: Reason| Verdict::of(Err(&ToolError::new(reason, "")), false, true);
        for reason in [
            Reason::Dns,
            Reason::Unreachable,
            Reason::Tls,
            Reason::ConnectionCut,
            Reason::Timeout,
        ] {
            assert_eq!(of(reason), Verdict::Failed(reason));
        }
        for reason in [
            Reason::AuthRequired,
            Reason::RpcError,
            Reason::HttpStatus,
            Reason::InvalidResponse,
        ] {
            assert_eq!(of(reason), Verdict::Answered);
        }
        for reason in [
            Reason::TokenUnavailable,
            Reason::BudgetExceeded,
            Reason::Aborted,
            Reason::Busy,
            Reason::PersonRequired,
            Reason::InvalidRequest,
        ] {
            assert_eq!(of(reason), Verdict::Unknown);
        }
        let status =
            |status: u16| ToolError::new(Reason::HttpStatus, "").with("http_status", status);
        assert_eq!(
            Verdict::of(Err(&status(503)), false, true),
            Verdict::Failed(Reason::HttpStatus)
        );
        assert_eq!(
            Verdict::of(Err(&status(429)), false, true),
            Verdict::Answered
        );
        let timeout = ToolError::new(Reason::Timeout, "");
        assert_eq!(Verdict::of(Err(&timeout), false, false), Verdict::Unknown);
        assert_eq!(Verdict::of(Err(&timeout), true, true), Verdict::Answered);
        assert_eq!(Verdict::of(Ok(()), true, true), Verdict::Answered);
        assert_eq!(Verdict::of(Ok(()), false, true), Verdict::Unknown);
    }
}
