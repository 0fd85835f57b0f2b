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
use axum::extract::{
    DefaultBodyLimit, FromRequest, FromRequestParts, Multipart, Path, Request, State,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use self::drafts::{Draft, Drafts, Input, Upload};

use self::steps::{ArtifactFile, PageQuery, StepBudget};
use super::error::{self, Failure};
use super::{App, Router, request};
use crate::service::CallContext;
use crate::store::{Filter, Summary};
use a2a::Version;

/// The maximum number of steps of a task, and of A2A tasks in a list of tasks. The server omits older ones.
const MAX_LISTED: usize = 1000;

/// The state that the handlers share.
struct AgentProtocol {
    app: Arc<App>,
    drafts: Drafts,
}

type AppState = State<Arc<AgentProtocol>>;
type Answer = Result<Json<Value>, Rejection>;

/// Returns the routes, at the root for the default agent and below `/agents/NAME` for each agent.
pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for prefix in ["", "/agents/{agent}"] {
        let tasks = format!("{prefix}/ap/v1/agent/tasks");
        let task = format!("{tasks}/{{task}}");
        router = router
            .route(
                &tasks,
                get(AgentProtocol::list_tasks).post(AgentProtocol::create_task),
            )
            .route(&task, get(AgentProtocol::get_task))
            .route(
                &format!("{task}/steps"),
                get(AgentProtocol::list_steps).post(AgentProtocol::execute_step),
            )
            .route(
                &format!("{task}/steps/{{step}}"),
                get(AgentProtocol::get_step),
            )
            .route(
                &format!("{task}/artifacts"),
                get(AgentProtocol::list_artifacts).post(AgentProtocol::upload_artifact),
            )
            .route(
                &format!("{task}/artifacts/{{artifact}}"),
                get(AgentProtocol::download),
            );
    }
    router.with_state(Arc::new(AgentProtocol {
        app,
        drafts: Drafts::default(),
    }))
}

/// A rejected request.
#[derive(Debug)]
struct Rejection(Failure);

impl<E: Into<Failure>> From<E> for Rejection {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The protocol uses 422 for invalid input.
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Failure { error, status } = self.0;
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

/// The parameters in a path.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Segments {
    agent: Option<String>,
    task: String,
    step: String,
    artifact: String,
}

/// The client of a request, and the task in its path.
struct Call {
    caller: CallContext,
    path: Segments,
}

impl FromRequestParts<Arc<AgentProtocol>> for Call {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<AgentProtocol>,
    ) -> Result<Self, Response> {
        let path = Path::<Segments>::from_request_parts(parts, state).await;
        let Path(mut path) = path.map_err(IntoResponse::into_response)?;
        let client = async {
            let principal = request::principal(parts)?;
            let agent = request::agent(&state.app, path.agent.take(), None).await?;
            Ok::<_, Rejection>((principal, agent))
        };
        let (principal, agent) = client.await.map_err(IntoResponse::into_response)?;
        let caller = principal.call_context(Version::V1_0, agent);
        Ok(Self { caller, path })
    }
}

/// The body of a request that creates a task or a step. It may be empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputBody {
    input: Option<String>,
    additional_input: Value,
}

impl FromRequest<Arc<AgentProtocol>> for InputBody {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &Arc<AgentProtocol>) -> Result<Self, Rejection> {
        let (parts, body) = request.into_parts();
        let bytes = request::read_optional_body(&state.app, &parts, body).await?;
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| invalid_input("body", format!("cannot read the body: {error}")).into())
    }
}

impl AgentProtocol {
    async fn create_task(State(state): AppState, call: Call, body: InputBody) -> Answer {
        let agent = match (&call.caller.agent, body.additional_input["agent"].as_str()) {
            (None, Some(named)) => {
                let known = state.app.service.agents().await?;
                if !known.iter().any(|agent| agent.name == named) {
                    let reason = "`additional_input.agent` names no agent of this server";
                    return Err(invalid_input("additional_input.agent", reason).into());
                }
                Some(named.to_owned())
            }
            (agent, _) => agent.clone(),
        };
        let task = uuid::Uuid::new_v4().to_string();
        let input = Input::new(body.input, &body.additional_input, agent);
        let shown = task_json(&task, input.text.as_deref(), &body.additional_input, &[]);
        let now = state.app.service.now();
        let draft = Draft::new(&call.caller.client, Some(input), now);
        state.drafts.insert(&task, draft, now)?;
        Ok(Json(shown))
    }

