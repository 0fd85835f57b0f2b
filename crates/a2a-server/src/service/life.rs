//! The life of a task while it is worked on: from the message to its end, or to a question for the client.
//!
//! One background task owns the record and the run. What the executor reports is kept by the store before anybody hears of
//! it, and what is kept first holds: a canceled task stays canceled whatever the run says later.

use std::sync::Arc;
use std::time::Duration;

use a2a::{Message, Part, Role, TaskState};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::core::{Core, refused};
use super::live::{End, Live};
use super::running::Running;
use super::size::bytes;
use super::take::DELEGATION;
use super::weight::WeightPermit;
use super::words;
use crate::executor::{Job, Outcome, Report, Reports};
use crate::record::{Change, Record};
use crate::refusal::{A2aError, ErrorReason};
use crate::store::{StoreError, Turn, Waiting};

mod bound;
mod keep;

pub(super) use keep::Lost;

/// How long nothing may happen before a client is shown the task and told that it is being worked on. Within this time an
/// agent can still answer with a message in place of a task.
pub(super) const QUIET: Duration = Duration::from_millis(200);

/// Reports that wait to be kept.
const REPORTS: usize = 16;

/// Starts a run, or takes up one that goes on already.
pub(super) type Start =
    Box<dyn FnOnce(Reports, CancellationToken) -> BoxFuture<'static, Outcome> + Send>;

/// What is run once the task's turn has come.
pub(super) enum RunRequest {
    /// The newest message of the client. The delegation came with its request.
    New {
        /// Where the message stands in a row of delegations.
        delegation: Option<serde_json::Value>,
    },
    /// The run of that name, which an earlier server began.
    Reattach(String),
}

/// A task that waits for its turn gives its body back to the store, if that has so many bytes.
const UNLOAD_BYTES: usize = 4096;

/// A task that is worked on.
pub(super) struct Life {
    pub(super) core: Arc<Core>,
    pub(super) live: Arc<Live>,
    pub(super) record: Record,
    /// The executor has reported something that a client is shown.
    pub(super) reported: bool,
    /// How many bytes its artifacts take.
    size: usize,
    /// What the store did not take in the end, though it was asked again and again.
    unkept: Option<Change>,
    /// The place of its message in memory.
    pub(super) weight: Option<WeightPermit>,
    /// The record lacks its body: the task waits for its turn, or the run has its message.
    unloaded: bool,
    /// The task has been with its client before.
    continued: bool,
}

/// How a run ends.
enum Ending {
    Outcome(Outcome),
    Canceled,
    TimedOut,
    /// It said more than a task may hold.
    TooLarge,
    /// Its client has no room left for what it would say.
    NoRoom,
    /// The server is being stopped.
    Cut,
    /// Not by this server's doing.
    Lost(Lost),
}

impl From<Lost> for Ending {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// The right to run: the head of the context's queue, and one of the runs there may be.
struct Leave {
    _turn: Turn,
    _slot: OwnedSemaphorePermit,
}

impl Life {
    /// The work on a task, as far as it has come.
    pub(super) fn new(core: Arc<Core>, live: Arc<Live>, record: Record) -> Self {
        let artifacts = record.task.artifacts.iter().flatten();
        let size = artifacts.map(bytes).sum();
        Self {
            core,
            live,
            record,
            reported: false,
            size,
            unkept: None,
            weight: None,
            unloaded: false,
            continued: false,
        }
    }

