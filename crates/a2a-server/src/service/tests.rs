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
use tokio_util::sync::CancellationToken;
use url::Url;

use super::*;
use crate::executor::{ExecutionEvent, ExecutionEvents, ExecutorError, Outcome, RunInput};
use crate::push::{PushError, PushSender};
use crate::store::memory::MemoryStore;
use crate::task_record::TaskRecord;
use crate::task_record::tests::record;
use common::environment::{Clock, IdGenerator, SystemEnvironment};

mod agents;
mod answers;
mod cancel;
mod clients;
mod close;
mod contexts;
mod continued;
mod duplicates;
mod ends;
mod failing_store;
mod isolation;
mod lists;
mod modes;
mod order;
mod pushes;
mod recovery;
mod size_limits;
mod stage;
mod store_failures;
mod streams;

use stage::{NamedAgents, Post};
use stage::{Run, Stage, TestClock};

/// A service, and a receiver of the runs that the test controls.
struct TestService {
    service: Service,
    runs: mpsc::UnboundedReceiver<Run>,
    store: MemoryStore,
    clock: Arc<TestClock>,
    stage: Arc<Stage>,
}

async fn theatre() -> TestService {
    TestService::with(Settings::default()).await
}

impl TestService {
    async fn with(settings: Settings) -> Self {
        Self::over(settings, MemoryStore::new(), Vec::new()).await
    }

    async fn over(settings: Settings, store: MemoryStore, alive: Vec<String>) -> Self {
        let behind = Arc::new(store.clone());
        Self::behind(settings, store, behind, alive).await
    }

    /// Creates a service with the task store `store`.
    async fn behind(
        settings: Settings,
        store: MemoryStore,
        behind: Arc<dyn TaskStore>,
        alive: Vec<String>,
    ) -> Self {
        Self::for_clients(settings, store, behind, alive, None).await
    }

    /// Creates a service with these clients.
    async fn for_clients(
        settings: Settings,
        store: MemoryStore,
        behind: Arc<dyn TaskStore>,
        alive: Vec<String>,
        clients: Option<HashSet<String>>,
    ) -> Self {
        let (sender, runs) = mpsc::unbounded_channel();
        let agent = |name: &str| Agent {
            name: name.to_owned(),
            title: None,
            description: None,
            skills: Vec::new(),
        };
        let stage = Arc::new(Stage {
            runs: sender,
            alive,
            agents: Mutex::new(Ok(vec![agent("main"), agent("other")])),
        });
        let clock = Arc::new(TestClock::new());
        let service = Service::start(Parts {
            settings,
            executor: stage.clone(),
            store: behind,
            sender: Arc::new(Post),
            sessions: Arc::new(NamedAgents),
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
            stage,
        }
    }

    /// Waits for the next run.
    async fn run(&mut self) -> Run {
        self.runs.recv().await.unwrap()
    }

    /// Sends a message with `returnImmediately` and returns the task.
    async fn begin(&self, send: SendMessage) -> Task {
        self.begin_as(&alice(), send).await
    }

    async fn begin_as(&self, caller: &CallContext, mut send: SendMessage) -> Task {
        send.return_immediately = Some(true);
        task(self.service.send(caller, send).await.unwrap())
    }

    /// Sends a message and waits for the answer in the background.
    fn ask(
        &self,
        caller: CallContext,
        send: SendMessage,
    ) -> tokio::task::JoinHandle<Result<SendMessageResponse, A2aError>> {
        let service = self.service.clone();
        tokio::spawn(async move { service.send(&caller, send).await })
    }

    async fn state(&self, task_id: &str) -> TaskState {
        self.get(task_id).await.status.state
    }

    async fn get(&self, task_id: &str) -> Task {
        self.service.get(&alice(), task_id, None).await.unwrap()
    }

    /// Waits until the task is terminal or interrupted.
    async fn ended(&self, task_id: &str) -> Task {
        if let Some(live) = self.service.core.active_tasks.get(task_id) {
            live.wait_ended().await;
        }
        self.store.load(task_id).await.unwrap().unwrap().task
    }
}

fn alice() -> CallContext {
    caller("alice", Version::V1_0)
}

fn bob() -> CallContext {
    caller("bob", Version::V1_0)
}

fn old_alice() -> CallContext {
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
fn says(text: &str) -> SendMessage {
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
    fn in_context(mut self, context_id: &str) -> Self {
        self.request.message.context_id = Some(context_id.to_owned());
        self
    }

    fn answering(mut self, task_id: &str) -> Self {
        self.request.message.task_id = Some(task_id.to_owned());
        self
    }

    fn named(mut self, message_id: &str) -> Self {
        self.request.message.message_id = message_id.to_owned();
        self
    }

    fn at_once(mut self) -> Self {
        self.return_immediately = Some(true);
        self
    }

    fn waiting(mut self) -> Self {
        self.return_immediately = Some(false);
        self
    }

    fn configured(mut self, configuration: SendMessageConfiguration) -> Self {
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
async fn whole(mut page: TaskPage) -> Result<ListTasksResponse, A2aError> {
    let mut tasks = Vec::new();
    while let Some(json) = page.next(|task| serde_json::to_vec(task).unwrap()).await? {
        tasks.push(serde_json::from_slice(&json).unwrap());
    }
    Ok(ListTasksResponse {
        tasks,
        next_page_token: page.next_page_token(),
        page_size: page.page_size(),
        total_size: page.total_size(),
    })
}

/// Returns the text of the task's status message.
fn said(task: &Task) -> &str {
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
fn short(event: &StreamResponse) -> String {
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
    short(&updates.next().await.unwrap().unwrap())
}

fn metadata(key: &str, value: &str) -> Option<HashMap<String, serde_json::Value>> {
    Some(HashMap::from([(key.to_owned(), value.into())]))
}

const SECOND: Duration = Duration::from_secs(1);
