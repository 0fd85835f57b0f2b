//! The actions on one target: `send`, `watch`, `status` and `cancel`.
//!
//! A refused message gets diagnostics: the media types that it sends and accepts, against those of the peer's card.

use std::collections::HashSet;

use a2a::{CardView, Message, Part, Reply, SendRequest, Task};
use base::validation::violation;
use egress::Sent;
use peer::{Delivered, Peer};
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::call::{Call, answer_id, check_task};
use super::error::{Reason, ToolError};
use super::follow::{Start, follow};
use super::person::{self, Next};
use super::request::{Action, Request, TaskRequirement, push_config};
use crate::config::Answers;

/// Runs the action of `request`, records what it used, and returns the envelope.
///
/// # Errors
/// The action failed; the details say what was collected before.
pub(super) async fn run(
    call: &mut Call<'_>,
    mut request: Box<Request>,
) -> Result<String, ToolError> {
    let page = request.artifact_id.take();
    let offset = request.offset.unwrap_or(0);
    let follows = match request.action {
        Action::Send => request.follow_updates,
        action => action == Action::Watch,
    };
    // Boxed like every branch that a plain message does not take.
    let done = match request.action {
        Action::Watch => Box::pin(watch(call, request)).await,
        Action::Status => Box::pin(status(call, request, page.is_some())).await,
        Action::Cancel => Box::pin(cancel(call, request)).await,
        Action::Send | Action::ListTargets => send(call, request).await,
    };
    Box::pin(call.settle_budget(done.as_ref().err())).await;
    done?;
    Box::pin(call.report_card()).await;
    match page {
        Some(artifact_id) => call.page_envelope(&artifact_id, offset),
        None if follows => Ok(call.stream_envelope()),
        None => Ok(call.answer_envelope()),
    }
}

/// Sends the message of `request`, and follows its task where the request wants that.
///
/// # Errors
/// The call failed; the details have the card's diagnostics.
async fn send(call: &mut Call<'_>, mut request: Box<Request>) -> Result<(), ToolError> {
    // Where a person has to answer, their words are theirs.
    let is_answer = call.person.writes && call.target.answers == Answers::Person;
    let fresh_id = match is_answer && call.task_id.is_some() {
        true => answer_id(&*call.tool.env),
        false => call.tool.env.uuid().to_string(),
    };
    Box::pin(call.reserve_budget(&mut request.metadata)).await?;
    let accepted = request
        .accepted_output_modes
        .take()
        .unwrap_or_else(|| call.tool.policy.accepted_output_modes.clone());
    let required = request.task_requirement == TaskRequirement::Required;
    let parameters: Vec<_> = std::mem::take(&mut request.service_parameters)
        .into_iter()
        .collect();
    let peer = call
        .open(&parameters)
        .await
        .map_err(|error| error.delivered(Delivered::No).for_send())?;
    person::check_may_send(call, &*peer)
        .await
        .map_err(|error| error.delivered(Delivered::No).for_send())?;
    let (extensions, message_metadata) = call.active_extensions();
    let outgoing = SendRequest {
        message_id: request.message_id.unwrap_or(fresh_id),
        parts: request
            .parts
            .unwrap_or_default()
            .into_iter()
            .map(|part| part.into_part())
            .collect(),
        task_id: call.task_id.clone(),
        context_id: call.context_id.clone(),
        reference_task_ids: request.reference_task_ids,
        accepted_output_modes: accepted,
        // A required task should come at once, not when it is done.
        blocking: !required && request.blocking.unwrap_or(true),
        followed: request.follow_updates,
        history_length: request.history_length,
        push_notification_config: request.push_notification_config.as_ref().map(push_config),
        extensions,
        message_metadata,
        metadata: request.metadata,
    };
    if outgoing.task_id.is_some() {
        call.collected.sent = Some((outgoing.message_id.clone(), None));
    }
    let follows = request.follow_updates;
    let mut done = match (required, follows) {
        (true, follow) => Box::pin(send_for_task(call, &*peer, &outgoing, follow)).await,
        (false, true) => Box::pin(send_streaming(call, &*peer, &outgoing)).await,
        (false, false) => send_blocking(call, &*peer, &outgoing).await,
    };
    if done.is_ok() && call.awaits_answer() {
        let answer = SendRequest {
            parts: Vec::new(),
            reference_task_ids: Vec::new(),
            ..outgoing.clone()
        };
        done = Box::pin(answer_questions(call, &*peer, answer, follows)).await;
    }
    done.map_err(|error| {
        let known = call.card.as_ref();
        let card = known.and_then(|known| known.card.view.as_ref().ok());
        let error = with_diagnostics(error, &MediaTypes::new(&outgoing).compare(card)).for_send();
        error.without_advice(follows, required)
    })
}

