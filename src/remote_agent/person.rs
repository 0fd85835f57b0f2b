//! Lets a person answer the question of an interrupted task: when one is asked, how long, and what follows.
//!
//! Nothing here sends. `actions.rs` sends the answer, and follows the task again.

use std::time::Duration;

use a2a::{Part, Task};
use peer::{Delivered, Peer};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::artifacts::Source;
use super::call::{Call, PendingAnswer};
use super::envelope::ReportOutcome;
use super::error::{Reason, ToolError};
use super::question::{Answer, AnswerAction, Misfits, Person, Question, QuestionKind, Wording};
use super::question::{question_id, shown};
use super::recovery::is_unsupported;
use crate::config::Answers;

/// How many questions of one call a person is asked.
const MAX_QUESTIONS: usize = 8;

/// How long one question waits. A host that stops has to end it, so it is short, and asked again.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How long a host that did not wait for the person is left alone before it is asked the same question again.
const PAUSE: Duration = Duration::from_secs(30);

/// A call with less time left asks no further question.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows a person's answer.
pub(super) enum Next {
    /// These parts go to the task.
    Send(Vec<Part>),
    /// The task goes on without an answer.
    Follow,
}

/// Asks a person about the task, if it waits and its target wants that. Returns what follows; `None` ends the call, and its
/// report says why.
///
/// # Errors
/// The call has ended, or the peer cannot be asked whether the question still stands.
pub(super) async fn ask(call: &mut Call<'_>, peer: &dyn Peer) -> Result<Option<Next>, ToolError> {
    let mut invalid: Option<(String, Misfits)> = None;
    loop {
        let Some((wording, task_id)) = call.open_question() else {
            return Ok(None);
        };
        let rule = call.target.answers;
        if wording.kind == QuestionKind::Input && rule == Answers::Model {
            return Ok(None);
        }
        let Some(person) = call.person.person else {
            // Hosts without a person are the rule: only a target that asks for one has a word about it.
            if rule != Answers::Model {
                call.report(&wording.id, ReportOutcome::Unreachable, None);
            }
            return Ok(None);
        };
        if !call.begin_asking(&task_id, &wording.id) {
            call.report(&wording.id, ReportOutcome::Busy, None);
            return Ok(None);
        }
        if call.person.questions > MAX_QUESTIONS {
            call.person.questions = MAX_QUESTIONS;
            call.report(&wording.id, ReportOutcome::Limit, None);
            return Ok(None);
        }
        // The task may go on after a sign-in without a message.
        let has_link = wording.kind == QuestionKind::Auth && wording.url.is_some();
        if !has_link && !has_room(call).await? {
            let outcome = match invalid {
                Some(_) => ReportOutcome::Invalid,
                None => ReportOutcome::Limit,
            };
            call.report(&wording.id, outcome, None);
            return Ok(None);
        }
        let limit = call.time_for_person(QUESTION_TIMEOUT);
        let error = invalid.take_if(|(id, _)| *id == wording.id);
        let is_retry = error.is_some();
        let question = question(call, wording, limit, error.map(|(_, misfits)| misfits));
        // A person may take long, and cancelling the task must not wait for them.
        call.permit = None;
        let asked = Instant::now();
        let answer = ask_within(call, person, &question, limit).await?;
        call.metrics.record_question(&question.id, &answer);
        let id = &*question.id;
        let pause = limit.saturating_sub(asked.elapsed()).min(PAUSE);
        let ended = match answer.action {
            AnswerAction::Answer => None,
            AnswerAction::Model if question.may_pass_to_model => Some(ReportOutcome::Passed),
            AnswerAction::Decline | AnswerAction::Model => Some(ReportOutcome::Declined),
            AnswerAction::Unreachable | AnswerAction::Later => Some(ReportOutcome::Unreachable),
            AnswerAction::Timeout
                if !call.person.uses_default_timeout
                    && call.deadline.before_end() > MIN_TIMEOUT + pause =>
            {
                call.deadline.run_without_limit(sleep(pause)).await?;
                continue;
            }
            AnswerAction::Timeout => Some(ReportOutcome::Timeout),
        };
        if let Some(outcome) = ended {
            match outcome {
                ReportOutcome::Declined => call.set_declined(&task_id, Some(id)),
                ReportOutcome::Passed => call.set_declined(&task_id, None),
                _ => {}
            }
            call.report(id, outcome, answer.by);
            return Ok(None);
        }
        let content = match question.check(&answer.content) {
            Ok(content) => content,
            Err(misfits) if !is_retry => {
                invalid = Some((question.id, misfits));
                continue;
            }
            Err(_) => {
                call.report(id, ReportOutcome::Invalid, answer.by);
                return Ok(None);
            }
        };
        let shows = call.target.show_answers;
        call.person.pending = Some(PendingAnswer {
            question_id: question.id.clone(),
            by: answer.by,
            words: shows.then(|| question.words_for_model(&content)),
        });
        call.renew_deadline();
        call.regain_permit().await?;
        let standing = still_stands(call, peer, &task_id, id).await?;
        if matches!(standing, Standing::Yes) {
            return Ok(Some(Next::Send(question.parts(content))));
        }
        call.person.current = None;
        let by = call.person.pending.take().and_then(|answer| answer.by);
        match standing {
            Standing::Yes | Standing::Changed => {}
            Standing::GoesOn => {
                call.report(id, ReportOutcome::Unsent, by);
                call.person.asking = None;
                call.collected.resume();
                return Ok(Some(Next::Follow));
            }
            Standing::Ended => {
                call.report(id, ReportOutcome::Unsent, by);
                return Ok(None);
            }
        }
    }
}

