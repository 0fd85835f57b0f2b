//! Writes tasks of A2A as steps of the Agent Protocol, with their artifacts (the parts that the agent created, and the files
//! of the client), and the pages of lists.

use std::collections::HashMap;
use std::sync::Arc;

use a2a::v1_0::{
    Artifact, Message, Part, PartContent, Role, SendMessageRequest, SendMessageResponse, Task,
    TaskState,
};
use a2a::{A2aError, DELEGATION_KEY, ErrorReason};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use base::json::encoded_bytes;
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Parts;
use serde_json::{Value, json};

use super::drafts::{Draft, Input, Upload, base_name, safe_relative_path};
use super::{InputBody, Rejection, invalid_input};
use crate::http::error::Failure;
use crate::service::CallContext;
use crate::service::{AGENT, SendMessage};
use crate::store::Summary;

/// The metadata key of a message for the additional input of a task or step.
const ADDITIONAL_INPUT: &str = "openclaw-remote-agent/additional-input";

/// Returns the message for the next step of a task. `last` is the previous step and `inherited` its delegation. The
/// next step continues that chain of agents, unless its own input or that of the task contains a delegation.
///
/// # Errors
/// There is no input text.
pub(super) fn request(
    caller: &CallContext,
    task: &str,
    draft: Option<&Draft>,
    last: Option<&Summary>,
    inherited: Option<Value>,
    body: InputBody,
) -> Result<SendMessage, Failure> {
    let start = draft.and_then(|draft| draft.input.as_ref());
    let input = body.input.filter(|text| !text.is_empty());
    let mut texts: Vec<String> = start
        .and_then(|input| input.text.clone())
        .into_iter()
        .collect();
    texts.extend(input.filter(|input| !texts.contains(input)));
    if texts.is_empty() {
        let reason = "`input` is missing; the agent has done what it was asked before";
        return Err(invalid_input("input", reason));
    }
    let mut parts: Vec<Part> = texts.into_iter().map(Part::text).collect();
    let files = draft
        .map(|draft| draft.files.as_slice())
        .unwrap_or_default();
    parts.extend(files.iter().map(file_part));
    let task_input = start.map(Input::additional).unwrap_or_default();
    let inputs = [&body.additional_input, &task_input];
    let own_delegation = inputs.iter().find_map(|input| input.get(DELEGATION_KEY));
    let delegation = own_delegation.cloned().or(inherited);
    let additional = match body.additional_input {
        Value::Null => task_input,
        explicit => explicit,
    };
    let mut metadata = HashMap::new();
    if let Some(delegation) = delegation {
        metadata.insert(DELEGATION_KEY.to_owned(), delegation);
    }
    if !additional.is_null() {
        metadata.insert(ADDITIONAL_INPUT.to_owned(), additional);
    }
    let agent_name = match start {
        Some(input) => input.agent.clone(),
        None => last.and_then(|last| last.agent.clone()),
    };
    if let (Some(agent), None) = (agent_name, &caller.agent) {
        metadata.insert(AGENT.to_owned(), agent.into());
    }
    let mut message = Message::new(Role::User, parts);
    message.context_id = Some(task.to_owned());
    // The answer to a question continues the task with the question.
    message.task_id = last
        .filter(|last| {
            matches!(
                last.state,
                TaskState::InputRequired | TaskState::AuthRequired
            )
        })
        .map(|last| last.id.clone());
    message.metadata = (!metadata.is_empty()).then_some(metadata);
    let request = SendMessageRequest {
        message,
        configuration: None,
        metadata: None,
        tenant: None,
    };
    Ok(SendMessage {
        request,
        return_immediately: Some(false),
    })
}

fn file_part(file: &Upload) -> Part {
    let mut part = Part::raw(file.bytes.to_vec());
    part.filename = Some(file.file_name.clone());
    part.media_type.clone_from(&file.media_type);
    let mut metadata = HashMap::from([(ARTIFACT_ID.to_owned(), Value::from(&*file.id))]);
    if let Some(path) = &file.relative_path {
        metadata.insert(RELATIVE_PATH.to_owned(), path.as_str().into());
    }
    part.metadata = Some(metadata);
    part
}