    /// Waits for the task's turn, works on it, and writes how that ended.
    pub(super) async fn run(mut self, waiting: Waiting, request: RunRequest) {
        let mut held = None;
        let leave = self.leave(waiting).await;
        let leave = self.reload().await.map_err(Ending::Lost).and(leave);
        let ending = match leave {
            Ok(leave) => {
                let start = self.start(request);
                let (reports, reported) = mpsc::channel(REPORTS);
                let running = Running::start(self.core.metrics.clone(), reports, start);
                let (ending, running) = self.work(running, reported).await;
                held = Some((leave, running));
                ending
            }
            Err(ending) => ending,
        };
        let end = self.end(ending).await;
        // Before it is over for those who wait for that, so that they never find it here again.
        self.core.lives.remove(&self.record.task.id, &self.live);
        self.live.done(end);
        // The next message of the context waits until this run has really stopped.
        if let Some((leave, running)) = held {
            if let Some(running) = running {
                running
                    .stop(&self.core.dropping, &self.record.task.id)
                    .await;
            }
            drop(leave);
        }
        if self.unkept.is_some() {
            self.keep_at_last().await;
        }
    }

    async fn leave(&mut self, waiting: Waiting) -> Result<Leave, Ending> {
        let slots = self.core.slots.clone();
        let leave = async move {
            let turn = waiting.await?;
            let slot = slots
                .acquire_owned()
                .await
                .map_err(|_| StoreError::Failed("there are no runs any more".to_owned()))?;
            Ok(Leave {
                _turn: turn,
                _slot: slot,
            })
        };
        tokio::pin!(leave);
        let quiet = sleep(QUIET);
        tokio::pin!(quiet);
        loop {
            tokio::select! {
                biased;
                () = self.live.canceled.cancelled() => return Err(Ending::Canceled),
                () = self.core.closing.cancelled() => return Err(Ending::Cut),
                leave = &mut leave => {
                    let leave = leave.map_err(|error: StoreError| {
                        Ending::Lost(Lost::Store(refused(error, &self.record.task.id)))
                    })?;
                    return match self.core.room(&self.record.owner, 0, true).await {
                        Err(refusal) if refusal.reason == ErrorReason::ResourceExhausted => {
                            Err(Ending::NoRoom)
                        }
                        // A store that does not answer now may when there is something to keep.
                        _ => Ok(leave),
                    };
                }
                () = &mut quiet, if !quiet.is_elapsed() => {
                    self.live.open();
                    self.unload();
                }
            }
        }
    }

    /// Drops what a record of some size holds until its turn has come: many may wait, and few run.
    fn unload(&mut self) {
        if bytes(&self.record.task) >= UNLOAD_BYTES {
            let task = &mut self.record.task;
            (task.history, task.artifacts, task.metadata) = (None, None, None);
            self.unloaded = true;
            self.weight = None;
        }
    }

    async fn reload(&mut self) -> Result<(), Lost> {
        if !std::mem::take(&mut self.unloaded) {
            return Ok(());
        }
        let id = &self.record.task.id;
        match self.core.store.load(id).await {
            Ok(Some(record)) if record.revision == self.record.revision => {
                self.record = record;
                Ok(())
            }
            Ok(_) => Err(Lost::Elsewhere),
            Err(error) => Err(Lost::Store(refused(error, id))),
        }
    }

    /// What starts the run. A large message goes to the run, and is loaded again when that has ended.
    fn start(&mut self, request: RunRequest) -> Start {
        let executor = self.core.executor.clone();
        let cut = || Outcome::Failed {
            reason: words::INTERRUPTED,
            text: words::CUT.to_owned(),
        };
        let history = self.record.task.history.take().unwrap_or_default();
        self.continued = history.len() > 1;
        let asked = |message: &Message| message.role == Role::User;
        let message = if bytes(&history) >= UNLOAD_BYTES {
            self.unloaded = true;
            history.into_iter().rfind(asked)
        } else {
            let message = history.iter().rfind(|message| asked(message)).cloned();
            self.record.task.history = Some(history).filter(|history| !history.is_empty());
            message
        };
        let Some(message) = message else {
            return Box::new(move |_, _| Box::pin(std::future::ready(cut())));
        };
        match request {
            RunRequest::New { delegation } => {
                let job = job(&self.record, message, delegation);
                Box::new(move |reports, cancel| executor.run(job, reports, cancel))
            }
            RunRequest::Reattach(run) => {
                let metadata = message.metadata.as_ref();
                let delegation = metadata.and_then(|metadata| metadata.get(DELEGATION).cloned());
                let job = job(&self.record, message, delegation);
                Box::new(move |reports, cancel| {
                    let again = executor.reattach(job, run, reports, cancel);
                    Box::pin(async move {
                        match again {
                            Some(outcome) => outcome.await,
                            None => cut(),
                        }
                    })
                })
            }
        }
    }

