#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::{
    Artifact, ListTasksResponse, Message, Part, Role, SendMessageConfiguration, SendMessageRequest,
    SendMessageResponse, StreamResponse, Task, TaskState, TaskStatus,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::*;
use crate::executor::{ExecutionEvent, ExecutionEvents, ExecutorError, Outcome, RunInput};
use crate::push::{PushError, PushSender};
use crate::store::memory::MemoryStore;
use crate::task_record::TaskRecord;
use crate::task_record::tests::record;
use a2a::Dialect;
use base::environment::{Clock, IdGenerator, SystemEnvironment};

mod agents;
mod answers;
mod cancel;
mod clients;
mod close;
mod contexts;
mod continued;
mod doubles;
mod duplicates;
mod ends;
mod failing_store;
mod isolation;
mod lists;
mod order;
mod pushes;
mod recovery;
mod size_limits;
mod steering;
mod store_failures;
mod streams;

use doubles::{ControlledExecutor, NoopPushSender, PrefixedSessions, Run, TestClock};

/// A service, and a receiver of the runs that the test controls.
struct TestService {
    service: Service,
    runs: mpsc::UnboundedReceiver<Run>,
    store: MemoryStore,
    clock: Arc<TestClock>,
    executor: Arc<ControlledExecutor>,
}

async fn harness() -> TestService {
    TestService::with(Settings::default()).await
}

impl TestService {
    async fn with(settings: Settings) -> Self {
        Self::with_memory_store(settings, MemoryStore::new(), Vec::new()).await
    }

    async fn with_memory_store(
        settings: Settings,
        store: MemoryStore,
        live_runs: Vec<String>,
    ) -> Self {
        let task_store = Arc::new(store.clone());
        Self::with_store(settings, store, task_store, live_runs).await
    }

    /// Starts on the tasks of an earlier process, of whose runs these still exist.
    async fn recovering(store: MemoryStore, live_runs: &[&str]) -> Self {
        let live_runs = live_runs.iter().map(|run| (*run).to_owned()).collect();
        Self::with_memory_store(Settings::default(), store, live_runs).await
    }

    /// Creates a service with the task store `store`.
    async fn with_store(
        settings: Settings,
        store: MemoryStore,
        task_store: Arc<dyn TaskStore>,
        live_runs: Vec<String>,
    ) -> Self {
        Self::for_clients(settings, store, task_store, live_runs, None).await
    }

    /// Creates a service with these clients.
    async fn for_clients(
        settings: Settings,
        store: MemoryStore,
        task_store: Arc<dyn TaskStore>,
        live_runs: Vec<String>,
        clients: Option<HashSet<String>>,
    ) -> Self {
        let (sender, runs) = mpsc::unbounded_channel();
        let agent = |name: &str| Agent {
            name: name.to_owned(),
            title: None,
            description: None,
            skills: Vec::new(),
        };
        let executor = Arc::new(ControlledExecutor {
            runs: sender,
            live_runs,
            agents: Mutex::new(Ok(vec![agent("main"), agent("other")])),
            detached: false.into(),
        });
        let clock = Arc::new(TestClock::new());
        let service = Service::start(ServiceComponents {
            settings,
            executor: executor.clone(),
            store: task_store,
            sender: Arc::new(NoopPushSender),
            sessions: Arc::new(PrefixedSessions),
            env: clock.clone(),
            clients,
        })
        .await
        .unwrap();
        Self {
            service,
            runs,
            store,
            clock,
            executor,
        }
    }

    /// Creates a service with changed limits.
    async fn limited(change: impl FnOnce(&mut ServiceLimits)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings.limits);
        Self::with(settings).await
    }

    /// Waits for the next run.
    async fn run(&mut self) -> Run {
        self.runs.recv().await.unwrap()
    }

    /// Sends a message with `returnImmediately` and returns the task.
    async fn send_immediate(&self, send: SendMessage) -> Task {
        self.send_immediate_as(&alice(), send).await
    }

    /// Sends a message in the context `c` with `returnImmediately` and returns the task.
    async fn send_in_context(&self, text: &str) -> Task {
        self.send_immediate(text_message(text).with_context_id("c"))
            .await
    }

    async fn send_immediate_as(&self, caller: &CallContext, mut send: SendMessage) -> Task {
        send.return_immediately = Some(true);
        task(self.service.send(caller, send).await.unwrap())
    }

    /// Sends a message, and returns its task and run.
    async fn start(&mut self) -> (String, Run) {
        let id = self.send_immediate(text_message("hello")).await.id;
        (id, self.run().await)
    }

    /// Creates a completed task.
    async fn complete(&mut self) -> String {
        let (id, run) = self.start().await;
        run.done();
        self.ended(&id).await;
        id
    }

    /// Creates a task that waits for the answer to the question "which?".
    async fn ask(&mut self) -> String {
        let (id, run) = self.start().await;
        run.ask();
        self.ended(&id).await;
        id
    }

    /// Answers the question of a task.
    async fn answer(&self, task_id: &str, text: &str) -> Task {
        self.send_immediate(text_message(text).with_task_id(task_id))
            .await
    }

    /// Sends a message that the service rejects.
    async fn refusal(&self, send: SendMessage) -> A2aError {
        self.service.send(&alice(), send).await.unwrap_err()
    }

    /// Sends a message and waits for the answer in the background.
    fn spawn_send(
        &self,
        caller: CallContext,
        send: SendMessage,
    ) -> JoinHandle<Result<SendMessageResponse, A2aError>> {
        let service = self.service.clone();
        tokio::spawn(async move { service.send(&caller, send).await })
    }

    async fn state(&self, task_id: &str) -> TaskState {
        self.get(task_id).await.status.state
    }

    async fn get(&self, task_id: &str) -> Task {
        self.service.get(&alice(), task_id, None).await.unwrap()
    }

    async fn end_state(&self, task_id: &str) -> TaskState {
        self.ended(task_id).await.status.state
    }

    async fn stored(&self, task_id: &str) -> TaskRecord {
        self.store.load(task_id).await.unwrap().unwrap()
    }

    /// Waits until the task is terminal or interrupted.
    async fn ended(&self, task_id: &str) -> Task {
        if let Some(active) = self.service.core.active_tasks.get(task_id) {
            active.wait_ended().await;
        }
        self.stored(task_id).await.task
    }
}

