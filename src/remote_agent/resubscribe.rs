//! Following a task whatever becomes of the connections: subscribe again, else poll.
//!
//! A cut is not an end. Only a terminal or an interrupted state, the deadline or the caller ends a call that follows a
//! task. Nothing here sends a message: the one that began it all is never repeated.

use tokio::time::{Instant, sleep_until, timeout};

use a2a::Task;
use peer::{EventStream, Peer, PeerError, PeerErrorKind};

use super::artifacts::Gap;
use super::call::Call;
use super::error::{Reason, ToolError};
use super::follow::{Begins, ConnectionEnd, LostConnection, listen};
use super::poll::poll;

/// After so many subscriptions in a row that brought nothing new the peer is polled.
const FRUITLESS: usize = 2;

/// How following begins.
pub(super) enum Start {
    /// With the stream that a message was sent on.
    Stream(Box<dyn EventStream>),
    /// With a task that is known from the answer to a message.
    Answer(Task),
    /// With a task that is known by its id alone.
    Task,
}

/// Follows until there is nothing more to hear. Whatever was heard stays: at the deadline it is the result.
///
/// # Errors
/// Why no more could be heard, with everything that was collected.
pub(super) async fn follow(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    start: Start,
) -> Result<(), ToolError> {
    match to_the_end(call, peer, start).await {
        Err(error) if error.reason == Reason::Timeout && call.may_wait() => {
            call.expired();
            Ok(())
        }
        Err(error) => Err(call.interrupted(error)),
        Ok(()) => Ok(()),
    }
}

async fn to_the_end(call: &mut Call<'_>, peer: &dyn Peer, start: Start) -> Result<(), ToolError> {
    let streams = call.streaming() != Some(false);
    let mut lost = match start {
        Start::Stream(stream) => match listen(call, peer, stream, None).await? {
            ConnectionEnd::Settled => return Ok(()),
            ConnectionEnd::Lost(lost) => {
                call.said.open_gap(Gap::Open);
                lost
            }
        },
        start => {
            // What was said before is known from a snapshot alone.
            let (begins, fresh, gap) = match start {
                Start::Answer(task) => (Begins::After(task), true, Gap::Hardly),
                _ => (Begins::Anew, false, Gap::Open),
            };
            call.said.open_gap(gap);
            if streams {
                match subscribed(call, peer, begins).await? {
                    ConnectionEnd::Settled => return whole(call, peer).await,
                    ConnectionEnd::Lost(lost) => lost,
                }
            } else {
                LostConnection {
                    cut: None,
                    news: fresh,
                    refused: true,
                }
            }
        }
    };
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Err(lost.cut.unwrap_or_else(nothing_to_resume));
    };
    let mut fruitless = 0;
    let mut not_before: Option<Instant> = None;
    while !lost.refused && fruitless < FRUITLESS {
        if let Some(then) = not_before {
            call.deadline.run(sleep_until(then)).await?;
        }
        not_before = Some(Instant::now() + call.pace().first_poll);
        match subscribed(call, peer, Begins::Again).await? {
            ConnectionEnd::Settled => return whole(call, peer).await,
            ConnectionEnd::Lost(again) => {
                fruitless = if again.news { 0 } else { fruitless + 1 };
                // How the first connection was lost says more than why the next ones failed.
                lost = LostConnection {
                    cut: if again.news { again.cut } else { lost.cut },
                    ..again
                };
            }
        }
    }
    match poll(call, peer, &task_id, !lost.news).await? {
        ConnectionEnd::Settled => Ok(()),
        ConnectionEnd::Lost(refusal) => refused_all(call, lost, refusal),
    }
}

/// Subscribes to the task and listens.
async fn subscribed(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    begins: Begins,
) -> Result<ConnectionEnd, ToolError> {
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Err(nothing_to_resume());
    };
    // A peer that does not even begin to answer is as silent as a stream without events.
    let idle = call.pace().idle;
    let answer = timeout(idle, call.metrics.resubscribe(peer, &task_id));
    let (why, refused) = match call.deadline.run(answer).await? {
        Ok(Ok(stream)) => {
            let ended = listen(call, peer, stream, Some(begins)).await?;
            if matches!(ended, ConnectionEnd::Lost(_)) {
                call.said.open_gap(Gap::Open);
            }
            return Ok(ended);
        }
        Ok(Err(refusal)) if call.said.count() == 0 && is_hopeless(&refusal) => {
            return Err(refusal.into());
        }
        Ok(Err(refusal)) => {
            let away = refusal.kind.is_away();
            (refusal, !away)
        }
        Err(_) => {
            let message = "the peer does not answer who wants to listen to the task";
            // Waiting as long once more would use up the time in which a poll may tell how the task stands.
            (PeerError::new(PeerErrorKind::Cut, message), true)
        }
    };
    call.said.open_gap(Gap::Open);
    Ok(ConnectionEnd::Lost(LostConnection {
        refused,
        cut: Some(why.into()),
        news: false,
    }))
}

/// Where pieces may have been missed and no snapshot came since, the settled task is asked for: it shows them.
async fn whole(call: &mut Call<'_>, peer: &dyn Peer) -> Result<(), ToolError> {
    let Some(task_id) = call.followed_task().map(str::to_owned) else {
        return Ok(());
    };
    let gap = call.said.gap();
    if gap == Gap::No {
        return Ok(());
    }
    let answer = call.metrics.get_task(peer, &task_id, None);
    let answer = timeout(call.pace().idle, answer);
    match call.deadline.run(answer).await? {
        Ok(Ok(task)) => return call.hear_asked(task),
        Ok(Err(_)) | Err(_) if gap == Gap::Open => call.incomplete(),
        Ok(Err(_)) | Err(_) => {}
    }
    Ok(())
}

/// The peer tells no more of a task that goes on. What came before a clean end is a result, though not a whole one.
fn refused_all(
    call: &mut Call<'_>,
    lost: LostConnection,
    refusal: LostConnection,
) -> Result<(), ToolError> {
    match (lost.cut, refusal.cut) {
        // A credential that was revoked on the way is the reason, and what has to be mended.
        (Some(_), Some(refusal)) if refusal.reason == Reason::AuthRequired => Err(refusal),
        (Some(mut cut), refusal) => {
            let refusal = refusal.map(|error| error.message).unwrap_or_default();
            cut.message = format!("{}; asked how the task stands: {refusal}", cut.message);
            Err(cut)
        }
        (None, Some(refusal)) if call.said.count() == 0 => Err(refusal),
        (None, _) => {
            call.incomplete();
            Ok(())
        }
    }
}

/// Asking for the task would fail as subscribing did.
fn is_hopeless(refusal: &PeerError) -> bool {
    let may_be_better = matches!(
        refusal.kind,
        PeerErrorKind::Rpc | PeerErrorKind::HttpStatus | PeerErrorKind::InvalidResponse
    );
    !may_be_better && !refusal.kind.is_cut()
}

fn nothing_to_resume() -> ToolError {
    ToolError::new(
        Reason::ConnectionCut,
        "the stream ended and named no task to follow",
    )
}

#[cfg(test)]
mod tests;
