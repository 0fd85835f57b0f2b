//! Listening to one connection until the task is settled or the connection is over.

use tokio::select;
use tokio::time::timeout;

use a2a::{Event, Task};
use peer::{EventStream, NextEvent, Peer, PeerError, PeerErrorKind};

use super::artifacts::Gap;
use super::call::Call;
use super::collected::Kind;
use super::error::{Reason, ToolError};

/// How often the time between two questions about a silent stream doubles at most.
const DOUBLINGS: u32 = 3;

/// How a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// There is nothing more to hear: the task is settled, or the peer answered with messages alone.
    Settled,
    /// The task goes on without it.
    Lost(LostConnection),
}

/// How a connection was lost.
#[derive(Debug)]
pub(super) struct LostConnection {
    /// What to say of it where nothing more can be heard; `None` where it was closed in good order.
    pub cut: Option<ToolError>,
    /// It brought something that was not known.
    pub news: bool,
    /// The peer had rather not be listened to.
    pub refused: bool,
}

impl LostConnection {
    /// A connection that `error` refused, or an answer that the peer refused.
    pub(super) fn refused(error: PeerError) -> Self {
        Self {
            cut: Some(error.into()),
            news: false,
            refused: true,
        }
    }
}

/// What a connection is to begin with.
#[derive(Debug)]
pub(super) enum Begins {
    /// With whatever the peer has to say of a task of which nothing is known.
    Anew,
    /// With the task as this answer showed it; it is not told twice.
    After(Task),
    /// Somewhere in what is known; of a snapshot only what is new is told.
    Again,
}

/// Listens to `stream`, which `begins` so where it was subscribed to, and with the answer to a message elsewhere. Whether it is over is told by the task's state, or, where the peer answered with messages alone,
/// by the end of the body. A stream that is silent for long is asked about, and listened to further.
///
/// # Errors
/// When the call is over, or the peer says something of the wrong shape, too much, or that it failed.
pub(super) async fn listen(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    mut stream: Box<dyn EventStream>,
    mut begins: Option<Begins>,
) -> Result<ConnectionEnd, ToolError> {
    let subscribed = begins.is_some();
    let mut heard = false;
    let mut news = false;
    loop {
        let next = next(call, peer, &mut *stream);
        let event = match call.deadline.run(next).await? {
            Awaited::Event(event) => event,
            Awaited::Settled(task) => {
                if let Some(task) = task {
                    call.said.open_gap(Gap::Open);
                    call.hear_asked(task)?;
                }
                return Ok(ConnectionEnd::Settled);
            }
        };
        match event {
            Some(Ok((event, bytes))) => {
                call.metrics.record_event(&event, bytes);
                let last = is_last(&event);
                news |= hear(call, event, bytes, begins.take())?;
                heard = true;
                if last {
                    return Ok(ConnectionEnd::Settled);
                }
                call.deadline.in_time()?;
            }
            Some(Err(error)) => return broken(call, error, news, subscribed && !heard),
            None => return closed(call, stream.is_plain_response(), news),
        }
    }
}

/// Takes in an event, and tells whether it brought anything.
fn hear(
    call: &mut Call<'_>,
    event: Event,
    bytes: usize,
    begins: Option<Begins>,
) -> Result<bool, ToolError> {
    match (event, begins) {
        (Event::Task(task), Some(Begins::Again)) => call.hear_again(task, bytes),
        (Event::Task(task), Some(Begins::After(known))) if task == known => {
            call.hear_again(task, bytes)
        }
        (event, _) => call.hear(event, bytes, true).map(|()| true),
    }
}

/// What waiting for a stream led to.
enum Awaited {
    /// The stream's next event, or its end.
    Event(NextEvent),
    /// The task is settled, as was heard or as this snapshot says, and the stream is silent.
    Settled(Option<Task>),
}

/// Waits for the next step. When the task is settled the wait is short. When the stream is silent the peer is asked how
/// the task stands: it may have forgotten this listener.
async fn next(call: &Call<'_>, peer: &dyn Peer, stream: &mut dyn EventStream) -> Awaited {
    let pace = call.pace();
    let mut step = stream.next();
    if call.said.is_terminal_or_interrupted() {
        let step = timeout(pace.settle, step).await;
        return step.map_or(Awaited::Settled(None), Awaited::Event);
    }
    let mut idle = pace.idle;
    loop {
        if let Ok(step) = timeout(idle, &mut step).await {
            return Awaited::Event(step);
        }
        let settled = select! {
            biased;
            step = &mut step => return Awaited::Event(step),
            settled = settled(call, peer) => settled,
        };
        if let Some(task) = settled {
            // The stream may be about to say so itself, and in more words.
            let step = timeout(pace.settle, &mut step).await;
            return step.map_or(Awaited::Settled(Some(task)), Awaited::Event);
        }
        idle = (idle * 2).min(pace.idle * (1 << DOUBLINGS));
    }
}

/// The task, if it can be asked for and is settled.
async fn settled(call: &Call<'_>, peer: &dyn Peer) -> Option<Task> {
    let task_id = call.followed_task()?;
    let answer = timeout(call.pace().idle, call.metrics.get_task(peer, task_id, None)).await;
    let task = answer.ok()?.ok()?;
    task.state().is_terminal_or_interrupted().then_some(task)
}

/// The peer marks the event as its last, and the state bears it out.
fn is_last(event: &Event) -> bool {
    match event {
        Event::Status(update) => update.is_final() && update.state().is_terminal_or_interrupted(),
        _ => false,
    }
}

/// What the end of a body means, given what was said before. A plain response leaves no stream to subscribe to again.
fn closed(call: &Call<'_>, plain_response: bool, news: bool) -> Result<ConnectionEnd, ToolError> {
    if call.said.is_terminal_or_interrupted() || call.said.kind == Some(Kind::Message) {
        return Ok(ConnectionEnd::Settled);
    }
    let unheard = !plain_response && call.said.count() == 0;
    let cut = unheard.then(|| {
        let message = "the stream ended before any event came";
        ToolError::new(Reason::ConnectionCut, message)
    });
    let refused = plain_response;
    Ok(ConnectionEnd::Lost(LostConnection { cut, news, refused }))
}

/// What a broken stream means, given what was said before: `at_once` where it brought no event.
fn broken(
    call: &Call<'_>,
    error: PeerError,
    news: bool,
    at_once: bool,
) -> Result<ConnectionEnd, ToolError> {
    let (cut, refused) = match error {
        _ if call.said.is_terminal_or_interrupted() => return Ok(ConnectionEnd::Settled),
        error if error.kind.is_cut() => (cut(call, &error), false),
        error if at_once => (error.into(), true),
        error => return Err(error.into()),
    };
    let cut = Some(cut);
    Ok(ConnectionEnd::Lost(LostConnection { cut, news, refused }))
}

fn cut(call: &Call<'_>, error: &PeerError) -> ToolError {
    // A gateway's own word for it is kept.
    if call.said.count() == 0 || error.kind != PeerErrorKind::Cut {
        return error.clone().into();
    }
    ToolError::new(Reason::StreamCut, format!("the stream broke off: {error}"))
}
