//! The conformance tests, each with its own Redis, and a rule for the scripts.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use super::{Options, RedisStore};
use crate::store::TaskStore;
use crate::store::tests::{SharedStore, store_conformance_tests};
use base::environment::SystemEnvironment;

use testkit::support::redis_server::RedisServer;

async fn open() -> Option<(SharedStore, RedisServer)> {
    let server = RedisServer::start();
    let store = RedisStore::connect(&Options::new(server.url()), &SystemEnvironment)
        .await
        .unwrap_or_else(|why| panic!("{why}"));
    Some((Arc::new(store) as Arc<dyn TaskStore>, server))
}

store_conformance_tests!(open());

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
