//! What a call does when it cannot read or fetch an event, answer or status of the task that it follows.
//!
//! One such failure does not end the call, because the agent may still deliver the task. A call that gives up returns
//! an error with the cause. The limits on repetition are here too.

use a2a::ErrorReason;
use collective::ErrorCode;
use egress::NetFault;
use peer::{PeerError, PeerErrorKind};

/// How many unreadable events in a row a connection may send before the task is queried instead.
pub(super) const MAX_UNREADABLE_EVENTS: usize = 8;

/// How many queries in a row may fail, unless the agent is unreachable: that ends with the call.
pub(super) const MAX_FAILED_QUERIES: u32 = 6;

/// How many queries in a row may show an unchanged task if nothing indicates that it continues: it is in a state that
/// no version of A2A defines, or its stream ended with an error.
pub(super) const MAX_UNCHANGED: u32 = 3;

/// The errors that JSON-RPC leaves to implementations and A2A does not define.
const SERVER_ERRORS: std::ops::RangeInclusive<i64> = -32099..=-32020;
const SERVER_ERROR: i64 = -32000;

/// Where the fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// An event of a stream, or the stream itself.
    Event,
    /// The answer to a subscription, or its first event.
    Subscription,
    /// The answer to a query of the task.
    Query,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Ignore it and continue: read the next event, or query again after a pause.
    Skip,
    /// Subscribe again.
    Resubscribe,
    /// Query the task.
    Query,
    /// Query again after a pause, once: it may be the page of a proxy.
    SkipOnce,
    /// End with this error.
    GiveUp,
}

/// Returns what happens after `error`. `is_known` says whether the call has received anything of the task.
///
/// | fault | event | subscription | query, if the task is known |
/// |---|---|---|---|
/// | the connection broke | resubscribe | resubscribe | again |
/// | no connection | give up | resubscribe, if the task is known | again |
/// | not JSON, or another shape than the protocol's | skip | query | again |
/// | 408, 425, 429, 5xx but 501, an internal error | query | query | again |
/// | a 400 or 404 without an error of the protocol | give up | query | again, once |
/// | an event or answer above a limit | query | query | give up |
/// | another error of the agent | query | query | give up |
/// | credentials, address, TLS, redirects | give up | query, if the task is known | give up |
///
/// A query of a task of which nothing is known is repeated only after an answer that cannot be read, a broken connection, or an
/// error of the agent that may pass: its id may be wrong, and the target's address too.
pub(super) fn after(place: Place, error: &PeerError, is_known: bool) -> Recovery {
    use PeerErrorKind as K;
    let kind = error.kind;
    match place {
        Place::Event => match kind {
            _ if kind.is_cut() => Recovery::Resubscribe,
            K::InvalidResponse => Recovery::Skip,
            // An error in a stream may be one of the stream alone.
            K::Rpc | K::Net(NetFault::EventTooLarge) => Recovery::Query,
            _ if is_temporary(error) => Recovery::Query,
            _ => Recovery::GiveUp,
        },
        Place::Subscription => match kind {
            _ if kind.is_cut() => Recovery::Resubscribe,
            K::Rpc | K::HttpStatus | K::InvalidResponse | K::Net(NetFault::EventTooLarge) => {
                Recovery::Query
            }
            _ if !is_known => Recovery::GiveUp,
            _ if kind.is_unreachable() => Recovery::Resubscribe,
            _ => Recovery::Query,
        },
        Place::Query if is_known && (kind.is_unreachable() || is_temporary(error)) => {
            Recovery::Skip
        }
        Place::Query
            if kind.is_cut()
                || (matches!(kind, K::Rpc | K::HttpStatus | K::InvalidResponse)
                    && is_temporary(error)) =>
        {
            Recovery::Skip
        }
        Place::Query
            if is_known
                && kind == K::HttpStatus
                && matches!(error.http_status, Some(400 | 404)) =>
        {
            Recovery::SkipOnce
        }
        Place::Query => Recovery::GiveUp,
    }
}

/// Returns whether a later request may succeed: the agent, or a proxy in front of it, is overloaded or had an accident.
fn is_temporary(error: &PeerError) -> bool {
    if let Some(status) = error.http_status {
        // A proxy may report its status in JSON that resembles the agent's.
        return matches!(status, 408 | 425 | 429 | 500 | 502..=599);
    }
    match error.kind {
        PeerErrorKind::InvalidResponse | PeerErrorKind::Net(NetFault::TokenUnavailable) => true,
        PeerErrorKind::Gateway(code) => matches!(
            code,
            ErrorCode::AgentBusy | ErrorCode::AgentOffline | ErrorCode::SessionLocked
        ),
        // An error without a code says nothing about the task.
        PeerErrorKind::Rpc => error.rpc_code.is_none_or(|code| {
            code == SERVER_ERROR
                || SERVER_ERRORS.contains(&code)
                || has_code(code, &[ErrorReason::InternalError])
        }),
        _ => false,
    }
}

