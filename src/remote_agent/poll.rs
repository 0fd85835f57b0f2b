//! Polls a task's state, where the peer cannot stream it.

use tokio::time::sleep;

use peer::Peer;

use super::artifacts::{Gap, Source};
use super::call::{Call, Incomplete};
use super::error::ToolError;
use super::read_stream::{ConnectionEnd, LostConnection};
use super::recovery::{MAX_FAILED_QUERIES, MAX_UNCHANGED, Place, Recovery, after};

/// Polls the task, first `immediately` or after a pause, until it is terminal or interrupted. Each answer with a change
/// causes an update. An answer that cannot be read, and one whose cause may pass, is polled again if the peer has answered
/// before ([`recovery`](super::recovery)). With `may_be_over`, some answers without a change end the polls.
///
/// # Errors
/// The call has ended, or the answers exceed the limits.
pub(super) async fn poll(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    task_id: &str,
    immediately: bool,
    may_be_over: bool,
) -> Result<ConnectionEnd, ToolError> {
    let mut pauses = call.poll_intervals().polls().delays();
    let mut pause = if immediately { None } else { pauses.next() };
    let (mut failed, mut unchanged) = (0, 0);
    loop {
        let request = async {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            call.get_task(peer, task_id).await
        };
        match call.deadline.run(request).await? {
            Ok(task) => {
                failed = 0;
                call.set_queries_fail(false);
                // The known state may be stale.
                call.collected.open_gap(Gap::Open);
                let is_foreign = task.state().is_foreign();
                let changed = call.add_snapshot(task, Source::Polled)?;
                if call.collected.is_terminal_or_interrupted() {
                    return Ok(ConnectionEnd::Ended);
                }
                unchanged = if changed { 0 } else { unchanged + 1 };
                if unchanged == MAX_UNCHANGED && is_foreign {
                    call.set_incomplete(Incomplete::UnknownState);
                    return Ok(ConnectionEnd::Ended);
                }
                if unchanged == MAX_UNCHANGED && may_be_over {
                    return Ok(ConnectionEnd::Lost(LostConnection {
                        must_poll: true,
                        ..LostConnection::default()
                    }));
                }
            }
            Err(error) => {
                let recovery = after(Place::Query, &error, call.collected.count() > 0);
                let is_unreachable = error.kind.is_unreachable();
                failed += u32::from(!is_unreachable);
                if recovery != Recovery::Skip || failed == MAX_FAILED_QUERIES {
                    return Ok(ConnectionEnd::Lost(LostConnection::from_error(error)));
                }
                call.set_queries_fail(!is_unreachable);
            }
        }
        pause = pauses.next();
    }
}