/// Lets a person answer for as long as the task asks and a person is to answer. `outgoing` is the message without its parts.
///
/// # Errors
/// An answer was not sent, or the task cannot be followed; the error has everything that was collected.
async fn answer_questions(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    mut outgoing: SendRequest,
    follows: bool,
) -> Result<(), ToolError> {
    loop {
        let asked = call.tool.env.now();
        let next = person::ask(call, peer).await;
        // The budget counts the time of agents.
        call.pause_budget(asked);
        let next = next.map_err(|error| {
            let error = call.answer_error(error);
            call.with_partial_result(error)
        })?;
        let Some(next) = next else {
            return Ok(());
        };
        let done = match next {
            Next::Follow => follow(call, peer, Start::Task).await,
            Next::Send(parts) => {
                outgoing.parts = parts;
                outgoing.message_id = answer_id(&*call.tool.env);
                let collected = &call.collected;
                outgoing.task_id = collected.task_id.clone().or_else(|| call.task_id.clone());
                outgoing.context_id = collected
                    .context_id
                    .clone()
                    .or_else(|| call.context_id.clone());
                let reserved = Box::pin(call.reserve_budget(&mut outgoing.metadata)).await;
                match (reserved, follows) {
                    (Err(error), _) => Err(error),
                    (Ok(()), true) => send_streaming(call, peer, &outgoing).await,
                    (Ok(()), false) => send_blocking(call, peer, &outgoing).await,
                }
            }
        };
        match done {
            // The first message has its task, whatever became of the answer.
            Err(error) if !error.details.contains_key("latest_event_summary") => {
                let error = call.answer_error(error);
                return Err(call.with_partial_result(error));
            }
            done => done?,
        }
    }
}

/// Runs `exchange`, which sends a message, within the deadline.
///
/// # Errors
/// Those of [`Deadline::run_delivery`](super::deadline::Deadline::run_delivery). A message that still waited for its
/// connection is certainly not delivered.
async fn deliver<T>(call: &Call<'_>, exchange: impl Future<Output = T>) -> Result<T, ToolError> {
    call.send_state.reset();
    let done = call.deadline.run_delivery(exchange).await;
    done.map_err(|error| match call.send_state.revoke() {
        Sent::No => error.delivered(Delivered::No),
        Sent::Unknown => error,
    })
}

/// Sends a message and returns the one answer.
async fn send_blocking(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
) -> Result<(), ToolError> {
    let reply = deliver(call, call.metrics.send(peer, outgoing)).await??;
    call.message_arrived();
    if let Reply::Task(task) = &reply {
        check_followable(call, task)?;
    }
    call.add_answer(reply.into(), false)
}

/// Sends a message and follows what comes. A peer that does not stream sends one answer first.
async fn send_streaming(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
) -> Result<(), ToolError> {
    if call.streaming() == Some(true) {
        let stream = deliver(call, call.metrics.stream(peer, outgoing)).await??;
        call.message_arrived();
        return follow(call, peer, Start::Stream(stream)).await;
    }
    let reply = deliver(call, call.metrics.send(peer, outgoing)).await??;
    call.message_arrived();
    match reply {
        Reply::Task(task) => follow_task(call, peer, task).await,
        message @ Reply::Message(_) => call.add_answer(message.into(), true),
    }
}

