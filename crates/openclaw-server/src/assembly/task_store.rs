//! Opens the task store.

use std::path::PathBuf;
use std::sync::Arc;

use a2a_server::store::memory::MemoryStore;
use a2a_server::store::sqlite::{self, SqliteStore};
use a2a_server::store::{TaskStore, redis};
use base::environment::{Clock as _, SystemEnvironment};

use super::error::StartError;
use crate::config::{ServeConfig, TaskStoreKind};

/// Opens the task store of a server whose operator's page is at `page`. Returns the store and a description of its
/// location.
///
/// # Errors
/// The store cannot be opened.
pub(super) async fn store(
    config: &ServeConfig,
    page: String,
) -> Result<(Arc<dyn TaskStore>, String), StartError> {
    Ok(match config.store(|name| std::env::var(name).ok())? {
        TaskStoreKind::Memory => (Arc::new(MemoryStore::new()), "in memory".to_owned()),
        TaskStoreKind::Directory(path) => {
            let shown = format!("in {}", path.display());
            let store = sqlite(config, path).await?;
            store
                .announce(page)
                .await
                .map_err(|error| StartError::Store(error.to_string()))?;
            (Arc::new(store), shown)
        }
        TaskStoreKind::Redis(address) => {
            let options = redis::Options::new(address);
            let store = redis::RedisStore::connect(&options, &SystemEnvironment).await;
            let store = store.map_err(|error| StartError::Store(error.to_string()))?;
            let shown = format!("in Redis at {}", store.display_address());
            (Arc::new(store), shown)
        }
    })
}

async fn sqlite(config: &ServeConfig, directory: PathBuf) -> Result<SqliteStore, StartError> {
    let mut options = sqlite::Options::new(directory);
    options.fsync = config.fsync;
    let now = SystemEnvironment.system_time();
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&options, now.into())).await;
    let opened = opened.map_err(|error| StartError::Store(error.to_string()))?;
    opened.map_err(|error| StartError::Store(error.to_string()))
}