/// Returns the step as JSON for the result of a sent message.
pub(super) fn sent_json(task: &str, sent: SendMessageResponse) -> Value {
    match sent {
        SendMessageResponse::Task(step) => json(task, &step),
        SendMessageResponse::Message(message) => json!({
            "task_id": task,
            "step_id": message.message_id,
            "name": null,
            "status": "completed",
            "output": join_texts(&message.parts),
            "additional_output": null,
            "artifacts": [],
            "is_last": true,
        }),
    }
}

/// Returns a step as JSON.
pub(super) fn json(task: &str, step: &Task) -> Value {
    let state = &step.status.state;
    let status = match state {
        TaskState::Unspecified | TaskState::Submitted => "created",
        TaskState::Working => "running",
        _ => "completed",
    };
    let message_text = step.status.message.as_ref();
    let message_text = message_text.and_then(|message| join_texts(&message.parts));
    let artifact_texts = step.artifacts.iter().flatten();
    // A streamed text arrives in several parts, which may split it anywhere.
    let text = |artifact: &Artifact| artifact.parts.iter().filter_map(Part::as_text).collect();
    let artifact_texts: Vec<String> = artifact_texts
        .map(text)
        .filter(|text: &String| !text.is_empty())
        .collect();
    let output =
        message_text.or_else(|| (!artifact_texts.is_empty()).then(|| artifact_texts.join("\n\n")));
    let artifacts: Vec<Value> = agent_artifacts(step)
        .iter()
        .map(ArtifactFile::json)
        .collect();
    json!({
        "task_id": task,
        "step_id": step.id,
        "name": null,
        "input": input(step),
        "additional_input": additional_input(step),
        "status": status,
        "output": output,
        "additional_output": {"state": state},
        "artifacts": artifacts,
        "is_last": state.is_terminal(),
    })
}

/// Returns the text of the client's first message.
pub(super) fn input(step: &Task) -> Option<String> {
    join_texts(&first_user_message(step)?.parts)
}

/// Returns the additional input of the client's first message.
pub(super) fn additional_input(step: &Task) -> Value {
    let metadata = first_user_message(step).and_then(|message| message.metadata.as_ref());
    let additional = metadata.and_then(|metadata| metadata.get(ADDITIONAL_INPUT));
    additional.cloned().unwrap_or_default()
}

/// Returns the delegation of the client's first message.
pub(super) fn delegation(step: &Task) -> Option<Value> {
    let metadata = first_user_message(step)?.metadata.as_ref()?;
    metadata.get(DELEGATION_KEY).cloned()
}

fn first_user_message(step: &Task) -> Option<&Message> {
    let mut messages = step.history.iter().flatten();
    messages.find(|message| message.role == Role::User)
}

/// Returns the concatenated text parts; `None` if there are none.
fn join_texts(parts: &[Part]) -> Option<String> {
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Limits the bytes of steps that one request may load. The first step always fits.
pub(super) struct StepBudget {
    limit: usize,
    spent: usize,
}

impl StepBudget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, spent: 0 }
    }

    /// Counts a step.
    ///
    /// # Errors
    /// The steps exceed the limit.
    pub(super) fn spend(&mut self, step: &Task) -> Result<(), Failure> {
        let is_first = self.spent == 0;
        self.spent = self.spent.saturating_add(encoded_bytes(step));
        if is_first || self.spent <= self.limit {
            return Ok(());
        }
        let text = format!(
            "the steps exceed {} bytes; list fewer of them with `page_size`, or get one by its id",
            self.limit
        );
        Err(A2aError::new(ErrorReason::ResourceExhausted, text).into())
    }
}

/// The default number of items on a page.
const DEFAULT_PAGE_SIZE: usize = 10;

/// The maximum number of items on a page.
const MAX_PAGE_SIZE: usize = 100;

/// The page that a query requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageQuery {
    number: usize,
    size: usize,
}