/// Sends a message that must become a task, and follows it where `follow`.
async fn send_for_task(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
    follow: bool,
) -> Result<(), ToolError> {
    let task = match deliver(call, call.metrics.send(peer, outgoing)).await?? {
        Reply::Task(task) => task,
        Reply::Message(message) => return Err(not_a_task(&message)),
    };
    call.message_arrived();
    call.check_has_id(&task)?;
    if follow {
        return follow_task(call, peer, task).await;
    }
    call.add_answer(Reply::Task(task).into(), false)
}

/// Follows the task of an answer.
async fn follow_task(call: &mut Call<'_>, peer: &dyn Peer, task: Task) -> Result<(), ToolError> {
    check_followable(call, &task)?;
    call.add_answer(Reply::Task(task.clone()).into(), true)?;
    if task.state().is_terminal_or_interrupted() {
        return Ok(());
    }
    follow(call, peer, Start::Answer(task)).await
}

/// Accepts a terminal task, with or without an id; any other must have one.
fn check_followable(call: &Call<'_>, task: &Task) -> Result<(), ToolError> {
    if task.state().is_terminal() {
        return Ok(());
    }
    call.check_has_id(task)
}

fn not_a_task(message: &Message) -> ToolError {
    let mut error = ToolError::new(
        Reason::MessageReturned,
        "a task was required, but the agent answered with a message",
    )
    .with("response_kind", "message")
    .delivered(Delivered::Yes);
    let known = [
        ("context_id", message.context_id().map(Value::from)),
        ("message_id", message.message_id().map(Value::from)),
        (
            "message_text",
            message.text().map(|text| Value::from(text.into_owned())),
        ),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            error = error.with(key, value);
        }
    }
    error
}

/// Follows a task until it is terminal or interrupted.
///
/// # Errors
/// The task cannot be followed; the error has everything that was collected.
async fn watch(call: &mut Call<'_>, request: Box<Request>) -> Result<(), ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    task_id(call)?;
    let mut done = follow(call, &*peer, Start::Task).await;
    if done.is_ok() && call.awaits_answer() {
        let (extensions, message_metadata) = call.active_extensions();
        let answer = SendRequest {
            message_id: String::new(),
            parts: Vec::new(),
            task_id: None,
            context_id: None,
            reference_task_ids: Vec::new(),
            accepted_output_modes: call.tool.policy.accepted_output_modes.clone(),
            blocking: true,
            followed: true,
            history_length: None,
            push_notification_config: None,
            extensions,
            message_metadata,
            metadata: request.metadata,
        };
        done = Box::pin(answer_questions(call, &*peer, answer, true)).await;
    }
    done
}

/// Queries a task once; `without_history` where a page of an artifact's text is wanted, for which there may be many messages.
///
/// # Errors
/// The query failed.
async fn status(
    call: &mut Call<'_>,
    request: Box<Request>,
    without_history: bool,
) -> Result<(), ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    let task_id = task_id(call)?;
    let history = match without_history {
        true => Some(0),
        false => request.history_length,
    };
    let task = call
        .deadline
        .run(call.metrics.get_task(&*peer, &task_id, history))
        .await??;
    call.add_answer(Reply::Task(task).into(), false)
}

/// Cancels a task. The state in the result shows whether that succeeded.
///
/// # Errors
/// The request failed, or the agent refused.
async fn cancel(call: &mut Call<'_>, request: Box<Request>) -> Result<(), ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    let task_id = task_id(call)?;
    let task = call
        .deadline
        .run(call.metrics.cancel(&*peer, &task_id))
        .await??;
    check_task(&task_id, task.id())?;
    call.add_answer(Reply::Task(task).into(), false)
}

