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
/// the stream brings nothing of the task, the task's state is polled. [`recovery`](super::recovery) says what happens
/// after an event that cannot be read.
///
/// # Errors
/// The call has ended, or an event is an error or too large.
pub(super) async fn read_stream(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    mut stream: Box<dyn EventStream>,
    first: Option<FirstEvent>,
) -> Result<ConnectionEnd, ToolError> {
    let mut connection = Connection::new(call, first);
    let mut expired = Ok(());
    loop {
        let step = match expired {
            Ok(()) => connection.next(call, peer, &mut *stream).await?,
            Err(error) => connection.at_deadline(call, error)?,
        };
        let event = match step {
            StreamStep::Event(event) => event,
            StreamStep::Ended(task) => {
                if let Some(task) = task {
                    call.collected.open_gap(Gap::Open);
                    call.add_snapshot(task, Source::Polled)?;
                    call.collected.set_whole();
                }
                return Ok(ConnectionEnd::Ended);
            }
            StreamStep::Unchanged => return Ok(connection.lost(None, true)),
        };
        let end = match event {
            Some(Ok((event, bytes))) => connection.on_event(call, peer, event, bytes)?,
            Some(Err(error)) => connection.on_error(call, error)?,
            None => Some(connection.on_close(call, stream.is_plain_response())?),
        };
        if let Some(end) = end {
            return Ok(end);
        }
        expired = call.deadline.check_expired();
    }
}

/// What one connection has brought so far.
struct Connection {
    /// Whether it is a subscription, and not the answer to a message.
    is_subscription: bool,
    /// What its first event may be, until that comes.
    first: Option<FirstEvent>,
    /// The task of its events. The answer to a message may begin another task, which its first event names.
    task_id: Option<String>,
    /// The last whole task with another id than the one that the message began.
    other_task: Option<(Event, usize)>,
    /// Whether an event of the task has come.
    has_event: bool,
    /// Whether an event has changed anything.
    progressed: bool,
    unreadable: Unreadable,
    silence: Silence,
}

impl Connection {
    fn new(call: &Call<'_>, first: Option<FirstEvent>) -> Self {
        let is_subscription = first.is_some();
        let followed = call.followed_task().filter(|_| is_subscription);
        Self {
            is_subscription,
            first,
            task_id: followed.map(str::to_owned),
            other_task: None,
            has_event: false,
            progressed: false,
            unreadable: Unreadable::default(),
            silence: Silence::new(),
        }
    }

    /// Waits for the next event within the time of the call.
    async fn next(
        &mut self,
        call: &mut Call<'_>,
        peer: &dyn Peer,
        stream: &mut dyn EventStream,
    ) -> Result<StreamStep, ToolError> {
        let deadline = call.deadline.clone();
        let next = next_event(call, peer, stream, &mut self.silence);
        let step = match self.is_subscription || self.has_event {
            true => deadline.run(next).await,
            // The event names the task that the message began.
            false => deadline.run_answer(next).await,
        };
        step.or_else(|error| self.at_deadline(call, error))
    }

    /// Returns the end of the connection if the time of the call is over, as `error` says, and the task has ended by then.
    fn at_deadline(&mut self, call: &Call<'_>, error: ToolError) -> Result<StreamStep, ToolError> {
        let task = self.silence.ended.take().map(|(task, _)| task);
        let collected = &call.collected;
        let is_whole = collected.is_terminal_or_interrupted() && collected.gap() == Gap::None;
        match error.reason == Reason::Timeout && (task.is_some() || is_whole) {
            true => Ok(StreamStep::Ended(task)),
            false => Err(error),
        }
    }

    /// Adds an event, unless it says nothing of the task. Returns the end of the connection if the event is the last.
    fn on_event(
        &mut self,
        call: &mut Call<'_>,
        peer: &dyn Peer,
        event: Event,
        bytes: usize,
    ) -> Result<Option<ConnectionEnd>, ToolError> {
        let task_id = self.task_id.as_deref();
        let foreign = task_id.and_then(|task_id| check_task(task_id, event.task_id()).err());
        let is_foreign = foreign.is_some();
        let is_progress = is_foreign && !self.is_subscription && goes_on(&event);
        if (is_foreign && !is_progress) || call.collected.contradicts_end(&event) {
            // A sub-task of an agent that forwards its events, or a state after the end, says nothing of the task.
            call.release_update();
            self.unreadable.first = self.unreadable.first.take().or(foreign);
            self.silence.has_events = true;
            if !self.is_subscription && is_foreign && matches!(event, Event::Task(_)) {
                self.other_task = Some((event, bytes));
            }
            return Ok(None);
        }
        if self.task_id.is_none() && is_of_task(&event) {
            self.task_id = event.task_id().map(str::to_owned);
        }
        let is_last = is_last(&event, peer);
        let is_unknown = matches!(event, Event::Unknown(_));
        self.unreadable.in_a_row = 0;
        self.add(call, event, bytes)?;
        if is_progress {
            call.collected.task_id.clone_from(&self.task_id);
        }
        self.has_event = true;
        match is_unknown {
            true => self.silence.has_events = true,
            false => self.silence = Silence::new(),
        }
        Ok(is_last.then_some(ConnectionEnd::Ended))
    }

