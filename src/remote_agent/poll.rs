//! Asking now and then how a task stands, where listening is not to be had.

use std::time::Duration;

use tokio::time::sleep;

use peer::{Peer, PeerError, PeerErrorKind};

use super::artifacts::Gap;
use super::call::Call;
use super::error::ToolError;
use super::follow::{ConnectionEnd, LostConnection};
use super::pace::Pace;

/// Asks how the task stands, first `at_once` or after a pause, until it is settled. Each answer is told where it brings
/// anything new. A peer that cannot be reached for a while is asked again, unless it has not said anything yet.
///
/// # Errors
/// When the call is over, or the peer says too much.
pub(super) async fn poll(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    task_id: &str,
    at_once: bool,
) -> Result<ConnectionEnd, ToolError> {
    let mut pauses = pauses(call.pace());
    let mut pause = if at_once { None } else { pauses.next() };
    loop {
        let asked = async {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            call.metrics.get_task(peer, task_id, None).await
        };
        match call.deadline.run(asked).await? {
            Ok(task) => {
                // Whatever is held may be out of date.
                call.said.open_gap(Gap::Open);
                call.hear_asked(task)?;
                if call.said.is_terminal_or_interrupted() {
                    return Ok(ConnectionEnd::Settled);
                }
            }
            Err(error) if call.said.count() > 0 && may_pass(&error) => {}
            Err(error) => return Ok(ConnectionEnd::Lost(LostConnection::refused(error))),
        }
        pause = pauses.next();
    }
}

/// The pauses between polls: each is twice as long as the one before, up to the longest.
fn pauses(pace: &Pace) -> impl Iterator<Item = Duration> + use<> {
    let longest = pace.longest_poll;
    std::iter::successors(Some(pace.first_poll.min(longest)), move |pause| {
        Some((*pause * 2).min(longest))
    })
}

/// The peer did not refuse: it was not there, or had no time.
fn may_pass(error: &PeerError) -> bool {
    match error.kind {
        fault if fault.is_away() => true,
        // What stands in front of a peer may say so in JSON that reads like the peer's.
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
    fn a_status_that_passes_counts_whatever_is_said_with_it() {
        for fault in [PeerErrorKind::HttpStatus, PeerErrorKind::Rpc] {
            for (status, passes) in [(503, true), (429, true), (500, false), (404, false)] {
                let mut error = PeerError::new(fault, "busy");
                error.http_status = Some(status);
                assert_eq!(may_pass(&error), passes, "{fault:?} {status}");
            }
            assert!(!may_pass(&PeerError::new(fault, "no")));
        }
    }

    #[test]
    fn polls_back_off_to_the_longest_pause() {
        let pauses: Vec<_> = pauses(&Pace::default())
            .map(|pause| pause.as_secs())
            .take(6)
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    }
}