/// Returns whether budgets leave room for the message of an answer, so that no person answers in vain.
///
/// # Errors
/// The call has ended.
async fn has_room(call: &Call<'_>) -> Result<bool, ToolError> {
    match call.check_budget().await {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(
                error.reason,
                Reason::BudgetExceeded | Reason::BudgetUnusable
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn question(
    call: &mut Call<'_>,
    wording: Wording,
    limit: Duration,
    misfits: Option<Misfits>,
) -> Question {
    let misfits = misfits.map(|misfits| (misfits.error, misfits.fields));
    let (error, misfits) = misfits.unzip();
    let continuation = call.continuation();
    let card = call.card.as_ref();
    let name = card.and_then(|known| known.card.view.as_ref().ok()?.name.as_deref());
    Question {
        id: wording.id,
        kind: wording.kind,
        target: call.target.alias.clone(),
        agent: name.and_then(shown),
        origin: call
            .target
            .peer_config
            .base_url
            .origin()
            .ascii_serialization(),
        chain: call.person.chain.clone(),
        task: call.person.task_text.clone(),
        text: wording.text,
        fields: wording.fields,
        url: wording.url,
        sign_in: None,
        warnings: wording.warnings,
        may_pass_to_model: call.target.answers == Answers::PersonThenModel,
        timeout_ms: base::environment::millis(limit),
        continuation,
        error,
        misfits: misfits.unwrap_or_default(),
    }
}

/// Asks, and waits no longer than `limit`, whatever the host does.
async fn ask_within(
    call: &Call<'_>,
    person: &dyn Person,
    question: &Question,
    limit: Duration,
) -> Result<Answer, ToolError> {
    let asked = timeout(limit, person.ask(question));
    let answered = call.deadline.run_without_limit(asked).await?;
    let answer = answered.unwrap_or_else(|_| Answer::without_words(AnswerAction::Timeout));
    let by = answer.by.as_deref().and_then(shown);
    Ok(Answer { by, ..answer })
}

/// What became of a question while the person was asked.
enum Standing {
    /// The task waits with it, or the agent answers no queries.
    Yes,
    /// The task waits with another question.
    Changed,
    /// The task works.
    GoesOn,
    /// The task has ended.
    Ended,
}

async fn still_stands(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    task_id: &str,
    id: &str,
) -> Result<Standing, ToolError> {
    let unsent = |error: ToolError| error.delivered(Delivered::No);
    let task = call.deadline.run(call.get_task(peer, task_id)).await;
    let task = match task.map_err(unsent)? {
        Ok(task) => task,
        Err(error) if is_unsupported(&error) => return Ok(Standing::Yes),
        Err(error) => return Err(unsent(error.into())),
    };
    let state = task.state();
    if !state.is_terminal_or_interrupted() {
        return Ok(Standing::GoesOn);
    }
    let is_same = state.is_interrupted() && is_same_question(call, &task, id);
    call.add_snapshot(task, Source::Polled)?;
    Ok(match (state.is_terminal(), is_same) {
        (true, _) => Standing::Ended,
        (false, true) => Standing::Yes,
        (false, false) => Standing::Changed,
    })
}

/// Returns whether the task waits with the question `id`. Some agents show the words of a question once, in their stream.
fn is_same_question(call: &Call<'_>, task: &Task, id: &str) -> bool {
    let parts = task.json().pointer("/status/message/parts");
    let parts = parts.and_then(Value::as_array);
    let task_id = call.collected.task_id.as_ref().or(call.task_id.as_ref());
    let about = [&*call.target.url, task_id.map_or("", |id| id)];
    call.collected.state == Some(task.state())
        && parts.is_none_or(|parts| question_id(&about, parts) == id)
}

/// Refuses a message of the model in the place of a person who is asked, has to answer, or has declined. A person may write
/// at any time, and may change their mind.
///
/// # Errors
/// [`Reason::PersonRequired`], or the task cannot be queried. Nothing was sent.
pub(super) async fn check_may_send(call: &Call<'_>, peer: &dyn Peer) -> Result<(), ToolError> {
    let refused = |message: &str| Err(ToolError::local(Reason::PersonRequired, message));
    let Some(task_id) = &call.task_id else {
        return Ok(());
    };
    if call.person.writes {
        return Ok(());
    }
    if call.is_asked(task_id) {
        return refused("a person is being asked about this task");
    }
    let declined = call.declined_question(task_id);
    let is_for_person = call.target.answers == Answers::Person;
    if !is_for_person && declined.is_none() {
        return Ok(());
    }
    let task = match call.deadline.run(call.get_task(peer, task_id)).await? {
        Ok(task) => task,
        Err(error) if is_unsupported(&error) => {
            return refused(
                "the agent does not answer whether the task waits for a person, who alone may answer",
            );
        }
        Err(error) => return Err(error.into()),
    };
    let state = task.state();
    if !state.is_interrupted() {
        call.set_declined(task_id, None);
        return Ok(());
    }
    if is_for_person {
        return refused("the task waits for a person's answer");
    }
    let parts = task.json().pointer("/status/message/parts");
    let parts = parts
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let wording = Wording::read(
        &[&call.target.url, task_id],
        &state,
        parts,
        task.last_agent_text().as_deref(),
        &call.field_order,
    );
    match declined.is_none_or(|declined| wording.is_refused(&declined)) {
        true => refused("a person declined to answer this task"),
        false => Ok(()),
    }
}
