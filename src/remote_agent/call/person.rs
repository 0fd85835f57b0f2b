//! What a call knows about the person that answers for it: who can be reached, how long, and the outcome.

use std::time::Duration;

use a2a::{Event, Task, TaskState};
use base::text::counted;
use gateway_bridge::delegation::{Delegation, METADATA_KEY};
use serde_json::Value;

use super::Call;
use crate::config::Answers;
use crate::remote_agent::RemoteAgent;
use crate::remote_agent::caller::Caller;
use crate::remote_agent::envelope::{PersonReport, ReportOutcome};
use crate::remote_agent::question::{Person, shown};
use crate::remote_agent::request::{PartRequest, Request};

/// The person of a call, and what the questions to them say about it.
#[derive(Default)]
pub(in crate::remote_agent) struct CallPerson<'a> {
    pub(in crate::remote_agent) person: Option<&'a dyn Person>,
    /// Whether the time that a person takes does not count: the request has no timeout of its own.
    pub(in crate::remote_agent) extends: bool,
    /// Who passed the work on, the first first.
    pub(in crate::remote_agent) chain: Vec<String>,
    /// The beginning of the work.
    pub(in crate::remote_agent) task_text: Option<String>,
    /// How many questions a person was asked.
    pub(in crate::remote_agent) questions: usize,
    pub(super) report: Option<PersonReport>,
    /// The ids of messages whose words the model must not read.
    concealed: Vec<String>,
}

impl<'a> CallPerson<'a> {
    pub(in crate::remote_agent) fn new(person: Option<&'a dyn Person>, extends: bool) -> Self {
        Self {
            person,
            extends,
            ..Self::default()
        }
    }

    /// Notes what questions say about the work: its beginning, and who passed it on.
    pub(in crate::remote_agent) fn describe(&mut self, request: &Request, caller: &Caller) {
        let delegation = request
            .metadata
            .as_ref()
            .and_then(|all| all.get(METADATA_KEY));
        let earlier = delegation
            .and_then(Delegation::read)
            .map_or(0, |own| own.hop.saturating_sub(1));
        if earlier > 0 {
            let earlier = counted(earlier, "earlier agent", "earlier agents");
            self.chain.push(earlier);
        }
        let names = [&caller.agent_id, &caller.operator];
        self.chain
            .extend(names.into_iter().flatten().filter_map(|name| shown(name)));
        let parts = request.parts.iter().flatten();
        self.task_text = parts.filter_map(PartRequest::as_text).find_map(shown);
    }
}

/// The right to ask about a task, until it is dropped.
pub(in crate::remote_agent) struct Asking<'a> {
    tool: &'a RemoteAgent,
    key: String,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.tool.asking.lock().remove(&self.key);
    }
}

impl<'a> Call<'a> {
    /// Returns whether the task waits for its caller.
    pub(in crate::remote_agent) fn awaits_answer(&self) -> bool {
        self.collected
            .state
            .as_ref()
            .is_some_and(TaskState::is_interrupted)
    }

    /// Returns an id for another message.
    pub(in crate::remote_agent) fn fresh_id(&self) -> String {
        self.tool.env.uuid().to_string()
    }

    /// Returns the time.
    pub(in crate::remote_agent) fn now(&self) -> std::time::Instant {
        self.tool.env.now()
    }

    /// Counts a question about the task; `None` while another call asks about it.
    pub(in crate::remote_agent) fn begin_asking(&mut self, task_id: &str) -> Option<Asking<'a>> {
        let key = format!("{} {task_id}", self.target.key);
        if !self.tool.asking.lock().insert(key.clone()) {
            return None;
        }
        self.person.questions += 1;
        Some(Asking {
            tool: self.tool,
            key,
        })
    }

    /// Returns how long a question may wait. A request with a timeout of its own keeps some of it for the result.
    pub(in crate::remote_agent) fn time_for_person(&self, most: Duration) -> Duration {
        if self.person.extends {
            return most;
        }
        self.deadline.before_end().min(most)
    }

    /// Gives the agent its whole time again after a person took theirs.
    pub(in crate::remote_agent) fn renew_deadline(&mut self) {
        if self.person.extends {
            self.deadline = self.deadline.renewed();
        }
    }

    /// Records what became of the last question.
    pub(in crate::remote_agent) fn report(
        &mut self,
        id: &str,
        outcome: ReportOutcome,
        by: Option<String>,
    ) {
        let before = self.person.report.take();
        self.person.report = Some(PersonReport {
            outcome,
            questions: self.person.questions,
            question_id: id.to_owned(),
            by,
            answers: before.map(|report| report.answers).unwrap_or_default(),
        });
    }

    /// Returns the next step after a person was to answer, while the task waits; `None` where the usual one holds.
    pub(super) fn step_after_person(&self, report: &PersonReport) -> Option<&'static str> {
        let model_may = self.target.answers == Answers::PersonThenModel;
        Some(match report.outcome {
            ReportOutcome::Answered | ReportOutcome::Passed | ReportOutcome::Unsent => return None,
            ReportOutcome::Timeout | ReportOutcome::Unreachable if model_may => return None,
            ReportOutcome::Declined => {
                "A person declined to answer, and nothing was sent. Do not answer for them. Watch with this task_handle or continuation asks again; cancel gives the task up."
            }
            ReportOutcome::Timeout => {
                "No person answered in time, and nothing was sent. Do not answer for them. Watch with this task_handle or continuation asks again."
            }
            ReportOutcome::Unreachable => {
                "A person has to answer, and none can be reached here. Tell the user what the agent asks. Watch with this task_handle or continuation asks where one can be."
            }
            ReportOutcome::Invalid => {
                "The person's answer did not fit the question, and nothing was sent. Watch with this task_handle or continuation asks again."
            }
            ReportOutcome::Busy => {
                "Another call is asking a person about this task. Watch later with this task_handle or continuation."
            }
            ReportOutcome::Limit => {
                "The agent asked a person too often in one call. Watch with this task_handle or continuation asks on; cancel gives the task up."
            }
        })
    }
    /// Lets the model read the words of an answer.
    pub(in crate::remote_agent) fn show_words(&mut self, words: String) {
        if let Some(report) = &mut self.person.report {
            report.answers.push(words);
        }
    }

    /// Goes on after an answer in the message `message_id`, or without one: the task no longer waits.
    pub(in crate::remote_agent) fn resume(&mut self, message_id: Option<&str>) {
        self.collected.resume();
        if let Some(id) = message_id.filter(|_| !self.target.show_answers) {
            self.person.concealed.push(id.to_owned());
        }
    }

    /// Removes the person's words from a task: many agents repeat the messages they received.
    pub(super) fn without_words(&self, task: Task) -> Task {
        if self.person.concealed.is_empty() {
            return task;
        }
        let mut json = task.json().clone();
        if let Some(Value::Array(history)) = json.get_mut("history") {
            history.retain(|message| {
                let id = message.get("messageId").and_then(Value::as_str);
                id.is_none_or(|id| {
                    self.person
                        .concealed
                        .iter()
                        .all(|concealed| concealed != id)
                })
            });
        }
        Task::read(json).unwrap_or(task)
    }

    /// Like [`without_words`](Self::without_words), for an event.
    pub(super) fn event_without_words(&self, event: Event) -> Event {
        match event {
            Event::Task(task) => Event::Task(self.without_words(task)),
            event => event,
        }
    }
}
