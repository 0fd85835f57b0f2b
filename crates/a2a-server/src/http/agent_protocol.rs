//! The endpoints of the Agent Protocol, version 1 (`/ap/v1/agent/tasks` in its OpenAPI document), for the same service.
//!
//! A task of that protocol is a context of A2A, and a step is a task of A2A in that context. The server stores no work
//! twice, and a client sees the same work over both protocols. Only tasks without a step, and uploaded files that are
//! not yet part of a step, are stored separately, in memory (`drafts`).

mod drafts;
mod steps;

use std::collections::HashMap;
use std::sync::Arc;

use a2a::v1_0::Task;
use a2a::{A2aError, ErrorReason};
use axum::Json;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use self::drafts::{Draft, Drafts, Input, Upload};

use self::steps::{ArtifactFile, PageQuery, StepBudget};
use super::error::{self, Failure};
use super::{App, Router, request};
use crate::call_context::{CallContext, Version};
use crate::store::{Filter, Summary};

/// The maximum number of steps of a task, and of A2A tasks in a list of tasks. The server omits older ones.
const MAX_LISTED: usize = 1000;

/// The state that the handlers share.
struct AgentProtocol {
    app: Arc<App>,
    drafts: Drafts,
}

type Answer = Result<Value, Failure>;
type Segments = HashMap<String, String>;

/// Returns the routes, at the root for the default agent and below `/agents/NAME` for each agent.
pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for prefix in ["", "/agents/{agent}"] {
        let tasks = format!("{prefix}/ap/v1/agent/tasks");
        let task = format!("{tasks}/{{task}}");
        router = router
            .route(&tasks, get(list_tasks).post(create_task))
            .route(&task, get(get_task))
            .route(&format!("{task}/steps"), get(list_steps).post(execute_step))
            .route(&format!("{task}/steps/{{step}}"), get(get_step))
            .route(
                &format!("{task}/artifacts"),
                get(list_artifacts).post(upload_artifact),
            )
            .route(&format!("{task}/artifacts/{{artifact}}"), get(download));
    }
    router.with_state(Arc::new(AgentProtocol {
        app,
        drafts: Drafts::default(),
    }))
}

/// The body of a request that creates a task or a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputBody {
    input: Option<String>,
    additional_input: Value,
}

async fn create_task(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.create_task(segments, request).await)
}

async fn list_tasks(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.list_tasks(segments, request).await)
}

async fn get_task(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.get_task(segments, request).await)
}

async fn execute_step(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.execute_step(segments, request).await)
}

async fn list_steps(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.list_steps(segments, request).await)
}

async fn get_step(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.get_step(segments, request).await)
}

async fn list_artifacts(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.list_artifacts(segments, request).await)
}

async fn upload_artifact(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    respond(state.upload_artifact(segments, request).await)
}

async fn download(
    State(state): State<Arc<AgentProtocol>>,
    Path(segments): Path<Segments>,
    request: Request,
) -> Response {
    match state.download(segments, request).await {
        Ok(found) => found,
        Err(failure) => error_response(failure),
    }
}

fn respond(answer: Answer) -> Response {
    match answer {
        Ok(value) => Json(value).into_response(),
        Err(failure) => error_response(failure),
    }
}

/// Returns the response to a rejected request. The protocol uses 422 for invalid input.
fn error_response(failure: Failure) -> Response {
    let Failure { error, status } = failure;
    let invalid = matches!(
        error.reason,
        ErrorReason::InvalidParams | ErrorReason::ParseError
    );
    let status = match (status, invalid) {
        (Some(status), _) => status,
        (None, true) => StatusCode::UNPROCESSABLE_ENTITY,
        (None, false) => error.reason.status().0,
    };
    error::rest(Version::V1_0, &Failure::with(error, status))
}

fn invalid_input(place: &'static str, reason: impl Into<String>) -> Failure {
    A2aError::new(ErrorReason::InvalidParams, reason.into())
        .at(place)
        .into()
}

fn not_found(what: &str) -> Failure {
    let text = format!("unknown {what}; list those of this client first");
    A2aError::new(ErrorReason::TaskNotFound, text).into()
}

