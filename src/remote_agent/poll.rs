//! Polls a task's state, where the peer cannot stream it.

use std::time::Duration;

use tokio::time::sleep;

use peer::{Peer, PeerError, PeerErrorKind};

use super::artifacts::{Gap, Source};
use super::call::Call;
use super::error::ToolError;
use super::poll_intervals::PollIntervals;
use super::read_stream::{ConnectionEnd, LostConnection};

/// Polls the task, first `immediately` or after a pause, until it is terminal or interrupted. Each answer with a change
/// causes an update. A peer that is temporarily unreachable is polled again, if it has answered before.
///
/// # Errors
/// The call has ended, or the answers exceed the limits.
pub(super) async fn poll(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    task_id: &str,
    immediately: bool,
) -> Result<ConnectionEnd, ToolError> {
    let mut pauses = pauses(call.poll_intervals());
    let mut pause = if immediately { None } else { pauses.next() };
    loop {
        let request = async {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            call.metrics.get_task(peer, task_id, None).await
        };
        match call.deadline.run(request).await? {
            Ok(task) => {
                // The known state may be stale.
                call.collected.open_gap(Gap::Open);
                call.add_snapshot(task, Source::Polled, None)?;
                if call.collected.is_terminal_or_interrupted() {
                    return Ok(ConnectionEnd::Ended);
                }
            }
            Err(error) if call.collected.count() > 0 && is_temporary(&error) => {}
            Err(error) => return Ok(ConnectionEnd::Lost(LostConnection::from_error(error))),
        }
        pause = pauses.next();
    }
}

/// Returns the pauses between polls: each twice as long as the one before, up to the longest.
fn pauses(poll_intervals: &PollIntervals) -> impl Iterator<Item = Duration> + use<> {
    let longest = poll_intervals.longest_poll;
    std::iter::successors(Some(poll_intervals.first_poll.min(longest)), move |pause| {
        Some((*pause * 2).min(longest))
    })
}

/// Returns whether the error is temporary: the peer was unreachable or overloaded.
fn is_temporary(error: &PeerError) -> bool {
    match error.kind {
        kind if kind.is_unreachable() => true,
        // A proxy in front of a peer may report that in JSON that resembles the peer's.
        PeerErrorKind::HttpStatus | PeerErrorKind::Rpc => {
            matches!(error.http_status, Some(429 | 502..=504))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_http_status_overrides_the_body() {
        for kind in [PeerErrorKind::HttpStatus, PeerErrorKind::Rpc] {
            for (status, expected) in [(503, true), (429, true), (500, false), (404, false)] {
                let mut error = PeerError::new(kind, "busy");
                error.http_status = Some(status);
                assert_eq!(is_temporary(&error), expected, "{kind:?} {status}");
            }
            assert!(!is_temporary(&PeerError::new(kind, "no")));
        }
    }

    #[test]
    fn polls_back_off_to_the_maximum() {
        let pauses: Vec<_> = pauses(&PollIntervals::default())
            .map(|pause| pause.as_secs())
            .take(6)
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    }
}