fn alice() -> CallContext {
    caller("alice", Version::V1_0)
}

fn bob() -> CallContext {
    caller("bob", Version::V1_0)
}

fn alice_0_3() -> CallContext {
    caller("alice", Version::V0_3)
}

fn caller(client: &str, version: Version) -> CallContext {
    CallContext {
        client: client.to_owned(),
        authenticated: true,
        version,
        agent: None,
    }
}

/// Creates a message with a new id.
fn text_message(text: &str) -> SendMessage {
    SendMessage {
        request: SendMessageRequest {
            message: Message::new(Role::User, vec![Part::text(text)]),
            configuration: None,
            metadata: None,
            tenant: None,
        },
        return_immediately: None,
    }
}

impl SendMessage {
    fn with_context_id(mut self, context_id: &str) -> Self {
        self.request.message.context_id = Some(context_id.to_owned());
        self
    }

    fn with_task_id(mut self, task_id: &str) -> Self {
        self.request.message.task_id = Some(task_id.to_owned());
        self
    }

    fn with_message_id(mut self, message_id: &str) -> Self {
        self.request.message.message_id = message_id.to_owned();
        self
    }

    fn returning_immediately(mut self) -> Self {
        self.return_immediately = Some(true);
        self
    }

    fn blocking(mut self) -> Self {
        self.return_immediately = Some(false);
        self
    }

    fn with_webhook(self, webhook: TaskPushNotificationConfig) -> Self {
        self.with_configuration(SendMessageConfiguration {
            accepted_output_modes: None,
            task_push_notification_config: Some(webhook),
            history_length: None,
            return_immediately: None,
        })
    }

    fn with_configuration(mut self, configuration: SendMessageConfiguration) -> Self {
        self.request.configuration = Some(configuration);
        self
    }
}

fn task(response: SendMessageResponse) -> Task {
    match response {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => unreachable!("a message: {message:?}"),
    }
}

fn message(response: SendMessageResponse) -> Message {
    match response {
        SendMessageResponse::Message(message) => message,
        SendMessageResponse::Task(task) => unreachable!("a task: {task:?}"),
    }
}

/// Loads a whole page.
async fn whole_page(mut page: TaskPage) -> Result<ListTasksResponse, A2aError> {
    let mut tasks = Vec::new();
    while let Some(json) = page.next().await? {
        tasks.push(serde_json::from_slice(&json).unwrap());
    }
    Ok(ListTasksResponse {
        tasks,
        next_page_token: page.next_page_token(),
        page_size: page.page_size(),
        total_size: page.total_size(),
    })
}

/// Returns the task in the answer to a message that was sent in the background.
async fn received(response: JoinHandle<Result<SendMessageResponse, A2aError>>) -> Task {
    task(response.await.unwrap().unwrap())
}

/// Returns the reason in the task's status message.
fn reason(task: &Task) -> Option<&str> {
    let message = task.status.message.as_ref()?;
    message.metadata.as_ref()?.get(REASON)?.as_str()
}

/// Returns the text of the task's status message.
fn status_text(task: &Task) -> &str {
    text(task.status.message.as_ref().unwrap())
}

fn text(message: &Message) -> &str {
    message.parts[0].as_text().unwrap()
}

fn artifact(id: &str, text: &str) -> ExecutionEvent {
    ExecutionEvent::Artifact {
        artifact: Artifact {
            artifact_id: id.to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        },
        append: false,
        last_chunk: true,
    }
}

/// Returns a short text for an event of a stream.
fn event_text(event: &StreamResponse) -> String {
    match event {
        StreamResponse::Task(task) => format!("task {:?}", task.status.state),
        StreamResponse::Message(message) => format!("message {}", text(message)),
        StreamResponse::StatusUpdate(update) => format!("status {:?}", update.status.state),
        StreamResponse::ArtifactUpdate(update) => {
            format!("artifact {}", update.artifact.artifact_id)
        }
    }
}

async fn next(updates: &mut TaskUpdates) -> String {
    event_text(&updates.next().await.unwrap().unwrap())
}

fn metadata(
    key: &str,
    value: impl Into<serde_json::Value>,
) -> Option<HashMap<String, serde_json::Value>> {
    Some(HashMap::from([(key.to_owned(), value.into())]))
}

const SECOND: Duration = Duration::from_secs(1);