/// A request with its client and the task in its path.
struct Call {
    caller: CallContext,
    task: String,
    segments: Segments,
    parts: Parts,
}

impl AgentProtocol {
    async fn call(
        &self,
        mut segments: Segments,
        request: Request,
    ) -> Result<(Call, Body), Failure> {
        let (parts, body) = request.into_parts();
        let principal = request::principal(&parts)?;
        let agent = request::agent(&self.app, segments.remove("agent"), None).await?;
        let call = Call {
            caller: CallContext {
                client: principal.name.to_string(),
                authenticated: principal.authenticated,
                version: Version::V1_0,
                agent,
            },
            task: segments.remove("task").unwrap_or_default(),
            segments,
            parts,
        };
        Ok((call, body))
    }

    /// Reads the input in the body, which may be empty.
    async fn input(&self, call: &Call, body: Body) -> Result<InputBody, Failure> {
        let bytes = request::read_optional_body(&self.app, &call.parts, body).await?;
        if bytes.is_empty() {
            return Ok(InputBody::default());
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| invalid_input("body", format!("cannot read the body: {error}")))
    }

    async fn create_task(&self, segments: Segments, request: Request) -> Answer {
        let (call, body) = self.call(segments, request).await?;
        let body = self.input(&call, body).await?;
        let agent = match (&call.caller.agent, body.additional_input["agent"].as_str()) {
            (None, Some(named)) => {
                let known = self.app.service.agents().await?;
                if !known.iter().any(|agent| agent.name == named) {
                    let reason = "`additional_input.agent` names no agent of this server";
                    return Err(invalid_input("additional_input.agent", reason));
                }
                Some(named.to_owned())
            }
            (agent, _) => agent.clone(),
        };
        let task = uuid::Uuid::new_v4().to_string();
        let input = Input::new(body.input, &body.additional_input, agent);
        let shown = task_json(&task, input.text.as_deref(), &body.additional_input, &[]);
        let now = self.app.service.now();
        let draft = Draft::new(&call.caller.client, Some(input), now);
        self.drafts.insert(&task, draft, now)?;
        Ok(shown)
    }

    async fn list_tasks(&self, segments: Segments, request: Request) -> Answer {
        let (call, _) = self.call(segments, request).await?;
        let query = PageQuery::parse(&call.parts)?;
        let now = self.app.service.now();
        let mut tasks = self.drafts.unstarted(&call.caller.client, now);
        let mut known: HashMap<String, usize> = HashMap::new();
        for step in self.summaries(&call, None).await? {
            let shown = (step.context_id.clone(), step.request_excerpt);
            match known.get(&step.context_id) {
                // The first step has the input of the task.
                Some(place) => tasks[*place] = shown,
                None => {
                    known.insert(step.context_id, tasks.len());
                    tasks.push(shown);
                }
            }
        }
        let shown = query.items(&tasks).iter();
        let shown = shown.map(|(id, input)| task_json(id, input.as_deref(), &Value::Null, &[]));
        Ok(query.page("tasks", shown.collect(), tasks.len()))
    }

    async fn get_task(&self, segments: Segments, request: Request) -> Answer {
        let (call, _) = self.call(segments, request).await?;
        let draft = self.draft(&call);
        let (artifacts, first) = self.artifacts(&call, draft.as_ref()).await?;
        let input = draft.and_then(|draft| draft.input);
        let input = input.map(|input| (input.text.clone(), input.additional()));
        let (input, additional) = input.or(first).unwrap_or_default();
        Ok(task_json(
            &call.task,
            input.as_deref(),
            &additional,
            &artifacts,
        ))
    }

    async fn list_steps(&self, segments: Segments, request: Request) -> Answer {
        let (call, _) = self.call(segments, request).await?;
        let query = PageQuery::parse(&call.parts)?;
        let summaries = self.steps(&call, self.draft(&call).as_ref()).await?;
        let mut shown = Vec::new();
        let mut budget = self.budget();
        for summary in query.items(&summaries) {
            if let Some(step) = self.load(&call, &summary.id).await? {
                budget.spend(&step)?;
                shown.push(steps::json(&call.task, &step));
            }
        }
        Ok(query.page("steps", shown, summaries.len()))
    }

