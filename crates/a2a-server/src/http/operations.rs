//! The operations of the protocol, independent of binding and version, and the JSON of their answers for each version.
//! A list is streamed in parts.

use a2a::v0_3::as_v0_3;
use a2a::v1_0::{ListTasksRequest, SendMessageResponse, Task, TaskPushNotificationConfig};
use a2a::{A2aError, Dialect, Operation};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::Either;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::request_log::RequestLog;
use super::sse::Binding;
use super::{App, card};
use crate::service::CallContext;
use crate::service::{FinishedTask, SendMessage, TaskPage, TaskUpdates};

/// A request of the protocol.
#[derive(Debug)]
pub(crate) enum Call {
    Send(Box<SendMessage>),
    Stream(Box<SendMessage>),
    Get {
        task_id: String,
        history_length: Option<i32>,
    },
    List(ListTasksRequest),
    Cancel(String),
    Subscribe(String),
    CreatePush(TaskPushNotificationConfig),
    GetPush {
        task_id: String,
        config_id: Option<String>,
    },
    ListPushes(String),
    DeletePush {
        task_id: String,
        config_id: String,
    },
    ExtendedCard,
}

impl Call {
    /// Returns the operation, and the task that the call names.
    fn operation(&self) -> (Operation, Option<&str>) {
        match self {
            Self::Send(send) => (
                Operation::SendMessage,
                send.request.message.task_id.as_deref(),
            ),
            Self::Stream(send) => (
                Operation::SendStreamingMessage,
                send.request.message.task_id.as_deref(),
            ),
            Self::Get { task_id, .. } => (Operation::GetTask, Some(task_id)),
            Self::List(_) => (Operation::ListTasks, None),
            Self::Cancel(task_id) => (Operation::CancelTask, Some(task_id)),
            Self::Subscribe(task_id) => (Operation::SubscribeToTask, Some(task_id)),
            Self::CreatePush(config) => (Operation::CreatePushConfig, Some(&config.task_id)),
            Self::GetPush { task_id, .. } => (Operation::GetPushConfig, Some(task_id)),
            Self::ListPushes(task_id) => (Operation::ListPushConfigs, Some(task_id)),
            Self::DeletePush { task_id, .. } => (Operation::DeletePushConfig, Some(task_id)),
            Self::ExtendedCard => (Operation::GetExtendedCard, None),
        }
    }

    /// Makes the call return before the work of its message ends, for a client that reads no answer.
    pub(crate) fn return_immediately(&mut self) {
        if let Self::Send(send) | Self::Stream(send) = self {
            send.return_immediately = Some(true);
        }
    }
}

/// The answer to a [`Call`].
pub(crate) enum Answer {
    Sent(SendMessageResponse),
    Updates(TaskUpdates),
    Task(Task),
    /// A task that the store has as JSON of this dialect.
    Finished(FinishedTask),
    Tasks(Box<TaskPage>),
    Push(TaskPushNotificationConfig),
    Pushes(Vec<TaskPushNotificationConfig>),
    Deleted,
    Card(Value),
}

/// Executes a call, and records it in the log. `base` returns the URL of this server for the agent card.
pub(crate) async fn execute(
    app: &App,
    (caller, log): (&CallContext, &RequestLog),
    dialect: Dialect,
    base: impl FnOnce() -> Result<String, A2aError>,
    call: Call,
) -> Result<Answer, A2aError> {
    let service = &app.service;
    let (operation, task) = call.operation();
    log.record_operation(operation, task);
    let answer = match call {
        Call::Send(send) => Answer::Sent(service.send(caller, *send).await?),
        Call::Stream(send) => Answer::Updates(service.stream(caller, *send).await?),
        Call::Get {
            task_id,
            history_length,
        } => {
            let found = service.get_for(caller, &task_id, history_length, dialect);
            match found.await? {
                Either::Left(finished) => {
                    log.record_state(&finished.state);
                    Answer::Finished(finished)
                }
                Either::Right(task) => Answer::Task(task),
            }
        }
        // Boxed, because each message would move a future with room for these.
        Call::List(request) => {
            let page = Box::pin(service.list(caller, request, dialect)).await?;
            Answer::Tasks(Box::new(page))
        }
        Call::Cancel(task_id) => Answer::Task(Box::pin(service.cancel(caller, &task_id)).await?),
        Call::Subscribe(task_id) => Answer::Updates(service.subscribe(caller, &task_id).await?),
        Call::CreatePush(config) => Answer::Push(service.create_push(caller, config).await?),
        Call::GetPush { task_id, config_id } => Answer::Push(
            service
                .get_push(caller, &task_id, config_id.as_deref())
                .await?,
        ),
        Call::ListPushes(task_id) => {
            Answer::Pushes(service.list_pushes(caller, &task_id).await?.configs)
        }
        Call::DeletePush { task_id, config_id } => {
            service.delete_push(caller, &task_id, &config_id).await?;
            Answer::Deleted
        }
        Call::ExtendedCard => Answer::Card(card::extended(app, caller, dialect, &base()?).await?),
    };
    if let Answer::Sent(SendMessageResponse::Task(task)) | Answer::Task(task) = &answer {
        log.record_task(task);
    }
    Ok(answer)
}

/// An answer of one JSON value in the format of a dialect. The answer to a deletion is `null`.
pub(crate) struct DialectAnswer<'a>(pub(crate) &'a Answer, pub(crate) Dialect);

