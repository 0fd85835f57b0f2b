//! Where the tasks of a server are kept.

use std::path::PathBuf;
use std::sync::Arc;

use a2a_server::store::memory::Memory;
use a2a_server::store::sqlite::{self, Sqlite};
use a2a_server::store::{Store, redis};
use common::environment::{Clock as _, SystemEnvironment};

use super::error::StartError;
use crate::config::{ServeConfig, TaskStore};

/// The store of a server whose page is at `page`, and in words where it is.
///
/// # Errors
/// It cannot be opened.
pub(super) async fn store(
    config: &ServeConfig,
    page: String,
) -> Result<(Arc<dyn Store>, String), StartError> {
    Ok(match config.store(|name| std::env::var(name).ok())? {
        TaskStore::Memory => (Arc::new(Memory::new()), "in memory".to_owned()),
        TaskStore::Directory(path) => {
            let shown = format!("in {}", path.display());
            let store = sqlite(config, path).await?;
            store
                .announce(page)
                .await
                .map_err(|error| StartError::Store(error.to_string()))?;
            (Arc::new(store), shown)
        }
        TaskStore::Redis(address) => {
            let options = redis::Options::new(address);
            let store = redis::Redis::connect(&options, &SystemEnvironment).await;
            let store = store.map_err(|error| StartError::Store(error.to_string()))?;
            let shown = format!("in Redis at {}", store.shown());
            (Arc::new(store), shown)
        }
    })
}

async fn sqlite(config: &ServeConfig, directory: PathBuf) -> Result<Sqlite, StartError> {
    let mut options = sqlite::Options::new(directory);
    options.fsync = config.fsync();
    let now = SystemEnvironment.system_time();
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(&options, now.into())).await;
    let opened = opened.map_err(|error| StartError::Store(error.to_string()))?;
    opened.map_err(|error| StartError::Store(error.to_string()))
}
