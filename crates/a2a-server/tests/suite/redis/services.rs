//! Whole services on one Redis, one of them in a process that is killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use a2a::v1_0::{
    ListTasksRequest, Message, Part, Role, SendMessageRequest, SendMessageResponse, StreamResponse,
    Task, TaskState,
};
use a2a::{Dialect, ErrorReason, Version};
use a2a_server::executor::scripted::ScriptedExecutor;
use a2a_server::push::{PushError, PushSender};
use a2a_server::service::{ANONYMOUS_CLIENT, CallContext};
use a2a_server::service::{
    INTERRUPTED, REASON, SendMessage, Service, ServiceComponents, SessionMapper, TaskUpdates,
};
use a2a_server::settings::Settings;
use a2a_server::store::redis::{Options, RedisStore};
use base::environment::SystemEnvironment;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use url::Url;

use crate::redis::rig::{SHORT_LEASE, client, connect, in_time, until};
use testkit::support::redis_server::RedisServer;

/// The environment variables of that process: Redis, and its messages.
const ADDRESS: &str = "REMOTE_AGENT_TEST_REDIS";
const WORK: &str = "REMOTE_AGENT_TEST_WORK";

struct NoPush;

impl PushSender for NoPush {
    fn accepts(&self, _: &Url) -> Result<(), String> {
        Err("is not asked for here".to_owned())
    }

    fn post(
        &self,
        _: Url,
        _: HeaderMap,
        _: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>> {
        Box::pin(async {
            Err(PushError {
                text: "push notifications are not supported".to_owned(),
                retryable: false,
            })
        })
    }
}

struct ContextSessions;

impl SessionMapper for ContextSessions {
    fn session_id(&self, _: Option<&str>, context_id: &str) -> String {
        format!("session-{context_id}")
    }

