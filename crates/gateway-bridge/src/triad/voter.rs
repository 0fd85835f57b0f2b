//! Requests the vote of one member, and parses its reply.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::client::Ballot;
use crate::openclaw::RUN_TIMEOUT_KEY;
use crate::proposal::Proposal;
use crate::{CallContext, GatewayLink};
use a2a::{Event, Part, SendRequest, TaskState};
use peer::{EventStream, PeerError};

use super::LinkProvider;

/// The delay before the voter subscribes again after a lost connection.
const RESUBSCRIBE_DELAY: Duration = Duration::from_millis(500);

/// The timeout of canceling a run that is no longer needed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of a reasoning, in bytes.
const MAX_REASONING_BYTES: usize = 2000;

/// One member of the triad in one vote.
pub(super) struct Voter {
    /// The member's name and session.
    pub call: CallContext,
    /// The metadata of every message to it.
    pub metadata: Map<String, Value>,
    /// The deadline of its vote.
    pub until: Instant,
    /// The current run.
    pub run: Mutex<Option<String>>,
}

impl Voter {
    /// Returns the vote on `proposal`. After an invalid answer, sends a second request. After another invalid answer, the member
    /// abstains.
    ///
    /// # Errors
    /// The member cannot vote. The error is a clause for a longer sentence.
    pub(super) async fn vote(
        &self,
        links: &LinkProvider,
        proposal: &Proposal,
        new_id: impl Fn() -> String,
    ) -> Result<Ballot, String> {
        let (text, reasoning) = (&*proposal.text, proposal.reasoning.as_deref());
        let request = Ballot::request(&self.call.agent, None, text, reasoning);
        let written = [text, reasoning.unwrap_or_default()];
        let answer = self.answer(links, request, new_id()).await?;
        let reason = match Ballot::read(&answer, &written, MAX_REASONING_BYTES) {
            Ok(ballot) => return Ok(ballot),
            Err(reason) => reason,
        };
        let again = Ballot::request_again(&reason);
        let answer = self.answer(links, again, new_id()).await?;
        let ballot = Ballot::read(&answer, &written, MAX_REASONING_BYTES);
        Ok(ballot.unwrap_or_else(|reason| Ballot::abstention(&reason)))
    }

    /// Cancels the current run because its vote no longer counts.
    pub(super) async fn stop(&self, links: &LinkProvider) {
        let run = self.with_run(|run| run.take());
        if let Some(run) = run {
            let stopped = async {
                let link = links().await.ok()?;
                link.cancel(&self.call, &run).await.ok()
            };
            // A run that does not stop ends at its deadline.
            let _ = timeout(CANCEL_TIMEOUT, stopped).await;
        }
    }

    async fn answer(
        &self,
        links: &LinkProvider,
        text: String,
        run: String,
    ) -> Result<String, String> {
        let outgoing = SendRequest {
            message_id: run.clone(),
            parts: vec![Part::text(text)],
            context_id: self.call.context_id.clone(),
            metadata: Some(self.metadata()),
            ..SendRequest::default()
        };
        let link = links().await.map_err(message_of)?;
        self.with_run(|running| *running = Some(run.clone()));
        let stream = link.stream(&self.call, &outgoing).await;
        let mut stream = stream.map_err(|error| {
            self.with_run(|running| *running = None);
            message_of(error)
        })?;
        let mut answer = Answer::default();
        loop {
            match stream.next().await {
                Some(Ok((event, _))) => answer.apply(event),
                _ if answer
                    .state
                    .as_ref()
                    .is_some_and(TaskState::is_terminal_or_interrupted) =>
                {
                    break;
                }
                Some(Err(error)) => stream = self.resubscribe(links, &run, error).await?,
                None => return Err("its stream broke off".into()),
            }
        }
        self.with_run(|running| *running = None);
        match answer.state {
            Some(TaskState::Completed) => Ok(answer.text),
            state => {
                let state = state.as_ref().map_or("unknown", TaskState::as_str);
                let reason = answer
                    .reason
                    .map_or_else(String::new, |reason| format!(": {reason}"));
                Err(format!("its run ended with the state {state}{reason}"))
            }
        }
    }

    /// Subscribes to the run again after a lost connection, until the deadline.
    async fn resubscribe(
        &self,
        links: &LinkProvider,
        run: &str,
        mut last_error: PeerError,
    ) -> Result<Box<dyn EventStream>, String> {
        loop {
            sleep(RESUBSCRIBE_DELAY).await;
            if Instant::now() >= self.until {
                return Err(message_of(last_error));
            }
            let link: Result<std::sync::Arc<dyn GatewayLink>, PeerError> = links().await;
            let stream = match link {
                Ok(link) => link.resubscribe(&self.call, run).await,
                Err(error) => Err(error),
            };
            match stream {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind == peer::PeerErrorKind::TaskForgotten => {
                    return Err(message_of(error));
                }
                Err(error) => last_error = error,
            }
        }
    }

    fn metadata(&self) -> Map<String, Value> {
        let remaining = self.until.saturating_duration_since(Instant::now());
        let mut metadata = self.metadata.clone();
        let millis = base::environment::millis(remaining);
        metadata.insert(RUN_TIMEOUT_KEY.to_owned(), millis.into());
        metadata
    }

    fn with_run<T>(&self, update: impl FnOnce(&mut Option<String>) -> T) -> T {
        update(&mut self.run.lock())
    }
}

/// The answer of a run, collected from its events.
#[derive(Default)]
struct Answer {
    text: String,
    state: Option<TaskState>,
    reason: Option<String>,
}

impl Answer {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Artifact(update) => {
                if !update.append() {
                    self.text.clear();
                }
                self.text
                    .push_str(&update.artifact().text().unwrap_or_default());
            }
            Event::Status(update) => {
                self.reason = update.status_text();
                self.state = Some(update.state());
            }
            Event::Task(task) => {
                if let Some(artifact) = task.artifacts().last() {
                    self.text = artifact.text().unwrap_or_default().into_owned();
                }
                self.reason = task.status_text();
                self.state = Some(task.state());
            }
            Event::Message(message) => {
                self.text = message.text().unwrap_or_default().into_owned();
                self.state = Some(TaskState::Completed);
            }
            Event::Unknown(_) => {}
        }
    }
}

fn message_of(error: PeerError) -> String {
    error.message
}
