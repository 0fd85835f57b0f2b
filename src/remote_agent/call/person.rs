//! What a call knows about the person that answers for it: who can be reached, how long, and the outcome.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use a2a::{Event, Task, TaskState, member_at};
use base::environment::Environment;
use base::text::counted;
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation};
use lru::LruCache;
use serde_json::Value;

use super::Call;
use crate::config::Answers;
use crate::remote_agent::RemoteAgent;
use crate::remote_agent::caller::Caller;
use crate::remote_agent::concurrency_limiter::CallPermit;
use crate::remote_agent::envelope::{PersonReport, ReportOutcome};
use crate::remote_agent::error::ToolError;
use crate::remote_agent::question::{Person, Wording, shown};
use crate::remote_agent::request::{PartRequest, Request};

/// The beginning of the ids of messages in which a person answers, by which their words are known in the history of a task.
const ANSWER_ID_PREFIX: &str = "person-answer-";

/// How many declined questions are remembered.
const MAX_DECLINED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);

/// The questions to people in this process, by target and task.
pub(in crate::remote_agent) struct Questions {
    /// The tasks about which a person is asked now.
    open: HashSet<String>,
    /// The ids of the questions that a person declined last.
    declined: LruCache<String, String>,
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            open: HashSet::new(),
            declined: LruCache::new(MAX_DECLINED),
        }
    }
}

/// A person's answer on its way to the agent.
pub(in crate::remote_agent) struct PendingAnswer {
    pub(in crate::remote_agent) question_id: String,
    pub(in crate::remote_agent) by: Option<String>,
    /// The words for the model, where the target shows them.
    pub(in crate::remote_agent) words: Option<String>,
}

/// The person of a call, and what the questions to them say about it.
#[derive(Default)]
pub(in crate::remote_agent) struct CallPerson<'a> {
    pub(in crate::remote_agent) person: Option<&'a dyn Person>,
    /// Whether the time that a person takes does not count: the request has no timeout of its own.
    pub(in crate::remote_agent) uses_default_timeout: bool,
    /// Whether a person wrote the message of the call.
    pub(in crate::remote_agent) writes: bool,
    /// Who passed the work on, the first first.
    pub(in crate::remote_agent) chain: Vec<String>,
    /// The beginning of the work.
    pub(in crate::remote_agent) task_text: Option<String>,
    /// How many questions a person was asked. One that is asked again counts once.
    pub(in crate::remote_agent) questions: usize,
    /// The question that the person was asked last, until it is over: then one with the same words is another one.
    pub(in crate::remote_agent) current: Option<String>,
    /// The right to ask, until the agent has the answer.
    pub(in crate::remote_agent) asking: Option<Asking<'a>>,
    /// The answer that is to be sent.
    pub(in crate::remote_agent) pending: Option<PendingAnswer>,
    pub(in crate::remote_agent) report: Option<PersonReport>,
    /// Whether a person's refusal holds for what the task waits with, as [`Wording::is_refused`] says; `None` if they declined
    /// nothing.
    pub(in crate::remote_agent) is_refused: Option<bool>,
}