    async fn get_step(&self, segments: Segments, request: Request) -> Answer {
        let (call, _) = self.call(segments, request).await?;
        let id = call
            .segments
            .get("step")
            .map(String::as_str)
            .unwrap_or_default();
        let step = self.load(&call, id).await?;
        let step = step.ok_or_else(|| not_found("step"))?;
        Ok(steps::json(&call.task, &step))
    }

    async fn execute_step(&self, segments: Segments, request: Request) -> Answer {
        let (call, body) = self.call(segments, request).await?;
        let body = self.input(&call, body).await?;
        let draft = self.draft(&call);
        let before = self.summaries(&call, Some(&call.task)).await?;
        if draft.is_none() && before.is_empty() {
            return Err(not_found("task"));
        }
        let last = before.first();
        let step = match last {
            Some(last) => self.load(&call, &last.id).await?,
            None => None,
        };
        let inherited = step.as_ref().and_then(steps::delegation);
        let (caller, task) = (&call.caller, &call.task);
        let send = steps::request(caller, task, draft.as_ref(), last, inherited, body)?;
        let sent = self.app.service.send(&call.caller, send).await?;
        self.drafts.remove_used(&call.task, draft.as_ref());
        Ok(steps::sent_json(&call.task, sent))
    }

    async fn list_artifacts(&self, segments: Segments, request: Request) -> Answer {
        let (call, _) = self.call(segments, request).await?;
        let query = PageQuery::parse(&call.parts)?;
        let (artifacts, _) = self.artifacts(&call, self.draft(&call).as_ref()).await?;
        let shown = query.items(&artifacts).to_vec();
        Ok(query.page("artifacts", shown, artifacts.len()))
    }

    async fn upload_artifact(&self, segments: Segments, request: Request) -> Answer {
        let (call, body) = self.call(segments, request).await?;
        self.steps(&call, self.draft(&call).as_ref()).await?;
        let upload = self.upload(&call.parts, body).await?;
        let shown = upload.json();
        let now = self.app.service.now();
        let client = &call.caller.client;
        self.drafts.add(client, &call.task, upload, now)?;
        Ok(shown)
    }