    /// Follows the run to its end. Gives it back where it may still go on.
    async fn work(
        &mut self,
        mut running: Running,
        mut reports: Receiver<Report>,
    ) -> (Ending, Option<Running>) {
        let deadline = sleep_until(Instant::now() + self.core.settings.timeout);
        tokio::pin!(deadline);
        let quiet = sleep(QUIET);
        tokio::pin!(quiet);
        loop {
            let report = tokio::select! {
                biased;
                () = self.live.canceled.cancelled() => return (Ending::Canceled, Some(running)),
                () = self.core.closing.cancelled() => return (Ending::Cut, Some(running)),
                () = &mut deadline => return (Ending::TimedOut, Some(running)),
                Some(report) = reports.recv() => report,
                outcome = running.outcome() => {
                    let ending = self.rest(&mut reports).await;
                    return (ending.unwrap_or(Ending::Outcome(outcome)), None);
                }
                () = &mut quiet, if !quiet.is_elapsed() => match self.working().await {
                    Ok(()) => continue,
                    Err(lost) => return (Ending::Lost(lost), Some(running)),
                },
            };
            if let Err(ending) = self.take(report).await {
                return (ending, Some(running));
            }
        }
    }

    /// What was reported before the run ended.
    async fn rest(&mut self, reports: &mut Receiver<Report>) -> Option<Ending> {
        while let Ok(report) = reports.try_recv() {
            if let Err(ending) = self.take(report).await {
                return Some(ending);
            }
        }
        None
    }

    async fn take(&mut self, report: Report) -> Result<(), Ending> {
        match report {
            Report::Run(run) => Ok(self.write(Change::Run(run)).await?),
            Report::Metadata(more) => Ok(self.write(Change::Metadata(more)).await?),
            Report::Working(None) => {
                self.reported = true;
                Ok(self.working().await?)
            }
            Report::Working(Some(parts)) => {
                self.holds(bytes(&parts))?;
                self.reported = true;
                self.stand(TaskState::Working, Some(parts)).await?;
                self.live.open();
                Ok(())
            }
            Report::Artifact {
                artifact,
                append,
                last_chunk,
            } => {
                let size = self.size_with(&artifact, append);
                self.holds(size)?;
                self.reported = true;
                self.working().await?;
                let change = Change::Artifact {
                    artifact,
                    append,
                    last_chunk,
                };
                self.write(change).await?;
                self.size = size;
                Ok(())
            }
        }
    }

    /// Says that the task is being worked on, unless that is known.
    async fn working(&mut self) -> Result<(), Lost> {
        if self.record.task.status.state != TaskState::Working {
            self.stand(TaskState::Working, None).await?;
        }
        self.live.open();
        Ok(())
    }

    async fn end(&mut self, ending: Ending) -> End {
        let ending = match ending {
            Ending::Outcome(outcome) => match self.holds(bound::said(&outcome)) {
                Ok(()) => Ending::Outcome(outcome),
                Err(too_large) => too_large,
            },
            ending => ending,
        };
        let ended = match ending {
            Ending::Outcome(outcome) => match self.finish(outcome).await {
                Ok(Some(answer)) => return End::Answer(Box::new(answer)),
                Ok(None) => Ok(()),
                Err(lost) => Err(lost),
            },
            Ending::Canceled => {
                let reason = self.live.reason();
                let status = words::canceled(self.env(), &self.record, reason);
                self.write(Change::Status(status)).await
            }
            Ending::TimedOut => {
                let timeout = self.core.settings.timeout;
                let status = words::timed_out(self.env(), &self.record, timeout);
                self.write(Change::Status(status)).await
            }
            Ending::TooLarge => {
                let most = self.core.settings.limits.artifact_bytes;
                let status = words::too_large(self.env(), &self.record, most);
                self.write(Change::Status(status)).await
            }
            Ending::NoRoom => {
                self.write(Change::Status(words::no_room(self.env(), &self.record)))
                    .await
            }
            Ending::Cut => {
                let status = words::interrupted(self.env(), &self.record);
                self.write(Change::Status(status)).await
            }
            Ending::Lost(lost) => Err(lost),
        };
        match ended {
            Ok(()) => self.ended().await,
            Err(lost) => self.lost(lost).await,
        }
    }