impl CallPerson<'_> {
    /// Notes what questions say about the work: its beginning, and who passed it on.
    pub(in crate::remote_agent) fn describe(&mut self, request: &Request, caller: &Caller) {
        let delegation = request
            .metadata
            .as_ref()
            .and_then(|all| all.get(DELEGATION_KEY));
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
        self.tool.questions.lock().open.remove(&self.key);
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

    /// Returns the question that the task waits with, and the task.
    pub(in crate::remote_agent) fn open_question(&self) -> Option<(Wording, String)> {
        let state = self.collected.state.as_ref()?;
        let task_id = self.collected.task_id.as_ref().or(self.task_id.as_ref())?;
        let about = [&*self.target.url, task_id];
        let parts = self.collected.status_parts();
        let text = self.collected.message_text.as_deref();
        let waits = state.is_interrupted();
        let wording =
            waits.then(|| Wording::read(&about, state, parts, text, &self.field_order))?;
        Some((wording, task_id.clone()))
    }

    /// Returns the name of a task among the questions of this process.
    fn question_key(&self, task_id: &str) -> String {
        format!("{} {task_id}", self.target.key)
    }

    /// Opens the question `id` about the task; `false` while another call asks about it. The right to ask lasts until the agent
    /// has the answer, or the call ends.
    pub(in crate::remote_agent) fn begin_asking(&mut self, task_id: &str, id: &str) -> bool {
        if self.person.asking.is_none() {
            let key = self.question_key(task_id);
            if !self.tool.questions.lock().open.insert(key.clone()) {
                return false;
            }
            let tool = self.tool;
            self.person.asking = Some(Asking { tool, key });
        }
        if self.person.current.as_deref() != Some(id) {
            self.person.current = Some(id.to_owned());
            self.person.questions += 1;
        }
        true
    }

    /// Returns whether a person is asked about the task now.
    pub(in crate::remote_agent) fn is_asked(&self, task_id: &str) -> bool {
        let key = self.question_key(task_id);
        self.tool.questions.lock().open.contains(&key)
    }

    /// Returns the question about the task that a person declined.
    pub(in crate::remote_agent) fn declined_question(&self, task_id: &str) -> Option<String> {
        let key = self.question_key(task_id);
        self.tool.questions.lock().declined.get(&key).cloned()
    }

    /// Remembers which question about the task a person declined; `None` forgets it.
    pub(in crate::remote_agent) fn set_declined(&self, task_id: &str, id: Option<&str>) {
        let key = self.question_key(task_id);
        let declined = &mut self.tool.questions.lock().declined;
        match id {
            Some(id) => declined.put(key, id.to_owned()),
            None => declined.pop(&key),
        };
    }

    /// Waits for a permit again.
    ///
    /// # Errors
    /// The call ends before it gets one.
    pub(in crate::remote_agent) async fn regain_permit(&mut self) -> Result<(), ToolError> {
        if self.permit.is_none() {
            let permit: CallPermit<'a> = self
                .tool
                .concurrency_limiter
                .acquire(&self.target.key, &self.deadline)
                .await?;
            self.permit = Some(permit);
        }
        Ok(())
    }

    /// Returns how long a question may wait. A request with a timeout of its own keeps some of it for the result.
    pub(in crate::remote_agent) fn time_for_person(&self, most: Duration) -> Duration {
        if self.person.uses_default_timeout {
            return most;
        }
        self.deadline.before_end().min(most)
    }

    /// Gives the agent its whole time again after a person took theirs.
    pub(in crate::remote_agent) fn renew_deadline(&mut self) {
        if self.person.uses_default_timeout {
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
            delivered: None,
            answers: before.map(|report| report.answers).unwrap_or_default(),
        });
    }

    /// Records that the agent has replied to the message. A person's message changes their mind, and after their answer the task no
    /// longer waits.
    pub(in crate::remote_agent) fn message_arrived(&mut self) {
        if let Some(task_id) = self.collected.task_id.as_ref().or(self.task_id.as_ref())
            && (self.person.writes || self.person.pending.is_some())
        {
            self.set_declined(task_id, None);
        }
        let Some(answer) = self.person.pending.take() else {
            return;
        };
        self.report(&answer.question_id, ReportOutcome::Answered, answer.by);
        if let (Some(words), Some(report)) = (answer.words, &mut self.person.report) {
            report.answers.push(words);
        }
        self.person.current = None;
        self.person.asking = None;
        self.collected.resume();
    }

    /// Adds to the error of a person's answer that it was not sent, and what to do instead of sending another.
    pub(in crate::remote_agent) fn answer_error(&mut self, error: ToolError) -> ToolError {
        let Some(answer) = self.person.pending.take() else {
            return error;
        };
        self.report(&answer.question_id, ReportOutcome::Unsent, answer.by);
        if let Some(report) = &mut self.person.report {
            report.delivered = Some(error.delivered.as_str());
        }
        // A hint of the reason would lead to an answer of the model.
        let step = unsent_step(Some(error.delivered.as_str()));
        error.with("hint", step)
    }

    /// Returns the next step after a person was to answer, while the task waits; `None` where the usual one holds.
    pub(super) fn step_after_person(&self, report: &PersonReport) -> Option<&'static str> {
        let model_may = self.target.answers == Answers::PersonThenModel;
        Some(match report.outcome {
            ReportOutcome::Answered | ReportOutcome::Passed => return None,
            ReportOutcome::Unsent => unsent_step(report.delivered),
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
                "The agent asked a person too often in one call, or a budget has no room for the answer. Watch with this task_handle or continuation asks on; cancel gives the task up."
            }
        })
    }

    /// Notes whether a person's refusal holds for the question that the task waits with, while its words are there.
    pub(super) fn note_refusal(&mut self) {
        let task_id = self.collected.task_id.as_ref().or(self.task_id.as_ref());
        let declined = task_id.and_then(|task_id| self.declined_question(task_id));
        self.person.is_refused = declined.map(|declined| {
            let question = self.open_question();
            question.is_none_or(|(wording, _)| wording.is_refused(&declined))
        });
    }

    /// Returns the next step of a task that waits for a person whom this call did not ask.
    pub(super) fn step_before_person(&self) -> Option<&'static str> {
        let task_id = self.collected.task_id.as_ref().or(self.task_id.as_ref())?;
        Some(match (self.target.answers, self.person.is_refused) {
            _ if self.is_asked(task_id) => {
                "Another call is asking a person about this task. Do not answer for them. Watch later with this task_handle or continuation."
            }
            (_, Some(true)) => {
                "A person declined to answer. Do not answer for them. Watch with this task_handle or continuation asks again; cancel gives the task up."
            }
            (Answers::PersonThenModel, Some(false)) => {
                "A person declined an earlier question of this task, and this is another one: watch with this task_handle or continuation asks them. Answer with send only if none answers."
            }
            (Answers::Person, _) => {
                "A person has to answer. Do not answer for them. Watch with this task_handle or continuation asks them where one can be reached."
            }
            (Answers::PersonThenModel, None) => {
                "A person answers first: watch with this task_handle or continuation asks them. Answer with send only if none answers."
            }
            (Answers::Model, _) => return None,
        })
    }

    /// Removes the words of people from a task: many agents repeat the messages they received.
    pub(super) fn without_words(&self, task: Task) -> Task {
        if self.target.show_answers || !has_words(task.json()) {
            return task;
        }
        Task::read(without_words(task.json().clone())).unwrap_or(task)
    }

    /// Like [`without_words`](Self::without_words), for an event; `None` if nothing is left of it.
    pub(super) fn event_without_words(&self, event: Event) -> Option<Event> {
        if self.target.show_answers {
            return Some(event);
        }
        match &event {
            Event::Message(message) if is_answer(message.json()) => None,
            Event::Task(_) | Event::Status(_) if has_words(event.json()) => {
                Event::read(without_words(event.into_json())).ok()
            }
            _ => Some(event),
        }
    }
}

