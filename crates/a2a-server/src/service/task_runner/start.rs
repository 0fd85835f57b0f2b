//! Starts runs.

use a2a::v1_0::{Message, Role};
use tokio::sync::mpsc;

use super::super::running::{Running, Start};
use super::super::status;
use super::{DELEGATION, RunRequest, TaskRunner, UNLOAD_BYTES};
use crate::executor::{ExecutionEvent, Outcome, RunInput};
use crate::task_record::TaskRecord;
use base::json::encoded_bytes;

/// The capacity of the channel of events.
const EVENT_CAPACITY: usize = 16;

impl TaskRunner {
    /// Starts the run.
    pub(super) fn start(
        &mut self,
        request: RunRequest,
    ) -> (Running, mpsc::Receiver<ExecutionEvent>) {
        let start = self.start_fn(request);
        let (events, received) = mpsc::channel(EVENT_CAPACITY);
        let running = Running::start(self.core.metrics.clone(), events, start);
        (running, received)
    }

    /// Returns the position of the client's newest message in a chain of delegations.
    pub(in crate::service) fn delegation(&self) -> Option<serde_json::Value> {
        let mut history = self.record.task.history.iter().flatten();
        delegation(history.rfind(|message| message.role == Role::User)?)
    }

    /// Returns the function that starts the run. A large message moves into the run, and the runner loads it again
    /// afterwards.
    fn start_fn(&mut self, request: RunRequest) -> Start {
        let executor = self.core.executor.clone();
        let cut = || Outcome::Failed {
            reason: status::INTERRUPTED,
            text: status::CUT.to_owned(),
        };
        let history = self.record.task.history.take().unwrap_or_default();
        self.continued = history.len() > 1;
        let is_request = |message: &Message| message.role == Role::User;
        let message = if encoded_bytes(&history) >= UNLOAD_BYTES {
            self.unloaded = true;
            history.into_iter().rfind(is_request)
        } else {
            let message = history.iter().rfind(|message| is_request(message)).cloned();
            self.record.task.history = Some(history).filter(|history| !history.is_empty());
            message
        };
        let Some(message) = message else {
            return Box::new(move |_, _| Box::pin(std::future::ready(cut())));
        };
        match request {
            RunRequest::New { delegation } => {
                let input = input(&self.record, message, delegation);
                Box::new(move |events, cancel| executor.run(input, events, cancel))
            }
            RunRequest::Reattach(run) => {
                let delegation = delegation(&message);
                let input = input(&self.record, message, delegation);
                Box::new(move |events, cancel| {
                    let again = executor.reattach(input, run, events, cancel);
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
}

/// Returns the position of a message in a chain of delegations.
fn delegation(message: &Message) -> Option<serde_json::Value> {
    message.metadata.as_ref()?.get(DELEGATION).cloned()
}

/// Creates the input of the executor.
fn input(record: &TaskRecord, message: Message, delegation: Option<serde_json::Value>) -> RunInput {
    RunInput {
        task_id: record.task.id.clone(),
        context_id: record.task.context_id.clone(),
        session: record.session.clone(),
        agent: record.agent.clone(),
        client: record.owner.clone(),
        message,
        delegation,
    }
}
