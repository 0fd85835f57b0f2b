//! Reads one connection until the task ends or is interrupted, or the connection closes.

use tokio::select;
use tokio::time::{Instant, timeout, timeout_at};

use a2a::{Event, Task, Version};
use egress::NetFault;
use peer::{EventStream, NextEvent, Peer, PeerError, PeerErrorKind};

use super::artifacts::{Gap, Source};
use super::call::{Call, check_task};
use super::collected::Kind;
use super::error::{Reason, ToolError};
use super::recovery::{
    MAX_UNCHANGED, MAX_UNREADABLE_EVENTS, Place, Recovery, after, is_unsupported,
};

/// The end of a connection.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// No more events will come: the task is terminal or interrupted, or the peer answered only with messages.
    Ended,
    /// The task continues without the connection.
    Lost(LostConnection),
}

/// The loss of a connection.
#[derive(Debug, Default)]
pub(super) struct LostConnection {
    /// The error where the task cannot be followed further; `None` for an orderly close.
    pub error: Option<ToolError>,
    /// Whether an event of the connection changed anything.
    pub progressed: bool,
    /// Whether another subscription would fail, so that only polling is left.
    pub must_poll: bool,
    /// Whether the agent says that it keeps no task to query.
    pub unsupported: bool,
}

impl LostConnection {
    /// Converts the error of a refused connection or answer.
    pub(super) fn from_error(error: PeerError) -> Self {
        Self {
            must_poll: true,
            unsupported: is_unsupported(&error),
            error: Some(error.into()),
            ..Self::default()
        }
    }
}

/// The first event of a connection.
#[derive(Debug)]
pub(super) enum FirstEvent {
    /// The first event of the task: the call knows nothing of it yet.
    New,
    /// After an answer that held this task: an equal snapshot causes no second update.
    Known(Task),
    /// After a lost connection: a snapshot causes an update only where it differs from what the call has.
    Resumed,
}

/// Reads `stream` to its end. `first` is `Some` for a subscription and `None` for the answer to a message. The task's
/// state decides whether the stream is over, or the end of the body if the peer answered only with messages. While
/// the stream brings nothing of the task, the task's state is polled. [`recovery`](super::recovery) says what happens after an event that
/// cannot be read.
///
/// # Errors
/// The call has ended, or an event is an error or too large.
pub(super) async fn read_stream(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    mut stream: Box<dyn EventStream>,
    mut first: Option<FirstEvent>,
) -> Result<ConnectionEnd, ToolError> {
    let subscribed = first.is_some();
    // The answer to a message may begin another task, which its first event names.
    let mut task_id = match subscribed {
        true => call.followed_task().map(str::to_owned),
        false => None,
    };
    let mut received = false;
    let mut progressed = false;
    let mut unreadable = Unreadable::default();
    // The last whole task with another id than the one that the message began.
    let mut other_task = None;
    let mut silence = Silence::new();
    let deadline = call.deadline.clone();
    loop {
        let next = next_event(call, peer, &mut *stream, &mut silence);
        let step = match subscribed || received {
            true => deadline.run(next).await?,
            // The event names the task that the message began.
            false => deadline.run_answer(next).await?,
        };
        let event = match step {
            StreamStep::Event(event) => event,
            StreamStep::Ended(task) => {
                if let Some(task) = task {
                    call.collected.open_gap(Gap::Open);
                    call.add_snapshot(task, Source::Polled)?;
                }
                return Ok(ConnectionEnd::Ended);
            }
            StreamStep::Unchanged => {
                return Ok(ConnectionEnd::Lost(LostConnection {
                    progressed,
                    must_poll: true,
                    ..LostConnection::default()
                }));
            }
        };
        match event {
            Some(Ok((event, bytes))) => {
                let foreign = check_event(task_id.as_deref(), &event).err();
                let is_foreign = foreign.is_some();
                let is_progress = is_foreign && !subscribed && goes_on(&event);
                if (is_foreign && !is_progress) || call.collected.contradicts_end(&event) {
                    // A sub-task of an agent that forwards its events, or a state after the end, says nothing of the task.
                    call.release_update();
                    unreadable.first = unreadable.first.or(foreign);
                    silence.has_events = true;
                    if !subscribed && is_foreign && matches!(event, Event::Task(_)) {
                        other_task = Some((event, bytes));
                    }
                    call.deadline.check_expired()?;
                    continue;
                }
                call.metrics.record_event(&event, bytes);
                if task_id.is_none() && is_of_task(&event) {
                    task_id = event.task_id().map(str::to_owned);
                }
                let last = is_last(&event, peer);
                let is_unknown = matches!(event, Event::Unknown(_));
                unreadable.in_a_row = 0;
                progressed |= add_event(call, event, bytes, &mut first)?;
                if is_progress {
                    call.collected.task_id.clone_from(&task_id);
                }
                received = true;
                if last {
                    return Ok(ConnectionEnd::Ended);
                }
                match is_unknown {
                    true => silence.has_events = true,
                    false => silence = Silence::new(),
                }
                call.deadline.check_expired()?;
            }
            Some(Err(error)) => {
                call.release_update();
                let place = match subscribed && !received {
                    true => Place::Subscription,
                    false => Place::Event,
                };
                let Some(error) = unreadable.add(call, error) else {
                    silence.has_events = true;
                    call.deadline.check_expired()?;
                    continue;
                };
                return on_error(call, error, progressed, place);
            }
            None => {
                call.release_update();
                // The agent's last word may name the task anew.
                if let Some((event, bytes)) = other_task
                    && !call.collected.is_terminal_or_interrupted()
                {
                    call.metrics.record_event(&event, bytes);
                    progressed |= add_event(call, event, bytes, &mut first)?;
                }
                return on_close(
                    call,
                    stream.is_plain_response(),
                    progressed,
                    unreadable.first,
                );
            }
        }
    }
}

