use std::sync::Arc;

use super::MemoryStore;
use crate::store::TaskStore;

crate::store::tests::store_conformance_tests!(async {
    (Arc::new(MemoryStore::new()) as Arc<dyn TaskStore>, ())
});