/// Returns an id for a message in which a person answers.
pub(in crate::remote_agent) fn answer_id(env: &dyn Environment) -> String {
    format!("{ANSWER_ID_PREFIX}{}", env.uuid())
}

/// Returns what to do about an answer that the agent did not take; `delivered` says whether it may have it.
fn unsent_step(delivered: Option<&str>) -> &'static str {
    match delivered {
        Some("no") => {
            "A person answered, and the answer was not sent. Do not answer for them. Watch with this task_handle or continuation asks again."
        }
        Some(_) => {
            "A person answered, and the agent may have the answer. Do not answer for them. Watch with this task_handle or continuation shows it, or asks again."
        }
        None => {
            "A person answered, and the agent did not wait for it. Do not answer for them. Watch with this task_handle or continuation asks again."
        }
    }
}

/// Returns whether a message is a person's answer.
fn is_answer(message: &Value) -> bool {
    let text = |name| message.get(name).and_then(Value::as_str);
    // Some agents give their own messages the id of the message that they answer.
    let is_agents =
        || text("role").is_some_and(|role| role.to_ascii_lowercase().ends_with("agent"));
    text("messageId").is_some_and(|id| id.starts_with(ANSWER_ID_PREFIX)) && !is_agents()
}

/// Returns whether a task, or a change of its state, repeats a person's answer.
fn has_words(task: &Value) -> bool {
    let history = task.get("history").and_then(Value::as_array);
    history.into_iter().flatten().any(is_answer)
        || member_at(task, &["status", "message"]).is_some_and(is_answer)
}

fn without_words(mut task: Value) -> Value {
    if let Some(Value::Array(history)) = task.get_mut("history") {
        history.retain(|message| !is_answer(message));
    }
    if member_at(&task, &["status", "message"]).is_some_and(is_answer)
        && let Some(Value::Object(status)) = task.get_mut("status")
    {
        status.remove("message");
    }
    task
}