impl Serialize for DialectAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dialect = match self.1 {
            Dialect::V1_0 => return v1(self.0, serializer),
            Dialect::V0_3(dialect) => dialect,
        };
        match self.0 {
            Answer::Sent(sent) => as_v0_3(sent, dialect).serialize(serializer),
            Answer::Task(task) => as_v0_3(task, dialect).serialize(serializer),
            Answer::Push(config) => as_v0_3(config, dialect).serialize(serializer),
            Answer::Pushes(configs) => as_v0_3(configs.as_slice(), dialect).serialize(serializer),
            Answer::Card(card) => card.serialize(serializer),
            Answer::Deleted | Answer::Finished(_) | Answer::Tasks(_) | Answer::Updates(_) => {
                serializer.serialize_unit()
            }
        }
    }
}

fn v1<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
    match answer {
        Answer::Sent(sent) => sent.serialize(serializer),
        Answer::Task(task) => task.serialize(serializer),
        Answer::Push(config) => config.serialize(serializer),
        Answer::Pushes(configs) => Configs {
            configs,
            next_page_token: "",
        }
        .serialize(serializer),
        Answer::Card(card) => card.serialize(serializer),
        Answer::Deleted | Answer::Finished(_) | Answer::Tasks(_) | Answer::Updates(_) => {
            serializer.serialize_unit()
        }
    }
}

/// All push notification configurations of a task on one page. The official type omits an empty list, which some
/// clients reject.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configs<'a> {
    configs: &'a [TaskPushNotificationConfig],
    next_page_token: &'static str,
}

/// The initial capacity of a buffer for JSON, in bytes: room for most messages.
const JSON_CAPACITY: usize = 1024;

/// Returns a JSON response.
pub(crate) fn json(media_type: &'static str, value: &impl Serialize) -> Response {
    // The types serialize to maps with string keys, so serialization does not fail.
    let mut json = Vec::with_capacity(JSON_CAPACITY);
    let written = serde_json::to_writer(&mut json, value).map(|()| json);
    with_media_type(media_type, written.unwrap_or_default())
}

/// Returns a response with the JSON of a task.
pub(crate) fn task_response(
    task: &FinishedTask,
    binding: &Binding,
    media_type: &'static str,
) -> Response {
    let mut text = result_head(binding);
    text.extend_from_slice(&task.json);
    text.extend_from_slice(result_tail(binding).as_bytes());
    with_media_type(media_type, text)
}

fn with_media_type(media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The size from which a part of the body is sent, in bytes.
const PART_BYTES: usize = 64 << 10;

/// What follows in the body.
enum Next {
    /// The JSON before the tasks.
    Head,
    /// A task; `true` for the first one.
    Task(bool),
    /// The failure of the store.
    Failure(A2aError),
    /// The end of the body.
    End,
}

/// Returns a response that reads more tasks after the client has received the part before. If the store fails, the
/// server closes the connection, so that the client detects the incomplete page.
pub(crate) fn page_response(
    page: TaskPage,
    binding: Binding,
    media_type: &'static str,
) -> Response {
    let state = (page, binding, Next::Head);
    let body = stream::unfold(state, move |(mut page, binding, mut next)| async move {
        let mut text = Vec::new();
        while text.len() < PART_BYTES {
            next = match next {
                Next::Head => {
                    text = result_head(&binding);
                    text.extend_from_slice(br#"{"tasks":["#);
                    Next::Task(true)
                }
                Next::Task(first) => match page.next().await {
                    Ok(Some(task)) => {
                        if !first {
                            text.push(b',');
                        }
                        text.extend(task);
                        Next::Task(false)
                    }
                    Ok(None) => {
                        text.extend(tail(&page, &binding));
                        Next::End
                    }
                    Err(error) => Next::Failure(error),
                },
                Next::Failure(error) if text.is_empty() => {
                    return Some((Err(error), (page, binding, Next::End)));
                }
                Next::End if text.is_empty() => return None,
                ended => {
                    next = ended;
                    break;
                }
            };
        }
        Some((Ok::<_, A2aError>(Bytes::from(text)), (page, binding, next)))
    });
    with_media_type(media_type, Body::from_stream(body))
}

/// Returns the JSON before the result: nothing, or the beginning of an envelope.
fn result_head(binding: &Binding) -> Vec<u8> {
    let mut head = Vec::new();
    if let Binding::Rpc(id) = binding {
        head.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        // An id is raw JSON.
        head.extend(serde_json::to_vec(id).unwrap_or_default());
        head.extend_from_slice(br#","result":"#);
    }
    head
}

/// Returns the JSON after the result.
fn result_tail(binding: &Binding) -> &'static str {
    match binding {
        Binding::Rpc(_) => "}",
        Binding::Rest => "",
    }
}

/// Returns the JSON after the tasks. 0.3 lists tasks only over HTTP+JSON and does not define the response, so it has
/// the format of 0.3's list of push notification configurations.
fn tail(page: &TaskPage, binding: &Binding) -> Vec<u8> {
    let mut fields = Map::from_iter([("nextPageToken".to_owned(), page.next_page_token().into())]);
    if matches!(page.dialect(), Dialect::V1_0) {
        fields.insert("pageSize".to_owned(), page.page_size().into());
        fields.insert("totalSize".to_owned(), page.total_size().into());
    }
    let fields = Value::Object(fields).to_string();
    let end = result_tail(binding);
    format!("],{}{end}", fields.trim_start_matches('{')).into_bytes()
}
