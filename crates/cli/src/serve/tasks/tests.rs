#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use a2a::{
    Version,
    v1_0::{Task, TaskState, TaskStatus},
};
use a2a_server::{
    store::{TaskStore, memory::MemoryStore},
    task_record::TaskRecord,
};
use serde_json::Value;
use testkit::raw_server::{RawServer, send};

use super::{
    delete, list,
    source::{RunningServer, StoredTasks, TaskSource},
};
use crate::exit::{Exit, Failure};

async fn stored(tasks: u32) -> TaskSource {
    let store = MemoryStore::new();
    for number in 0..tasks {
        let state = match number % 2 {
            0 => TaskState::Working,
            _ => TaskState::Completed,
        };
        let record = TaskRecord {
            task: Task {
                id: format!("t{number}"),
                context_id: "c".to_owned(),
                status: TaskStatus {
                    state,
                    message: None,
                    timestamp: None,
                },
                artifacts: None,
                history: None,
                metadata: None,
            },
            owner: "ada".to_owned(),
            agent: None,
            session: "s".to_owned(),
            version: Version::V1_0,
            run: None,
            created_ms: 0,
            changed_ms: i64::from(number),
            revision: 0,
        };
        store.create(&record).await.unwrap();
    }
    TaskSource::StoredTasks(StoredTasks(Arc::new(store)))
}

fn any(_: &Value) -> bool {
    true
}

fn ids(tasks: &[Value]) -> Vec<&str> {
    tasks
        .iter()
        .filter_map(|task| task["id"].as_str())
        .collect()
}

#[tokio::test]
async fn list_reads_pages_up_to_the_limit() {
    let source = stored(250).await;
    let found = list(&source, 1_000, any).await.unwrap();
    assert_eq!((found.tasks.len(), found.more), (250, false));
    let found = list(&source, 120, any).await.unwrap();
    assert_eq!((found.tasks.len(), found.more), (120, true));
    assert_eq!(ids(&found.tasks)[..3], ["t249", "t248", "t247"]);
    let found = list(&source, 250, any).await.unwrap();
    assert!(!found.more);
}

#[tokio::test]
async fn task_command_shows_same_fields_as_page() {
    let source = stored(2).await;
    let working = |task: &Value| task["state"] == "working";
    let found = list(&source, 10, working).await.unwrap();
    assert_eq!(ids(&found.tasks), ["t0"]);
    assert_eq!(found.tasks[0]["client"], "ada");
}

#[tokio::test]
async fn delete_reports_unknown_ids_and_deletes_the_rest() {
    let source = stored(3).await;
    let ids_to_delete = ["t0", "none", "t2"].map(str::to_owned);
    assert_eq!(delete(&source, &ids_to_delete).await.unwrap(), Exit::Failed);
    let remaining = list(&source, 10, any).await.unwrap();
    assert_eq!(ids(&remaining.tasks), ["t1"]);
    let one = ["t1".to_owned()];
    assert_eq!(delete(&source, &one).await.unwrap(), Exit::Ok);
}

fn json(status: &str, body: &str) -> Vec<testkit::raw_server::Step> {
    let length = body.len();
    vec![send(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

fn running(server: &RawServer, token: Option<&str>) -> TaskSource {
    TaskSource::RunningServer(
        RunningServer::new(server.url("/"), token.map(str::to_owned)).unwrap(),
    )
}

#[tokio::test]
async fn running_server_is_read_page_by_page() {
    let server = RawServer::start(vec![
        json("200 OK", r#"{"tasks":[{"id":"a"}],"next":"7.a b"}"#),
        json("200 OK", r#"{"tasks":[{"id":"b"}],"next":null}"#),
    ])
    .await;
    let found = list(&running(&server, Some("secret")), 10, any)
        .await
        .unwrap();
    assert_eq!(ids(&found.tasks), ["a", "b"]);
    let requests = server.requests();
    assert!(
        requests[0].starts_with("GET /api/tasks HTTP/1.1"),
        "{}",
        requests[0]
    );
    assert!(
        requests[1].starts_with("GET /api/tasks?after=7.a+b HTTP/1.1"),
        "{}",
        requests[1]
    );
    assert!(
        requests[0].contains("authorization: Bearer secret"),
        "{}",
        requests[0]
    );
}

#[tokio::test]
async fn delete_uses_the_api_of_the_operator_page() {
    let server = RawServer::start(vec![
        json("200 OK", r#"{"deleted":true}"#),
        json(
            "404 Not Found",
            r#"{"error":{"message":"there is no such task"}}"#,
        ),
    ])
    .await;
    let source = running(&server, None);
    assert!(source.delete("a/../b").await.unwrap());
    assert!(!source.delete("a").await.unwrap());
    let request = &server.requests()[0];
    assert!(
        request.starts_with("DELETE /api/tasks/a%2F..%2Fb HTTP/1.1"),
        "{request}"
    );
    assert!(
        request.contains("x-requested-with: remote-agent"),
        "{request}"
    );
}

#[tokio::test]
async fn refusal_names_the_token_option() {
    let answer = json(
        "401 Unauthorized",
        r#"{"error":{"message":"show a token"}}"#,
    );
    let server = RawServer::start(vec![answer]).await;
    let result = running(&server, None).page(None).await;
    let Err(Failure { exit, message }) = result else {
        panic!("it was let in");
    };
    assert_eq!(exit, Exit::Auth);
    assert!(
        message.contains("(401): show a token; `--bearer-env VAR`"),
        "{message}"
    );
}

#[tokio::test]
async fn other_server_is_refused() {
    let server = RawServer::start(vec![json("200 OK", "<html>")]).await;
    let result = running(&server, None).page(None).await;
    assert!(result.is_err_and(|failure| failure.message.ends_with("has no task list")));
}