    /// Adds an event, and notes whether it brings anything new. An event of an unknown kind brings nothing, and the one after
    /// it is the first.
    fn add(&mut self, call: &mut Call<'_>, event: Event, bytes: usize) -> Result<(), ToolError> {
        call.metrics.record_event(&event, bytes);
        match event {
            Event::Unknown(_) => return call.add_event(event, bytes, true),
            // It has what the unreadable events had.
            Event::Task(_) => call.set_query_error(None),
            _ => {}
        }
        self.progressed |= match (event, self.first.take()) {
            (Event::Task(task), Some(FirstEvent::Resumed)) => {
                call.add_snapshot(task, Source::Streamed)?
            }
            (Event::Task(task), Some(FirstEvent::Known(known))) if task == known => {
                call.add_snapshot(task, Source::Streamed)?
            }
            (event, _) => call.add_event(event, bytes, true).map(|()| true)?,
        };
        Ok(())
    }

    /// Skips an event that cannot be read, or returns the end of the connection after another error.
    fn on_error(
        &mut self,
        call: &mut Call<'_>,
        error: PeerError,
    ) -> Result<Option<ConnectionEnd>, ToolError> {
        call.release_update();
        let Some(mut error) = self.unreadable.add(call, error) else {
            self.silence.has_events = true;
            return Ok(None);
        };
        if call.collected.is_terminal_or_interrupted() {
            return Ok(Some(ConnectionEnd::Ended));
        }
        let place = match self.is_subscription && !self.has_event {
            true => Place::Subscription,
            false => Place::Event,
        };
        let is_known = call.followed_task().is_some();
        if is_known && error.kind == PeerErrorKind::AuthRequired {
            // The peer accepted the credential of the stream: the refusal may be that of a service behind it.
            error.kind = PeerErrorKind::Rpc;
        }
        match after(place, &error, is_known) {
            Recovery::Resubscribe => Ok(Some(self.lost(Some(cut_error(call, &error)), false))),
            Recovery::Skip | Recovery::Query if is_known => {
                Ok(Some(self.lost(Some(error.into()), true)))
            }
            _ => Err(error.into()),
        }
    }

    /// Interprets the end of the body. A plain response leaves no stream to resubscribe to.
    fn on_close(
        &mut self,
        call: &mut Call<'_>,
        is_plain_response: bool,
    ) -> Result<ConnectionEnd, ToolError> {
        call.release_update();
        // The agent's last word may name the task anew.
        if let Some((event, bytes)) = self.other_task.take()
            && !call.collected.is_terminal_or_interrupted()
        {
            self.add(call, event, bytes)?;
        }
        if call.collected.is_terminal_or_interrupted() || call.collected.kind == Some(Kind::Message)
        {
            return Ok(ConnectionEnd::Ended);
        }
        let is_empty = call.collected.count() == 0;
        let error = match self.unreadable.first.take().filter(|_| is_empty) {
            Some(error) => Some(error.into()),
            None => (is_empty && !is_plain_response).then(|| {
                let message = "the stream ended before any event came";
                ToolError::new(Reason::ConnectionCut, message)
            }),
        };
        Ok(self.lost(error, is_plain_response))
    }

    fn lost(&self, error: Option<ToolError>, must_poll: bool) -> ConnectionEnd {
        ConnectionEnd::Lost(LostConnection {
            error,
            progressed: self.progressed,
            must_poll,
            ..LostConnection::default()
        })
    }
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
        let message = format!("an event of the stream cannot be read: {}", error.message);
        call.set_query_error(Some(message));
        self.in_a_row += 1;
        if self.in_a_row == MAX_UNREADABLE_EVENTS {
            return Some(error);
        }
        self.first.get_or_insert(error);
        None
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

fn cut_error(call: &Call<'_>, error: &PeerError) -> ToolError {
    // The gateway's own error takes precedence.
    if call.collected.count() == 0 || error.kind != PeerErrorKind::Net(NetFault::Cut) {
        return error.clone().into();
    }
    ToolError::new(Reason::StreamCut, format!("the stream broke off: {error}"))
}