/// Reads `current_page` and `page_size`, which must be numbers in range.
impl<S: Sync> FromRequestParts<S> for PageQuery {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let mut query = Self {
            number: 1,
            size: DEFAULT_PAGE_SIZE,
        };
        let text = parts.uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let number = value.parse::<usize>().ok().filter(|number| *number > 0);
            match name.as_ref() {
                "current_page" => {
                    let reason = "`current_page` must be 1 or more";
                    query.number = number.ok_or_else(|| invalid_input("current_page", reason))?;
                }
                "page_size" => {
                    let number = number.filter(|size| *size <= MAX_PAGE_SIZE);
                    let reason = format!("`page_size` must be 1 to {MAX_PAGE_SIZE}");
                    query.size = number.ok_or_else(|| invalid_input("page_size", reason))?;
                }
                _ => {}
            }
        }
        Ok(query)
    }
}

impl PageQuery {
    /// Returns the `items` on the page.
    pub(super) fn items<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let before = (self.number - 1).saturating_mul(self.size);
        let rest = items.get(before..).unwrap_or_default();
        rest.get(..self.size).unwrap_or(rest)
    }

    /// Returns the page as JSON: the items `shown` under `name`, and `total` as the number of all items.
    pub(super) fn page(&self, name: &str, shown: Vec<Value>, total: usize) -> Value {
        json!({
            name: shown,
            "pagination": {
                "total_items": total,
                "total_pages": total.div_ceil(self.size),
                "current_page": self.number,
                "page_size": self.size,
            },
        })
    }
}

/// The metadata key of a part for the id of the uploaded file.
const ARTIFACT_ID: &str = "openclaw-remote-agent/artifact";

/// The metadata key of a part for the path that the client gave the file.
const RELATIVE_PATH: &str = "openclaw-remote-agent/relative-path";

/// An artifact of a step, or an uploaded file.
pub(super) struct ArtifactFile<'a> {
    pub(super) id: Arc<str>,
    by_agent: bool,
    file_name: String,
    relative_path: Option<String>,
    content: Content<'a>,
}

enum Content<'a> {
    Upload(Bytes),
    Part(&'a Part),
    /// Consecutive text parts.
    Texts(&'a [Part]),
}

impl ArtifactFile<'_> {
    pub(super) fn json(&self) -> Value {
        json!({
            "artifact_id": &*self.id,
            "agent_created": self.by_agent,
            "file_name": self.file_name,
            "relative_path": self.relative_path,
        })
    }
}

impl From<Upload> for ArtifactFile<'_> {
    fn from(upload: Upload) -> Self {
        Self {
            id: upload.id,
            by_agent: false,
            file_name: upload.file_name,
            relative_path: upload.relative_path,
            content: Content::Upload(upload.bytes),
        }
    }
}

/// Returns a download, so that a browser does not render the content as a page of this server.
impl IntoResponse for ArtifactFile<'_> {
    fn into_response(self) -> Response {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        let name: String = self
            .file_name
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let headers = [
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (
                CONTENT_DISPOSITION,
                format!("attachment; filename=\"{name}\""),
            ),
        ];
        let bytes = match self.content {
            Content::Upload(bytes) => bytes,
            Content::Texts(texts) => {
                let texts = texts.iter().filter_map(Part::as_text);
                texts.collect::<String>().into()
            }
            Content::Part(part) => match &part.content {
                PartContent::Text(text) => text.clone().into(),
                PartContent::Raw(bytes) => bytes.clone().into(),
                PartContent::Url(url) => url.clone().into(),
                PartContent::Data(data) => data.to_string().into(),
            },
        };
        (headers, bytes).into_response()
    }
}

/// Returns the artifacts of a step: first the client's files, then those of the agent. Each part is an artifact.
pub(super) fn artifacts_of(step: &Task) -> Vec<ArtifactFile<'_>> {
    let messages = step.history.iter().flatten();
    let messages = messages.filter(|message| message.role == Role::User);
    let files = messages
        .flat_map(|message| &message.parts)
        .filter(|part| !matches!(part.content, PartContent::Text(_) | PartContent::Data(_)));
    let files = files.enumerate().map(|(number, part)| {
        // An id with a dot would refer to a step.
        let given_id = text(part, ARTIFACT_ID).filter(|id| !id.contains('.'));
        let id = given_id.unwrap_or_else(|| format!("{}.file.{number}", step.id));
        artifact_file(part, id, false, None)
    });
    files.chain(agent_artifacts(step)).collect()
}