    /// The task as it ended. The record that is left here has no body.
    async fn ended(&mut self) -> End {
        if self.unloaded {
            let id = &self.record.task.id;
            return match self.core.store.load(id).await {
                Ok(Some(record)) => End::Stands(Arc::new(record)),
                Ok(None) => End::Lost(A2aError::task_not_found(id)),
                Err(error) => End::Lost(refused(error, id)),
            };
        }
        let task = &mut self.record.task;
        let bodies = (
            task.history.take(),
            task.artifacts.take(),
            task.metadata.take(),
        );
        let mut whole = self.record.clone();
        let task = &mut whole.task;
        (task.history, task.artifacts, task.metadata) = bodies;
        End::Stands(Arc::new(whole))
    }

    /// Writes what the executor said last. Gives back a message where that is all there is.
    async fn finish(&mut self, outcome: Outcome) -> Result<Option<Message>, Lost> {
        match outcome {
            Outcome::Completed(parts) => self.stand(TaskState::Completed, parts).await?,
            Outcome::InputRequired(parts) => {
                self.stand(TaskState::InputRequired, Some(parts)).await?;
            }
            Outcome::AuthRequired(parts) => {
                self.stand(TaskState::AuthRequired, Some(parts)).await?;
            }
            Outcome::Rejected(text) => {
                self.stand(TaskState::Rejected, Some(vec![Part::text(text)]))
                    .await?;
            }
            Outcome::Failed { reason, text } => {
                let state = TaskState::Failed;
                let status = words::why(self.env(), &self.record, state, Some(reason), text);
                self.write(Change::Status(status)).await?;
            }
            Outcome::Message(parts) => return self.answer(parts).await,
        }
        Ok(None)
    }

    /// Answers by a message alone where no client knows of the task; else the message completes it.
    async fn answer(&mut self, parts: Vec<Part>) -> Result<Option<Message>, Lost> {
        if !self.reported && !self.continued && self.live.withhold() {
            let deleted = self.core.store.delete(&self.record.task.id).await;
            match deleted {
                Ok(_) => {
                    self.core.settled(&self.record.owner, &self.record.task.id);
                    let mut message = words::message(self.env(), &self.record, parts);
                    // There is no such task.
                    message.task_id = None;
                    return Ok(Some(message));
                }
                Err(error) => tracing::warn!(
                    task_id = self.record.task.id,
                    %error,
                    "a task that was answered by a message stays, because the store failed"
                ),
            }
        }
        self.stand(TaskState::Completed, Some(parts)).await?;
        Ok(None)
    }

    async fn stand(&mut self, state: TaskState, parts: Option<Vec<Part>>) -> Result<(), Lost> {
        let status = words::status(self.env(), &self.record, state, parts);
        self.write(Change::Status(status)).await
    }

    fn env(&self) -> &dyn common::environment::Environment {
        &*self.core.env
    }
}

/// What the executor is asked.
fn job(record: &Record, message: Message, delegation: Option<serde_json::Value>) -> Job {
    Job {
        task_id: record.task.id.clone(),
        context_id: record.task.context_id.clone(),
        session: record.session.clone(),
        agent: record.agent.clone(),
        client: record.owner.clone(),
        message,
        delegation,
    }
}