    fn context_id(&self, _: &str) -> Option<String> {
        None
    }
}

async fn service(url: &str) -> Service {
    let options = Options {
        lease: SHORT_LEASE,
        ..Options::new(url)
    };
    service_on(connect(&options).await).await
}

async fn service_on(store: RedisStore) -> Service {
    Service::start(ServiceComponents {
        settings: Settings::default(),
        executor: Arc::new(ScriptedExecutor::default()),
        store: Arc::new(store),
        sender: Arc::new(NoPush),
        sessions: Arc::new(ContextSessions),
        env: Arc::new(SystemEnvironment),
        clients: None,
    })
    .await
    .unwrap()
}

async fn two_services(redis: &RedisServer) -> (Service, Service) {
    (service(&redis.url()).await, service(&redis.url()).await)
}

fn caller() -> CallContext {
    CallContext {
        client: ANONYMOUS_CLIENT.to_owned(),
        authenticated: false,
        version: Version::V1_0,
        agent: None,
    }
}

fn message(text: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.message_id = uuid::Uuid::new_v4().to_string();
    message
}

fn sent(message: Message, return_immediately: bool) -> SendMessage {
    SendMessage {
        request: SendMessageRequest {
            message,
            configuration: None,
            metadata: None,
            tenant: None,
        },
        return_immediately: Some(return_immediately),
    }
}

async fn send(service: &Service, message: Message, return_immediately: bool) -> Task {
    let sent = sent(message, return_immediately);
    match in_time(service.send(&caller(), sent)).await.unwrap() {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("{message:?}"),
    }
}

/// Starts a task that works.
async fn start_task(service: &Service, text: &str) -> Task {
    send(service, message(text), true).await
}

async fn get(service: &Service, id: &str) -> Task {
    service.get(&caller(), id, None).await.unwrap()
}

async fn wait_until_terminal(service: &Service, id: &str) -> Task {
    until(|| async {
        let task = get(service, id).await;
        task.status.state.is_terminal().then_some(task)
    })
    .await
}

/// Waits until the task works. By then its run has a name.
async fn wait_until_working(service: &Service, id: &str) {
    until(|| async { (get(service, id).await.status.state == TaskState::Working).then_some(()) })
        .await;
}

/// Returns the text of the first artifact.
fn artifact_text(task: &Task) -> String {
    task.artifacts
        .iter()
        .flatten()
        .flat_map(|artifact| &artifact.parts)
        .filter_map(Part::as_text)
        .collect()
}

fn reason(task: &Task) -> Option<&str> {
    task.status
        .message
        .as_ref()?
        .metadata
        .as_ref()?
        .get(REASON)?
        .as_str()
}

/// Returns all events until the end.
async fn collect_events(updates: TaskUpdates) -> Vec<StreamResponse> {
    in_time(updates.map(Result::unwrap).collect()).await
}

#[tokio::test]
async fn any_server_returns_task_of_another() {
    let redis = RedisServer::start();
    let (one, other) = two_services(&redis).await;
    let task = start_task(&one, "stream 40 10").await;
    assert_eq!(get(&other, &task.id).await.context_id, task.context_id);
    let everything: ListTasksRequest = serde_json::from_str("{}").unwrap();
    let listed = other
        .list(&caller(), everything, Dialect::V1_0)
        .await
        .unwrap();
    assert_eq!(listed.total_size(), 1);
    let updates = other.subscribe(&caller(), &task.id).await.unwrap();
    let received = collect_events(updates).await;
    assert!(matches!(received[0], StreamResponse::Task(_)));
    assert!(matches!(
        received.last(),
        Some(StreamResponse::StatusUpdate(last)) if last.status.state == TaskState::Completed
    ));
    assert_eq!(
        artifact_text(&get(&other, &task.id).await),
        artifact_text(&wait_until_terminal(&one, &task.id).await)
    );
}

#[tokio::test]
async fn any_server_cancels_task_of_another() {
    let redis = RedisServer::start();
    let (one, other) = two_services(&redis).await;
    let task = start_task(&one, "slow").await;
    assert_eq!(one.active_task_count(), 1);
    let canceled = in_time(other.cancel(&caller(), &task.id)).await.unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    // The run has stopped as well.
    until(|| async { (one.active_task_count() == 0).then_some(()) }).await;
    let task = get(&one, &task.id).await;
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn messages_of_context_take_turns_across_servers() {
    let redis = RedisServer::start();
    let (one, other) = two_services(&redis).await;
    let first = start_task(&one, "slow 400").await;
    let mut next = message("echo after");
    next.context_id = Some(first.context_id.clone());
    let second = send(&other, next, false).await;
    assert_eq!(second.status.state, TaskState::Completed);
    // It was answered after the first one ended.
    let first = get(&other, &first.id).await;
    assert_eq!(first.status.state, TaskState::Completed);
    assert!(first.status.timestamp <= second.status.timestamp);
}

#[tokio::test]
async fn question_can_be_answered_at_another_server() {
    let redis = RedisServer::start();
    let (one, other) = two_services(&redis).await;
    let question = send(&one, message("ask which colour"), false).await;
    assert_eq!(question.status.state, TaskState::InputRequired);
    let mut answer = message("red");
    answer.task_id = Some(question.id.clone());
    answer.context_id = Some(question.context_id.clone());
    let done = send(&other, answer, false).await;
    assert_eq!(done.id, question.id);
    assert_eq!(done.status.state, TaskState::Completed);
    assert!(artifact_text(&done).contains("red"), "{done:?}");
    assert_eq!(
        get(&one, &question.id).await.status.state,
        TaskState::Completed
    );
}

#[tokio::test]
async fn refused_answer_is_not_retried() {
    for refuse in [
        ["CONFIG", "SET", "maxmemory", "1"].as_slice(),
        &["REPLICAOF", "127.0.0.1", "1"],
        &["ACL", "SETUSER", "default", "-rpush"],
    ] {
        let redis = RedisServer::start();
        let store = connect(&Options::new(redis.url())).await;
        let service = service_on(store).await;
        let question = send(&service, message("ask which colour"), false).await;
        let mut command = redis::cmd(refuse[0]);
        command.arg(&refuse[1..]);
        let mut client = client(&redis).await;
        command.exec_async(&mut client).await.unwrap();
        let mut answer = message("red");
        answer.task_id = Some(question.id);
        let sent = service.send(&caller(), sent(answer, false)).await;
        assert_eq!(sent.unwrap_err().reason, ErrorReason::Unavailable);
        // An attempt to append the answer has one refused `RPUSH`, and at a replica one more over a new connection.
        let mut info = redis::cmd("INFO");
        info.arg("commandstats");
        let info: String = info.query_async(&mut client).await.unwrap();
        let pushes = info.split_once("cmdstat_rpush:").map(|(_, rest)| rest);
        let refused = pushes.and_then(|pushes| pushes.split_once("rejected_calls="));
        let refused = refused.and_then(|(_, rest)| rest.split(',').next());
        assert!(
            matches!(refused, Some("1" | "2")),
            "{refuse:?}: {refused:?}"
        );
    }
}

/// A server in a separate process. Dropping it kills the process.
struct SeparateServer {
    process: Child,
    tasks: Vec<String>,
}

impl SeparateServer {
    /// Starts a server and sends it `work`, one message a line.
    fn start(redis: &RedisServer, work: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "redis::services::run_separate_server",
                "--ignored",
                "--nocapture",
            ])
            .env(ADDRESS, redis.url())
            .env(WORK, work)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let tasks = out
            .lines()
            .map(Result::unwrap)
            .filter_map(|line| line.strip_prefix("task ").map(str::to_owned))
            .take(work.lines().count())
            .collect();
        Self { process, tasks }
    }

