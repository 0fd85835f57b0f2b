//! Follows a task through lost connections: resubscribes, else polls its state.
//!
//! A cut is not an end. Only a terminal or interrupted state, the deadline or a cancellation ends a call that follows a
//! task. Nothing here sends a message: the first one is never repeated. `read_stream.rs` reads one connection, and
//! `recovery.rs` decides what a failed read means.

use a2a::{Task, TaskState};
use egress::NetFault;
use peer::{EventStream, Peer, PeerError, PeerErrorKind};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::artifacts::{Gap, Source};
use super::call::{Call, Incomplete};
use super::error::{Reason, ToolError};
use super::read_stream::{ConnectionEnd, FirstEvent, LostConnection, read_stream};
use super::recovery::{MAX_FAILED_QUERIES, MAX_UNCHANGED, Place, Recovery, after};

/// How many subscriptions in a row may bring nothing new before the peer is polled.
const MAX_FRUITLESS_SUBSCRIPTIONS: usize = 2;

/// How often the request for missing pieces of an ended task is repeated.
const MAX_REPEATED_FETCHES: usize = 2;

/// The start of following.
pub(super) enum Start {
    /// The stream that answers a message.
    Stream(Box<dyn EventStream>),
    /// A task in the answer to a message.
    Answer(Task),
    /// A task known only by its id.
    Task,
}

/// Follows the task to its end. At the deadline the result is what was collected.
///
/// # Errors
/// The task cannot be followed; the error has everything that was collected.
pub(super) async fn follow(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    start: Start,
) -> Result<(), ToolError> {
    match follow_to_end(call, peer, start).await {
        Err(error) if error.reason == Reason::Timeout && call.may_wait() => {
            call.set_expired();
            Ok(())
        }
        Err(error) => Err(call.with_partial_result(error)),
        Ok(()) => Ok(()),
    }
}

async fn follow_to_end(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    start: Start,
) -> Result<(), ToolError> {
    let streams = call.streaming() != Some(false);
    let mut lost = match start {
        Start::Stream(stream) => match read_stream(call, peer, stream, None).await? {
            // A piece may be missing after an event that could not be read.
            ConnectionEnd::Ended => return fetch_missed(call, peer).await,
            ConnectionEnd::Lost(lost) => {
                call.collected.open_gap(Gap::Open);
                lost
            }
        },
        start => {
            // Only a snapshot shows the earlier events.
            let (first, fresh, gap) = match start {
                Start::Answer(task) => (FirstEvent::Known(task), true, Gap::Unlikely),
                _ => (FirstEvent::New, false, Gap::Open),
            };
            call.collected.open_gap(gap);
            if streams {
                match subscribe(call, peer, first).await? {
                    ConnectionEnd::Ended => return fetch_missed(call, peer).await,
                    ConnectionEnd::Lost(lost) => lost,
                }
            } else {
                LostConnection {
                    progressed: fresh,
                    must_poll: true,
                    ..LostConnection::default()
                }
            }
        }
    };
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Err(lost.error.unwrap_or_else(nothing_to_resume));
    };
    let mut fruitless = 0;
    let mut earliest: Option<Instant> = None;
    while !lost.must_poll && fruitless < MAX_FRUITLESS_SUBSCRIPTIONS {
        if let Some(then) = earliest {
            call.deadline.run(sleep_until(then)).await?;
        }
        earliest = Some(Instant::now() + call.tool.poll_intervals.first_poll);
        let before = call.collected.progress();
        match subscribe(call, peer, FirstEvent::Resumed).await? {
            ConnectionEnd::Ended => return fetch_missed(call, peer).await,
            ConnectionEnd::Lost(mut next) => {
                // A peer that replays the events up to such a state reports nothing new.
                let is_foreign = before.0.as_ref().is_some_and(TaskState::is_foreign);
                next.progressed &= !(is_foreign && call.collected.progress() == before);
                fruitless = if next.progressed { 0 } else { fruitless + 1 };
                // The first connection's error says more than those of the attempts after it.
                lost = LostConnection {
                    error: if next.progressed {
                        next.error
                    } else {
                        lost.error
                    },
                    ..next
                };
            }
        }
    }
    let may_be_over = lost
        .error
        .as_ref()
        .is_some_and(|error| error.reason == Reason::RpcError);
    match poll(call, peer, &task_id, !lost.progressed, may_be_over).await? {
        ConnectionEnd::Ended => Ok(()),
        ConnectionEnd::Lost(poll) => lost_task(call, lost, poll),
    }
}

/// Subscribes to the task and reads the stream.
async fn subscribe(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    first: FirstEvent,
) -> Result<ConnectionEnd, ToolError> {
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Err(nothing_to_resume());
    };
    // A peer that does not begin to answer is as silent as a stream without events.
    let idle = call.tool.poll_intervals.idle;
    let answer = timeout(idle, call.metrics.resubscribe(peer, &task_id));
    let (error, must_poll) = match call.deadline.run(answer).await? {
        Ok(Ok(stream)) => {
            let ended = read_stream(call, peer, stream, Some(first)).await?;
            if matches!(ended, ConnectionEnd::Lost(_)) {
                call.collected.open_gap(Gap::Open);
            }
            return Ok(ended);
        }
        Ok(Err(error)) => {
            let is_known = call.collected.count() > 0;
            match after(Place::Subscription, &error, is_known) {
                Recovery::GiveUp => return Err(error.into()),
                recovery => (error, recovery != Recovery::Resubscribe),
            }
        }
        Err(_) => {
            let message = "the peer does not answer the subscription to the task";
            // Another wait of that length would leave no time for polls.
            (
                PeerError::new(PeerErrorKind::Net(NetFault::Cut), message),
                true,
            )
        }
    };
    call.collected.open_gap(Gap::Open);
    Ok(ConnectionEnd::Lost(LostConnection {
        must_poll,
        error: Some(error.into()),
        ..LostConnection::default()
    }))
}