/// Returns the step in the id of an artifact; `None` for the id of an upload.
pub(super) fn step_of_artifact(artifact: &str) -> Option<&str> {
    let (rest, _) = artifact.rsplit_once('.')?;
    rest.rsplit_once('.').map(|(step, _)| step)
}

/// Returns the artifacts that the agent created in a step. Consecutive texts form one artifact, because a streamed text
/// arrives in several parts.
fn agent_artifacts(step: &Task) -> Vec<ArtifactFile<'_>> {
    let artifacts = step.artifacts.iter().flatten().enumerate();
    let artifacts = artifacts.flat_map(|(index, artifact)| {
        let is_text = |part: &Part| part.as_text().is_some() && part.filename.is_none();
        let runs = artifact
            .parts
            .chunk_by(move |a, b| is_text(a) && is_text(b));
        runs.enumerate().filter_map(move |(number, run)| {
            let (first, rest) = run.split_first()?;
            let id = format!("{}.{index}.{number}", step.id);
            let name = artifact.name.as_ref().unwrap_or(&artifact.artifact_id);
            let mut file = artifact_file(first, id, true, Some(name.as_str()));
            if !rest.is_empty() {
                file.content = Content::Texts(run);
            }
            Some(file)
        })
    });
    artifacts.collect()
}

fn artifact_file<'a>(
    part: &'a Part,
    id: String,
    by_agent: bool,
    name: Option<&str>,
) -> ArtifactFile<'a> {
    let extension = match &part.content {
        PartContent::Text(_) => "txt",
        PartContent::Raw(_) => "bin",
        PartContent::Url(_) => "url",
        PartContent::Data(_) => "json",
    };
    let made_up = || format!("{}.{extension}", name.unwrap_or("file"));
    ArtifactFile {
        id: id.into(),
        by_agent,
        file_name: base_name(&part.filename.clone().unwrap_or_else(made_up)),
        relative_path: text(part, RELATIVE_PATH).and_then(|path| safe_relative_path(&path)),
        content: Content::Part(part),
    }
}

fn text(part: &Part, key: &str) -> Option<String> {
    part.metadata
        .as_ref()?
        .get(key)?
        .as_str()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn steps_above_the_limit_are_refused() {
        let task = json!({"id": "1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
        let step: Task = serde_json::from_value(task).unwrap();
        let size = encoded_bytes(&step);
        let mut budget = StepBudget::new(2 * size);
        assert!(budget.spend(&step).is_ok() && budget.spend(&step).is_ok());
        let refused = budget.spend(&step).unwrap_err().error;
        assert_eq!(refused.reason, ErrorReason::ResourceExhausted);
        let mut budget = StepBudget::new(size - 1);
        assert!(budget.spend(&step).is_ok(), "the first step always fits");
    }

    fn parse(query: &str) -> Result<PageQuery, Rejection> {
        let request = http::Request::get(format!("/ap/v1/agent/tasks?{query}"));
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        PageQuery::from_request_parts(&mut parts, &())
            .now_or_never()
            .unwrap()
    }

    #[test]
    fn page_has_its_items_and_the_totals() {
        let page = parse("page_size=2&current_page=2").unwrap();
        let items = page.items(&[1, 2, 3]);
        let shown = page.page("tasks", items.iter().map(|item| json!(item)).collect(), 3);
        let pagination =
            json!({"total_items": 3, "total_pages": 2, "current_page": 2, "page_size": 2});
        assert_eq!(shown, json!({"tasks": [3], "pagination": pagination}));
    }

    #[test]
    fn page_after_the_last_is_empty() {
        let page = parse("current_page=18446744073709551615").unwrap();
        assert!(page.items(&[1]).is_empty());
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        for query in [
            "page_size=0",
            "page_size=101",
            "current_page=-1",
            "page_size=x",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }
}