    /// As the kernel does when memory is short.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for SeparateServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "it is the server apart of other tests, and runs until it is killed"]
async fn run_separate_server() {
    let service = service(&env::var(ADDRESS).unwrap()).await;
    for work in env::var(WORK).unwrap().lines() {
        let task = start_task(&service, work).await;
        println!("\ntask {}", task.id);
    }
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn task_of_killed_server_is_marked() {
    let redis = RedisServer::start();
    let other = service(&redis.url()).await;
    let mut separate = SeparateServer::start(&redis, "begun so far");
    let id = separate.tasks[0].clone();
    let updates = until(|| async {
        let updates = other.subscribe(&caller(), &id).await.unwrap();
        (artifact_text(&get(&other, &id).await) == "so far").then_some(updates)
    })
    .await;
    separate.kill();
    // Readable at once, and its subscribers receive the end.
    assert_eq!(get(&other, &id).await.status.state, TaskState::Working);
    let received = collect_events(updates).await;
    assert!(matches!(
        received.last(),
        Some(StreamResponse::StatusUpdate(last)) if last.status.state == TaskState::Failed
    ));
    let task = get(&other, &id).await;
    assert_eq!(reason(&task), Some(INTERRUPTED));
    assert_eq!(artifact_text(&task), "so far");
}

#[tokio::test]
async fn living_run_is_reattached_by_another_server() {
    let redis = RedisServer::start();
    let other = service(&redis.url()).await;
    let mut separate = SeparateServer::start(&redis, "resume 300");
    wait_until_working(&other, &separate.tasks[0]).await;
    separate.kill();
    let task = wait_until_terminal(&other, &separate.tasks[0]).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(artifact_text(&task), "taken up again");
}

#[tokio::test]
async fn tasks_of_killed_server_all_end() {
    let redis = RedisServer::start();
    let (one, other) = two_services(&redis).await;
    // More than the concurrent runs, so some of them wait.
    let mut separate = SeparateServer::start(&redis, &["slow"; 30].join("\n"));
    assert_eq!(separate.tasks.len(), 30);
    separate.kill();
    for (n, id) in separate.tasks.iter().enumerate() {
        let server = if n % 2 == 0 { &one } else { &other };
        let task = wait_until_terminal(server, id).await;
        assert_eq!(task.status.state, TaskState::Failed);
        assert_eq!(reason(&task), Some(INTERRUPTED));
    }
    assert_eq!(one.active_task_count() + other.active_task_count(), 0);
}

#[tokio::test]
async fn task_of_killed_server_can_be_canceled() {
    let redis = RedisServer::start();
    let other = service(&redis.url()).await;
    let mut separate = SeparateServer::start(&redis, "resume 60000");
    wait_until_working(&other, &separate.tasks[0]).await;
    separate.kill();
    let task = in_time(other.cancel(&caller(), &separate.tasks[0]))
        .await
        .unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!(get(&other, &task.id).await, task);
}
