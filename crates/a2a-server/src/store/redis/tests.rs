//! The conformance tests. Each test starts its own Redis.

#![allow(clippy::panic)]

use std::sync::Arc;

use super::{Options, RedisStore};
use crate::store::TaskStore;
use crate::store::conformance::{SharedStore, store_conformance_tests};
use common::environment::SystemEnvironment;

use testkit::support::redis_server::RedisServer;

async fn open() -> Option<(SharedStore, RedisServer)> {
    let server = RedisServer::start();
    let store = RedisStore::connect(&Options::new(server.url()), &SystemEnvironment)
        .await
        .unwrap_or_else(|why| panic!("{why}"));
    Some((Arc::new(store) as Arc<dyn TaskStore>, server))
}

store_conformance_tests!(open());
