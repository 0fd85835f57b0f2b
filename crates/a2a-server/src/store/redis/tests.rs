//! The conformance tests, each with its own Redis, and a rule for the scripts.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use super::{Options, RedisStore};
use crate::store::TaskStore;
use crate::store::tests::{SharedStore, all, create, set_final_state, store_conformance_tests};
use a2a::v1_0::TaskState;
use base::environment::SystemEnvironment;

use testkit::support::redis_server::RedisServer;

async fn open() -> (Arc<RedisStore>, RedisServer) {
    let server = RedisServer::start();
    let store = RedisStore::connect(&Options::new(server.url()), &SystemEnvironment)
        .await
        .unwrap_or_else(|why| panic!("{why}"));
    (Arc::new(store), server)
}

store_conformance_tests!(async {
    let (store, server) = open().await;
    (store as SharedStore, server)
});

#[tokio::test]
async fn deleted_task_leaves_no_record_in_memory() {
    let (store, _server) = open().await;
    let shared: SharedStore = store.clone();
    let mut task = create(&shared, "t", "ann", "c", 0).await;
    set_final_state(&shared, &mut task, TaskState::Completed, 1).await;
    store.page(&all(), usize::MAX).await.unwrap();
    assert!(store.inner.finished.has("t"));
    assert_eq!(store.delete("t").await, Ok(true));
    assert!(!store.inner.finished.has("t"));
}

/// Redis may apply the beginning of a script twice after a kill.
#[test]
fn scripts_write_absolute_results() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/lua");
    for script in std::fs::read_dir(folder).unwrap() {
        let path = script.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for relative in ["HINCRBY", "INCR", "DECR", "LPOP", "RPOP", "LTRIM", "APPEND"] {
            let call = format!("call('{relative}");
            assert!(!text.contains(&call), "{relative} in {}", path.display());
        }
    }
}
