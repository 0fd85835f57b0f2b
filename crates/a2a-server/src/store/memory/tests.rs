use std::sync::Arc;

use super::Memory;
use crate::store::Store;

crate::store::conformance::store_laws!(async { (Arc::new(Memory::new()) as Arc<dyn Store>, ()) });
