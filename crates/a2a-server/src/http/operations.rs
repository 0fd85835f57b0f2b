//! The operations of the protocol, independent of binding and version.

use a2a::v1_0::{ListTasksRequest, SendMessageResponse, Task, TaskPushNotificationConfig};
use serde_json::Value;

use super::request_log::RequestLog;
use super::{App, card};
use crate::call_context::CallContext;
use crate::service::{SendMessage, TaskPage, TaskUpdates};
use a2a::A2aError;
use a2a::{Dialect, Operation};

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
        } => Answer::Task(service.get(caller, &task_id, history_length).await?),
        Call::List(request) => Answer::Tasks(Box::new(service.list(caller, request).await?)),
        Call::Cancel(task_id) => Answer::Task(service.cancel(caller, &task_id).await?),
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