fn parameters(request: &Request) -> Vec<(String, String)> {
    request
        .service_parameters
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn task_id(call: &Call<'_>) -> Result<String, ToolError> {
    call.task_id.clone().ok_or_else(|| {
        let message = "the request names no task";
        let problem = violation("", "anyOf", json!({}), message);
        ToolError::invalid(vec![problem], 0)
    })
}

/// `error.details.capability_diagnostics` of a failed send.
#[derive(Debug, Clone, Serialize, PartialEq)]
struct Diagnostics {
    requested_input_modes: Vec<String>,
    unknown_file_attachments: Vec<usize>,
    advertised_input_modes: Vec<String>,
    unsupported_input_modes: Vec<String>,
    requested_output_modes: Vec<String>,
    advertised_output_modes: Vec<String>,
    unsupported_output_modes: Vec<String>,
}

/// The media types that a request sends and accepts.
#[derive(Debug, Clone, Default)]
struct MediaTypes {
    input: Vec<String>,
    unknown: Vec<usize>,
    output: Vec<String>,
}

/// The media type of a file that has none.
const UNKNOWN_MEDIA_TYPE: &str = "unknown";

impl MediaTypes {
    fn new(outgoing: &SendRequest) -> Self {
        let mut types = Self {
            output: normalized(outgoing.accepted_output_modes.iter()),
            ..Self::default()
        };
        let mut seen = HashSet::new();
        for (i, part) in outgoing.parts.iter().enumerate() {
            let mode = match part.kind() {
                "file" => file_mode(part).unwrap_or_else(|| {
                    types.unknown.push(i);
                    UNKNOWN_MEDIA_TYPE.to_owned()
                }),
                "data" => "application/json".to_owned(),
                _ => "text/plain".to_owned(),
            };
            if seen.insert(mode.clone()) {
                types.input.push(mode);
            }
        }
        types
    }

    /// Compares the media types with a card. Without a card the peer's are unknown.
    fn compare(&self, card: Option<&CardView>) -> Diagnostics {
        let advertised = |of_card: fn(&CardView) -> &Vec<String>,
                          of_skill: fn(&a2a::Skill) -> &Vec<String>| {
            let card_modes = card.into_iter().flat_map(of_card);
            let skill_modes = card
                .into_iter()
                .flat_map(|card| card.skills.iter().flat_map(of_skill));
            normalized(card_modes.chain(skill_modes))
        };
        let input = advertised(|card| &card.default_input_modes, |skill| &skill.input_modes);
        let output = advertised(
            |card| &card.default_output_modes,
            |skill| &skill.output_modes,
        );
        let missing = |requested: &[String], offered: &[String]| {
            let offered: HashSet<&String> = offered.iter().collect();
            let known = requested.iter().filter(|mode| *mode != UNKNOWN_MEDIA_TYPE);
            known
                .filter(|mode| !offered.contains(mode))
                .cloned()
                .collect()
        };
        Diagnostics {
            unsupported_input_modes: missing(&self.input, &input),
            unsupported_output_modes: missing(&self.output, &output),
            requested_input_modes: self.input.clone(),
            unknown_file_attachments: self.unknown.clone(),
            advertised_input_modes: input,
            requested_output_modes: self.output.clone(),
            advertised_output_modes: output,
        }
    }
}

/// Returns a file's media type: as given, else by the extension of its URL, else by that of its name.
fn file_mode(part: &Part) -> Option<String> {
    if let Some(media_type) = part
        .file_field("mimeType")
        .map(str::trim)
        .filter(|media_type| !media_type.is_empty())
    {
        return Some(media_type.to_ascii_lowercase());
    }
    let by_path = |path: &str| {
        mime_guess::from_path(path)
            .first()
            .map(|mime| mime.essence_str().to_owned())
    };
    let url = part.file_field("uri").and_then(|uri| Url::parse(uri).ok());
    url.and_then(|url| by_path(url.path()))
        .or_else(|| part.file_field("name").and_then(by_path))
}

/// Trims, lower-cases and deduplicates. A card may list any number of media types.
fn normalized<'a>(modes: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = HashSet::new();
    modes
        .map(|mode| mode.trim().to_ascii_lowercase())
        .filter(|mode| !mode.is_empty() && seen.insert(mode.clone()))
        .collect()
}

/// Adds the diagnostics of a failed send to `details`.
fn with_diagnostics(error: ToolError, diagnostics: &Diagnostics) -> ToolError {
    let diagnostics = serde_json::to_value(diagnostics).unwrap_or(Value::Null);
    error.with("capability_diagnostics", diagnostics)
}