/// Returns whether the agent says that it has no such task or no queries: it keeps nothing that another request could fetch.
pub(super) fn is_unsupported(error: &PeerError) -> bool {
    match (error.kind, error.rpc_code, error.http_status) {
        (PeerErrorKind::Rpc, Some(code), _) => has_code(
            code,
            &[
                ErrorReason::MethodNotFound,
                ErrorReason::TaskNotFound,
                ErrorReason::UnsupportedOperation,
            ],
        ),
        (PeerErrorKind::Rpc | PeerErrorKind::HttpStatus, None, Some(status)) => {
            matches!(status, 400 | 404 | 405 | 410 | 501)
        }
        (PeerErrorKind::Rpc, None, None) => true,
        _ => false,
    }
}

fn has_code(code: i64, reasons: &[ErrorReason]) -> bool {
    reasons
        .iter()
        .any(|reason| i64::from(reason.code()) == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: PeerErrorKind, http_status: Option<u16>, rpc_code: Option<i64>) -> PeerError {
        let mut error = PeerError::new(kind, "no");
        error.http_status = http_status;
        error.rpc_code = rpc_code;
        error
    }

    #[test]
    fn every_kind_of_fault_has_a_next_step() {
        use PeerErrorKind as K;
        use Recovery::{GiveUp, Query, Resubscribe, Skip, SkipOnce};
        for (fault, expected) in [
            (
                error(K::Net(NetFault::Cut), None, None),
                [Resubscribe, Resubscribe, Skip],
            ),
            (
                error(K::Net(NetFault::Unreachable), None, None),
                [GiveUp, Resubscribe, Skip],
            ),
            (error(K::InvalidResponse, None, None), [Skip, Query, Skip]),
            (error(K::HttpStatus, Some(500), None), [Query, Query, Skip]),
            (error(K::HttpStatus, Some(429), None), [Query, Query, Skip]),
            (error(K::HttpStatus, Some(524), None), [Query, Query, Skip]),
            (
                error(K::HttpStatus, Some(501), None),
                [GiveUp, Query, GiveUp],
            ),
            (
                error(K::HttpStatus, Some(404), None),
                [GiveUp, Query, SkipOnce],
            ),
            (
                error(K::HttpStatus, Some(410), None),
                [GiveUp, Query, GiveUp],
            ),
            (error(K::Rpc, Some(429), Some(429)), [Query, Query, Skip]),
            (
                error(K::Rpc, Some(404), Some(-32001)),
                [Query, Query, GiveUp],
            ),
            (error(K::Rpc, Some(503), Some(-32603)), [Query, Query, Skip]),
            (error(K::Rpc, None, Some(-32603)), [Query, Query, Skip]),
            (error(K::Rpc, None, Some(-32000)), [Query, Query, Skip]),
            (error(K::Rpc, None, Some(-32001)), [Query, Query, GiveUp]),
            (error(K::Rpc, None, None), [Query, Query, Skip]),
            (
                error(K::Net(NetFault::EventTooLarge), None, None),
                [Query, Query, GiveUp],
            ),
            (
                error(K::AuthRequired, Some(401), None),
                [GiveUp, Query, GiveUp],
            ),
            (
                error(K::Net(NetFault::AddressRefused), None, None),
                [GiveUp, Query, GiveUp],
            ),
        ] {
            let places = [Place::Event, Place::Subscription, Place::Query];
            let actual = places.map(|place| after(place, &fault, true));
            assert_eq!(actual, expected, "{fault:?}");
        }
    }

    #[test]
    fn nothing_known_ends_with_an_error_that_does_not_pass() {
        use PeerErrorKind as K;
        use Recovery::{GiveUp, Skip};
        for (fault, expected) in [
            (error(K::Net(NetFault::Unreachable), None, None), GiveUp),
            (
                error(K::Net(NetFault::TokenUnavailable), None, None),
                GiveUp,
            ),
            (error(K::HttpStatus, Some(404), None), GiveUp),
            (error(K::Rpc, None, Some(-32001)), GiveUp),
            (error(K::AuthRequired, Some(401), None), GiveUp),
            (error(K::InvalidResponse, None, None), Skip),
            (error(K::Net(NetFault::Cut), None, None), Skip),
            (error(K::HttpStatus, Some(524), None), Skip),
            (error(K::Rpc, None, Some(-32603)), Skip),
        ] {
            let recovery = after(Place::Query, &fault, false);
            assert_eq!(recovery, expected, "{fault:?}");
        }
        let refused = after(
            Place::Subscription,
            &error(PeerErrorKind::Net(NetFault::Dns), None, None),
            false,
        );
        assert_eq!(refused, Recovery::GiveUp);
    }
}