/// Refuses an event of another task than the known one: `task_id`.
fn check_event(task_id: Option<&str>, event: &Event) -> Result<(), PeerError> {
    task_id.map_or(Ok(()), |task_id| check_task(task_id, event.task_id()))
}

/// Returns whether an event says that its task goes on.
fn goes_on(event: &Event) -> bool {
    matches!(event, Event::Status(update) if !update.state().is_terminal_or_interrupted())
}

/// Returns whether the event is of a task, and its id therefore that of the task that a message began.
fn is_of_task(event: &Event) -> bool {
    matches!(
        event,
        Event::Task(_) | Event::Status(_) | Event::Artifact(_)
    )
}

/// The unreadable events of a connection.
#[derive(Default)]
struct Unreadable {
    first: Option<PeerError>,
    in_a_row: usize,
}

impl Unreadable {
    /// Skips an unreadable event, after which pieces of artifacts may be missing. Returns an error that cannot be skipped.
    fn add(&mut self, call: &mut Call<'_>, error: PeerError) -> Option<PeerError> {
        if after(Place::Event, &error, true) != Recovery::Skip
            || call.collected.is_terminal_or_interrupted()
        {
            return Some(error);
        }
        call.collected.open_gap(Gap::Open);
        call.follow_requested_task();
        self.in_a_row += 1;
        if self.in_a_row == MAX_UNREADABLE_EVENTS {
            return Some(error);
        }
        self.first.get_or_insert(error);
        None
    }
}

/// Adds an event, and returns whether it brought anything new. An event of an unknown kind brings nothing, and the one
/// after it is the `first`.
fn add_event(
    call: &mut Call<'_>,
    event: Event,
    bytes: usize,
    first: &mut Option<FirstEvent>,
) -> Result<bool, ToolError> {
    if matches!(event, Event::Unknown(_)) {
        return call.add_event(event, bytes, true).map(|()| false);
    }
    match (event, first.take()) {
        (Event::Task(task), Some(FirstEvent::Resumed)) => call.add_snapshot(task, Source::Streamed),
        (Event::Task(task), Some(FirstEvent::Known(known))) if task == known => {
            call.add_snapshot(task, Source::Streamed)
        }
        (event, _) => call.add_event(event, bytes, true).map(|()| true),
    }
}

/// The result of waiting for a stream.
enum StreamStep {
    /// The stream's next event, or its end.
    Event(NextEvent),
    /// The task is terminal or interrupted, by an event or by this snapshot, or a message is the answer, and the stream
    /// is silent.
    Ended(Option<Task>),
    /// The stream is silent, and the task stays in a state that A2A does not define.
    Unchanged,
}

/// How many times as long as `final_wait` the silence after a message may be. A message is the only answer of its stream
/// (A2A 1.0 §3.1.2), but some agents send several.
const MESSAGE_WAITS: u32 = 8;

/// The time in which a stream brings nothing of the task. Events of an unknown kind, those of other tasks and unreadable ones
/// do not end it.
struct Silence {
    /// The last event of the task, or the last poll.
    since: Instant,
    polls: u32,
    /// The polls that found a state that A2A does not define.
    foreign: u32,
    /// Whether events have come that do not end the silence.
    has_events: bool,
    /// The ended task that a poll found, and until when the stream may still report its state.
    ended: Option<(Task, Instant)>,
}

impl Silence {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            polls: 0,
            foreign: 0,
            has_events: false,
            ended: None,
        }
    }

    /// Returns whether `end` has passed while events came that do not end the silence. They may always be ready, so that no
    /// timeout ever fires.
    fn floods_until(&self, end: Instant) -> bool {
        self.has_events && Instant::now() >= end
    }
}