    async fn list_tasks(State(state): AppState, call: Call, query: PageQuery) -> Answer {
        let now = state.app.service.now();
        let mut tasks = state.drafts.unstarted(&call.caller.client, now);
        let mut known: HashMap<String, usize> = HashMap::new();
        for step in state.summaries(&call, None).await? {
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
        Ok(Json(query.page("tasks", shown.collect(), tasks.len())))
    }

    async fn get_task(State(state): AppState, call: Call) -> Answer {
        let draft = state.draft(&call);
        let (artifacts, first) = state.artifacts(&call, draft.as_ref()).await?;
        let input = draft.and_then(|draft| draft.input);
        let input = input.map(|input| (input.text.clone(), input.additional()));
        let (input, additional) = input.or(first).unwrap_or_default();
        let task = &call.path.task;
        Ok(Json(task_json(
            task,
            input.as_deref(),
            &additional,
            &artifacts,
        )))
    }

    async fn list_steps(State(state): AppState, call: Call, query: PageQuery) -> Answer {
        let summaries = state.steps(&call, state.draft(&call).as_ref()).await?;
        let mut shown = Vec::new();
        let mut budget = state.budget();
        for summary in query.items(&summaries) {
            if let Some(step) = state.load(&call, &summary.id).await? {
                budget.spend(&step)?;
                shown.push(steps::json(&call.path.task, &step));
            }
        }
        Ok(Json(query.page("steps", shown, summaries.len())))
    }

    async fn get_step(State(state): AppState, call: Call) -> Answer {
        let step = state.load(&call, &call.path.step).await?;
        let step = step.ok_or_else(|| not_found("step"))?;
        Ok(Json(steps::json(&call.path.task, &step)))
    }

    async fn execute_step(State(state): AppState, call: Call, body: InputBody) -> Answer {
        let draft = state.draft(&call);
        let before = state.summaries(&call, Some(&call.path.task)).await?;
        if draft.is_none() && before.is_empty() {
            return Err(not_found("task").into());
        }
        let last = before.first();
        let step = match last {
            Some(last) => state.load(&call, &last.id).await?,
            None => None,
        };
        let inherited = step.as_ref().and_then(steps::delegation);
        let (caller, task) = (&call.caller, &call.path.task);
        let send = steps::request(caller, task, draft.as_ref(), last, inherited, body)?;
        let sent = state.app.service.send(&call.caller, send).await?;
        state.drafts.remove_used(&call.path.task, draft.as_ref());
        Ok(Json(steps::sent_json(&call.path.task, sent)))
    }

    async fn list_artifacts(State(state): AppState, call: Call, query: PageQuery) -> Answer {
        let (artifacts, _) = state.artifacts(&call, state.draft(&call).as_ref()).await?;
        let shown = query.items(&artifacts).to_vec();
        Ok(Json(query.page("artifacts", shown, artifacts.len())))
    }

    async fn upload_artifact(State(state): AppState, call: Call, request: Request) -> Answer {
        state.steps(&call, state.draft(&call).as_ref()).await?;
        let upload = state.upload(request).await?;
        let shown = upload.json();
        let now = state.app.service.now();
        let client = &call.caller.client;
        state.drafts.add(client, &call.path.task, upload, now)?;
        Ok(Json(shown))
    }

    /// Reads the file of a multipart form, and the field `relative_path` if it is present.
    async fn upload(&self, request: Request) -> Result<Upload, Failure> {
        let (parts, body) = request.into_parts();
        let bytes = request::read_any_body(&self.app, &parts, body).await?;
        let mut form = Request::new(Body::from(bytes));
        *form.headers_mut() = parts.headers;
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

    async fn download(State(state): AppState, call: Call) -> Result<Response, Rejection> {
        let artifact_id = call.path.artifact.as_str();
        let draft = state.draft(&call);
        let mut files = draft.iter().flat_map(|draft| &draft.files);
        if let Some(file) = files.find(|file| *file.id == *artifact_id) {
            return Ok(ArtifactFile::from(file.clone()).into_response());
        }
        let find_in = |step: &Task| {
            let mut artifacts = steps::artifacts_of(step).into_iter();
            let found = artifacts.find(|found| *found.id == *artifact_id);
            found.map(ArtifactFile::into_response)
        };
        if let Some(step) = steps::step_of_artifact(artifact_id) {
            let step = state.load(&call, step).await?;
            let found = step.as_ref().and_then(find_in);
            return found.ok_or_else(|| not_found("artifact").into());
        }
        // The id of an uploaded file does not contain the step that uses it, so search all steps.
        let mut budget = state.budget();
        for summary in state.steps(&call, draft.as_ref()).await?.iter().rev() {
            let Some(step) = state.load(&call, &summary.id).await? else {
                continue;
            };
            if let Some(found) = find_in(&step) {
                return Ok(found);
            }
            budget.spend(&step)?;
        }
        Err(not_found("artifact").into())
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
        let mut summaries = self.summaries(call, Some(&call.path.task)).await?;
        if summaries.is_empty() && draft.is_none() {
            return Err(not_found("task"));
        }
        summaries.reverse();
        Ok(summaries)
    }

    /// Loads a step; `None` if the task has no such step.
    async fn load(&self, call: &Call, id: &str) -> Result<Option<Task>, Failure> {
        match self.app.service.get(&call.caller, id, None).await {
            Ok(step) => Ok(Some(step).filter(|step| step.context_id == call.path.task)),
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
        self.drafts.get(&call.caller.client, &call.path.task, now)
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
