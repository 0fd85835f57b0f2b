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
/// | credentials | give up, if no task is known | query | give up |
/// | address, TLS, redirects | give up | query, if the task is known | give up |
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
            // A peer may refuse the subscription alone.
            K::Rpc
            | K::AuthRequired
            | K::HttpStatus
            | K::InvalidResponse
            | K::Net(NetFault::EventTooLarge) => Recovery::Query,
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
    use NetFault as N;
    use PeerErrorKind as K;
    use Recovery::{GiveUp, Query, Resubscribe, Skip, SkipOnce};

    /// Returns a fault; 0 stands for no status or code.
    fn fault(kind: K, http_status: u16, rpc_code: i64) -> PeerError {
        let mut fault = PeerError::new(kind, "no");
        fault.http_status = Some(http_status).filter(|status| *status > 0);
        fault.rpc_code = Some(rpc_code).filter(|code| *code != 0);
        fault
    }

    #[test]
    fn every_kind_of_fault_has_a_next_step() {
        let places = [Place::Event, Place::Subscription, Place::Query];
        for (kind, status, code, expected) in [
            (K::Net(N::Cut), 0, 0, [Resubscribe, Resubscribe, Skip]),
            (K::Net(N::Unreachable), 0, 0, [GiveUp, Resubscribe, Skip]),
            (K::InvalidResponse, 0, 0, [Skip, Query, Skip]),
            (K::HttpStatus, 500, 0, [Query, Query, Skip]),
            (K::HttpStatus, 429, 0, [Query, Query, Skip]),
            (K::HttpStatus, 524, 0, [Query, Query, Skip]),
            (K::HttpStatus, 501, 0, [GiveUp, Query, GiveUp]),
            (K::HttpStatus, 404, 0, [GiveUp, Query, SkipOnce]),
            (K::HttpStatus, 410, 0, [GiveUp, Query, GiveUp]),
            (K::Rpc, 429, 429, [Query, Query, Skip]),
            (K::Rpc, 404, -32001, [Query, Query, GiveUp]),
            (K::Rpc, 503, -32603, [Query, Query, Skip]),
            (K::Rpc, 0, -32603, [Query, Query, Skip]),
            (K::Rpc, 0, -32000, [Query, Query, Skip]),
            (K::Rpc, 0, -32001, [Query, Query, GiveUp]),
            (K::Rpc, 0, 0, [Query, Query, Skip]),
            (K::Net(N::EventTooLarge), 0, 0, [Query, Query, GiveUp]),
            (K::AuthRequired, 401, 0, [GiveUp, Query, GiveUp]),
            (K::Net(N::AddressRefused), 0, 0, [GiveUp, Query, GiveUp]),
        ] {
            let fault = fault(kind, status, code);
            let actual = places.map(|place| after(place, &fault, true));
            assert_eq!(actual, expected, "{fault:?}");
        }
    }

    #[test]
    fn nothing_known_ends_with_an_error_that_does_not_pass() {
        for (kind, status, code, expected) in [
            (K::Net(N::Unreachable), 0, 0, GiveUp),
            (K::Net(N::TokenUnavailable), 0, 0, GiveUp),
            (K::HttpStatus, 404, 0, GiveUp),
            (K::Rpc, 0, -32001, GiveUp),
            (K::AuthRequired, 401, 0, GiveUp),
            (K::InvalidResponse, 0, 0, Skip),
            (K::Net(N::Cut), 0, 0, Skip),
            (K::HttpStatus, 524, 0, Skip),
            (K::Rpc, 0, -32603, Skip),
        ] {
            let fault = fault(kind, status, code);
            let recovery = after(Place::Query, &fault, false);
            assert_eq!(recovery, expected, "{fault:?}");
        }
        for (kind, expected) in [(K::Net(N::Dns), GiveUp), (K::AuthRequired, Query)] {
            let fault = fault(kind, 0, 0);
            assert_eq!(after(Place::Subscription, &fault, false), expected);
        }
    }
}