/// Waits for the next event. Once the task has ended, or a message without a task has come, the wait is short. In a
/// `silence`, the task's state is polled, because the peer may have lost the subscription. An update that is due meanwhile
/// is sent.
async fn next_event(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    stream: &mut dyn EventStream,
    silence: &mut Silence,
) -> StreamStep {
    let poll_intervals = &call.tool.poll_intervals;
    let mut step = stream.next();
    if call.collected.is_terminal_or_interrupted() {
        let end = silence.since + poll_intervals.final_wait;
        if silence.floods_until(end) {
            return StreamStep::Ended(None);
        }
        let step = timeout_at(end, step).await;
        return step.map_or(StreamStep::Ended(None), StreamStep::Event);
    }
    if let Some(due) = call.update_due() {
        if let Ok(step) = timeout_at(due, &mut step).await {
            return StreamStep::Event(step);
        }
        call.release_update();
    }
    let is_message = call.collected.kind == Some(Kind::Message);
    loop {
        if let Some((_, until)) = &silence.ended {
            // The stream may be about to report the state itself, with more detail.
            if !silence.floods_until(*until)
                && let Ok(event) = timeout_at(*until, &mut step).await
            {
                return StreamStep::Event(event);
            }
            return StreamStep::Ended(silence.ended.take().map(|(task, _)| task));
        }
        let wait = match is_message && silence.polls == 0 {
            true => poll_intervals.final_wait * MESSAGE_WAITS,
            false => poll_intervals.silences().delay(silence.polls),
        };
        let end = silence.since + wait;
        if !silence.floods_until(end)
            && let Ok(step) = timeout_at(end, &mut step).await
        {
            return StreamStep::Event(step);
        }
        let task = match silence.has_events {
            // The next of these events would end the query.
            true => query_silent(call, peer).await,
            false => select! {
                biased;
                step = &mut step => return StreamStep::Event(step),
                task = query_silent(call, peer) => task,
            },
        };
        if is_message && task.is_none() {
            return StreamStep::Ended(None);
        }
        silence.foreign += u32::from(task.as_ref().is_some_and(|task| task.state().is_foreign()));
        if silence.foreign == MAX_UNCHANGED {
            return StreamStep::Unchanged;
        }
        silence.since = Instant::now();
        silence.polls += 1;
        silence.ended = task
            .filter(|task| task.state().is_terminal_or_interrupted())
            .map(|task| (task, silence.since + poll_intervals.final_wait));
    }
}

/// Queries the task of a silent stream. An answer that cannot be read changes nothing, because the stream is open.
async fn query_silent(call: &Call<'_>, peer: &dyn Peer) -> Option<Task> {
    let task_id = call.followed_task()?;
    let answer = timeout(call.tool.poll_intervals.idle, call.get_task(peer, task_id));
    answer.await.ok()?.ok()
}

/// Returns whether the peer marks the event as its last, and its state agrees. Events of A2A 1.0 have no such mark: the
/// reader sets it by the state.
fn is_last(event: &Event, peer: &dyn Peer) -> bool {
    match event {
        Event::Status(update) => {
            update.is_final()
                && update.state().is_terminal_or_interrupted()
                && peer.protocol().version != Version::V1_0.as_str()
        }
        _ => false,
    }
}

/// Interprets the end of a body. A plain response leaves no stream to resubscribe to.
fn on_close(
    call: &Call<'_>,
    plain_response: bool,
    progressed: bool,
    unreadable: Option<PeerError>,
) -> Result<ConnectionEnd, ToolError> {
    if call.collected.is_terminal_or_interrupted() || call.collected.kind == Some(Kind::Message) {
        return Ok(ConnectionEnd::Ended);
    }
    let no_event = !plain_response && call.collected.count() == 0;
    let error = match unreadable {
        Some(error) if call.collected.count() == 0 => Some(error.into()),
        _ => no_event.then(|| {
            let message = "the stream ended before any event came";
            ToolError::new(Reason::ConnectionCut, message)
        }),
    };
    let must_poll = plain_response;
    Ok(ConnectionEnd::Lost(LostConnection {
        error,
        progressed,
        must_poll,
        ..LostConnection::default()
    }))
}

/// Interprets the error of a stream.
fn on_error(
    call: &Call<'_>,
    error: PeerError,
    progressed: bool,
    place: Place,
) -> Result<ConnectionEnd, ToolError> {
    if call.collected.is_terminal_or_interrupted() {
        return Ok(ConnectionEnd::Ended);
    }
    let is_known = call.followed_task().is_some();
    let (error, must_poll) = match after(place, &error, is_known) {
        Recovery::Resubscribe => (cut_error(call, &error), false),
        Recovery::Skip | Recovery::Query if is_known => (error.into(), true),
        _ => return Err(error.into()),
    };
    Ok(ConnectionEnd::Lost(LostConnection {
        error: Some(error),
        progressed,
        must_poll,
        ..LostConnection::default()
    }))
}

fn cut_error(call: &Call<'_>, error: &PeerError) -> ToolError {
    // The gateway's own error takes precedence.
    if call.collected.count() == 0 || error.kind != PeerErrorKind::Net(NetFault::Cut) {
        return error.clone().into();
    }
    ToolError::new(Reason::StreamCut, format!("the stream broke off: {error}"))
}