    /// Reads the file of a multipart form, and the field `relative_path` if it is present.
    async fn upload(&self, parts: &Parts, body: Body) -> Result<Upload, Failure> {
        let bytes = request::read_any_body(&self.app, parts, body).await?;
        let mut form = Request::new(Body::from(bytes));
        *form.headers_mut() = parts.headers.clone();
        // `request::read_any_body` has checked the size.
        DefaultBodyLimit::disable().apply(&mut form);
        let invalid = |text: String| invalid_input("body", format!("cannot read the form: {text}"));
        let form = Multipart::from_request(form, &()).await;
        let mut form = form.map_err(|error| invalid(error.body_text()))?;
        let (mut file, mut relative_path) = (None, None);
        while let Some(field) = form
            .next_field()
            .await
            .map_err(|error| invalid(error.body_text()))?
        {
            let name = field.name().unwrap_or_default().to_owned();
            let file_name = field.file_name().map(str::to_owned);
            let media_type = field.content_type().map(str::to_owned);
            let bytes = field.bytes().await;
            let bytes = bytes.map_err(|error| invalid(error.body_text()))?;
            match name.as_str() {
                "file" => file = Some((file_name, media_type, bytes)),
                "relative_path" => {
                    relative_path = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
                _ => {}
            }
        }
        let Some((file_name, media_type, bytes)) = file else {
            return Err(invalid("it has no field `file`".to_owned()));
        };
        Ok(Upload::new(file_name, relative_path, media_type, bytes))
    }

    async fn download(&self, segments: Segments, request: Request) -> Result<Response, Failure> {
        let (call, _) = self.call(segments, request).await?;
        let artifact_id = call.segments.get("artifact").cloned().unwrap_or_default();
        let draft = self.draft(&call);
        let mut files = draft.iter().flat_map(|draft| &draft.files);
        if let Some(file) = files.find(|file| *file.id == *artifact_id) {
            return Ok(ArtifactFile::from(file.clone()).into_response());
        }
        let find_in = |step: &Task| {
            let mut artifacts = steps::artifacts_of(step).into_iter();
            let found = artifacts.find(|found| *found.id == *artifact_id);
            found.map(ArtifactFile::into_response)
        };
        if let Some(step) = steps::step_of_artifact(&artifact_id) {
            let step = self.load(&call, step).await?;
            let found = step.as_ref().and_then(find_in);
            return found.ok_or_else(|| not_found("artifact"));
        }
        // The id of an uploaded file does not contain the step that uses it, so search all steps.
        let mut budget = self.budget();
        for summary in self.steps(&call, draft.as_ref()).await?.iter().rev() {
            let Some(step) = self.load(&call, &summary.id).await? else {
                continue;
            };
            if let Some(found) = find_in(&step) {
                return Ok(found);
            }
            budget.spend(&step)?;
        }
        Err(not_found("artifact"))
    }

    /// Returns the newest A2A tasks of the client, in one context or in all.
    async fn summaries(&self, call: &Call, context: Option<&str>) -> Result<Vec<Summary>, Failure> {
        let filter = Filter {
            owner: Some(call.caller.client.clone()),
            context_id: context.map(str::to_owned),
            state: None,
            changed_after: None,
            page_size: MAX_LISTED,
            after: None,
        };
        let mut summaries = self.app.service.tasks(&filter).await?.tasks;
        summaries.sort_by_key(|step| std::cmp::Reverse(step.created_ms));
        Ok(summaries)
    }

    /// Returns the summaries of the steps of the task, the first step first.
    ///
    /// # Errors
    /// The client has no such task.
    async fn steps(&self, call: &Call, draft: Option<&Draft>) -> Result<Vec<Summary>, Failure> {
        let mut summaries = self.summaries(call, Some(&call.task)).await?;
        if summaries.is_empty() && draft.is_none() {
            return Err(not_found("task"));
        }
        summaries.reverse();
        Ok(summaries)
    }

    /// Loads a step; `None` if the task has no such step.
    async fn load(&self, call: &Call, id: &str) -> Result<Option<Task>, Failure> {
        match self.app.service.get(&call.caller, id, None).await {
            Ok(step) => Ok(Some(step).filter(|step| step.context_id == call.task)),
            Err(error) if error.reason == ErrorReason::TaskNotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the artifacts of the task, and the inputs of its first step. Holds one step in memory at a time.
    async fn artifacts(
        &self,
        call: &Call,
        draft: Option<&Draft>,
    ) -> Result<(Vec<Value>, Option<FirstInput>), Failure> {
        let (mut artifacts, mut first) = (Vec::new(), None);
        let mut budget = self.budget();
        for summary in self.steps(call, draft).await? {
            let Some(step) = self.load(call, &summary.id).await? else {
                continue;
            };
            budget.spend(&step)?;
            first.get_or_insert_with(|| (steps::input(&step), steps::additional_input(&step)));
            artifacts.extend(steps::artifacts_of(&step).iter().map(ArtifactFile::json));
        }
        let uploads = draft.into_iter().flat_map(|draft| &draft.files);
        artifacts.extend(uploads.map(Upload::json));
        Ok((artifacts, first))
    }

    fn draft(&self, call: &Call) -> Option<Draft> {
        let now = self.app.service.now();
        self.drafts.get(&call.caller.client, &call.task, now)
    }

    fn budget(&self) -> StepBudget {
        StepBudget::new(self.app.service.max_page_bytes())
    }
}

/// The input and additional input of a step.
type FirstInput = (Option<String>, Value);

fn task_json(id: &str, input: Option<&str>, additional: &Value, artifacts: &[Value]) -> Value {
    json!({
        "task_id": id,
        "input": input,
        "additional_input": additional,
        "artifacts": artifacts,
    })
}
