use std::sync::Arc;

use super::MemoryStore;
use crate::store::TaskStore;

crate::store::conformance::store_conformance_tests!(async {
    (Arc::new(MemoryStore::new()) as Arc<dyn TaskStore>, ())
});
