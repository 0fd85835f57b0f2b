//! A list whose store fails.

use std::sync::Arc;

use futures_util::StreamExt as _;
use http::StatusCode;
use serde_json::Value;

use super::harness::{Server, V1};
use crate::http::operations;
use crate::http::sse::Binding;
use crate::service::{ANONYMOUS_CLIENT, CallContext};
use crate::store::TaskStore as _;
use crate::store::sqlite::{self, SqliteStore};
use crate::task_record::tests::record;
use a2a::Dialect;
use a2a::Version;

#[tokio::test]
async fn list_of_failing_store_is_503_or_breaks_off() {
    let directory = tempfile::tempdir().unwrap();
    let options = sqlite::Options::new(directory.path());
    let store = SqliteStore::open(&options, chrono::Utc::now()).unwrap();
    let server = Server::changed(|options| options.store = Arc::new(store.clone())).await;
    for id in ["t1", "t2"] {
        let mut made = record(id);
        made.owner = ANONYMOUS_CLIENT.to_owned();
        made.task.status.state = a2a::v1_0::TaskState::InputRequired;
        made.changed_ms = chrono::Utc::now().timestamp_millis();
        // A part of the response ends after this task.
        let text = Value::from("x".repeat(64 << 10));
        made.task.metadata = Some([("text".to_owned(), text)].into());
        store.create(&made).await.unwrap();
    }
    let caller = CallContext {
        client: ANONYMOUS_CLIENT.to_owned(),
        authenticated: false,
        version: Version::V1_0,
        agent: None,
    };
    let request = serde_json::from_value(Value::Object(serde_json::Map::new())).unwrap();
    let page = server
        .service
        .list(&caller, request, Dialect::V1_0)
        .await
        .unwrap();
    let response = operations::page_response(page, Binding::Rest, "application/json");
    let mut response = response.into_body().into_data_stream();
    response.next().await.unwrap().unwrap();
    let other = rusqlite::Connection::open(store.path()).unwrap();
    other.execute_batch("DROP TABLE log").unwrap();
    assert!(response.next().await.unwrap().is_err());
    assert!(response.next().await.is_none());
    let refused = server.get("/rest/tasks", &[V1]).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
}