/// Requests the ended task if the call may have missed pieces of it and has received no snapshot since, or if the task is
/// completed without an answer and has said something before: some agents show the answer only with the task. Repeats a
/// request whose failure may pass, where pieces are certainly missing.
async fn fetch_missed(call: &mut Call<'_>, peer: &dyn Peer) -> Result<(), ToolError> {
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Ok(());
    };
    let gap = call.collected.gap();
    if gap == Gap::None && !call.collected.lacks_answer() {
        return Ok(());
    }
    let pauses = call.tool.poll_intervals.polls().delays();
    let mut pauses = pauses.take(MAX_REPEATED_FETCHES);
    loop {
        let answer = timeout(call.tool.poll_intervals.idle, call.get_task(peer, &task_id));
        let answer = match call.deadline.run(answer).await {
            Err(error) if gap == Gap::None && error.reason == Reason::Timeout => return Ok(()),
            answer => answer?,
        };
        let pause = match answer {
            Ok(Ok(task)) => {
                call.add_snapshot(task, Source::Polled)?;
                return Ok(());
            }
            _ if gap != Gap::Open => return Ok(()),
            Ok(Err(error)) => match after(Place::Query, &error, true) {
                Recovery::Skip | Recovery::SkipOnce => pauses.next(),
                _ => None,
            },
            Err(_) => None,
        };
        let Some(pause) = pause else {
            call.set_incomplete(Incomplete::Pieces);
            return Ok(());
        };
        call.deadline.run(sleep(pause)).await?;
    }
}

/// Returns the result for a task that the peer no longer reports: an error with the cause. After an orderly end, the answer of
/// an agent that keeps no tasks is what it sent, marked as incomplete.
fn lost_task(
    call: &mut Call<'_>,
    lost: LostConnection,
    poll: LostConnection,
) -> Result<(), ToolError> {
    match (lost.error, poll.error) {
        // A revoked credential is the actual cause, and what the operator has to fix.
        (Some(_), Some(poll_error)) if poll_error.reason == Reason::AuthRequired => Err(poll_error),
        (Some(mut error), poll_error) => {
            let poll_message = poll_error.map(|error| error.message).unwrap_or_default();
            if poll_message != error.message {
                error.message =
                    format!("{}; polling the task failed: {poll_message}", error.message);
            }
            Err(error)
        }
        (None, Some(poll_error)) if call.collected.count() == 0 || !poll.unsupported => {
            Err(poll_error)
        }
        (None, _) => {
            call.set_incomplete(match lost.must_poll {
                true => Incomplete::NoQueries,
                false => Incomplete::StreamEnded,
            });
            Ok(())
        }
    }
}

fn nothing_to_resume() -> ToolError {
    ToolError::new(
        Reason::ConnectionCut,
        "the stream ended and named no task to follow",
    )
}

/// Polls the task, first `immediately` or after a pause, until it is terminal or interrupted. Each answer with a change
/// causes an update. An answer that cannot be read, and one whose cause may pass, is polled again if the peer has answered
/// before ([`recovery`](super::recovery)). With `may_be_over`, some answers without a change end the polls.
///
/// # Errors
/// The call has ended, or the answers exceed the limits.
async fn poll(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    task_id: &str,
    immediately: bool,
    may_be_over: bool,
) -> Result<ConnectionEnd, ToolError> {
    let mut pauses = call.tool.poll_intervals.polls().delays();
    let mut pause = if immediately { None } else { pauses.next() };
    let (mut failed, mut unchanged) = (0, 0);
    loop {
        let asked = Instant::now() + pause.unwrap_or_default();
        let request = async {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            call.get_task(peer, task_id).await
        };
        let answer = call.deadline.run(request).await.inspect_err(|_| {
            // A shorter wait says nothing of the agent.
            if asked.elapsed() > call.tool.poll_intervals.first_poll {
                call.set_query_error(Some("the agent did not answer in time".to_owned()));
            }
        });
        match answer? {
            Ok(task) => {
                failed = 0;
                call.set_query_error(None);
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
                let is_known = call.collected.count() > 0;
                let recovery = after(Place::Query, &error, is_known);
                failed += u32::from(!(is_known && error.kind.is_unreachable()));
                let is_repeated = match recovery {
                    Recovery::Skip => failed < MAX_FAILED_QUERIES,
                    Recovery::SkipOnce => failed < 2,
                    _ => false,
                };
                if !is_repeated {
                    return Ok(ConnectionEnd::Lost(LostConnection::from_error(error)));
                }
                call.set_query_error(Some(error.message));
            }
        }
        pause = pauses.next();
    }
}

#[cfg(test)]
mod tests;
