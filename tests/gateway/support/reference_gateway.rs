//! The reference gateway, running in this process.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base::environment::SystemEnvironment;
use base::log::Log;
use gateway_server::{Server, config::ServerConfig};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::merge;
use crate::gateway::{folder::Folder, in_process::RecordedLog};

/// A running gateway. It ends with the value, and its state with it.
pub(crate) struct ReferenceGateway {
    pub(crate) url: String,
    folder: Folder,
    running: JoinHandle<()>,
    stop: DropGuard,
}

impl ReferenceGateway {
    /// Starts a gateway with these settings over those of the tests: a free port of loopback, and a new folder.
    pub(crate) async fn start(settings: Value) -> Self {
        let folder = Folder::new();
        let mut config =
            json!({"listen": "127.0.0.1:0", "stateDir": folder.path(), "fsync": "never"});
        merge(&mut config, settings);
        let config = ServerConfig::parse(&config.to_string()).unwrap();
        let log: Arc<dyn Log> = Arc::new(RecordedLog::default());
        let server = Server::bind(config, Arc::new(SystemEnvironment), log)
            .await
            .unwrap();
        let url = format!("ws://{}", server.address());
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(stop.clone()));
        Self {
            url,
            folder,
            running,
            stop: stop.drop_guard(),
        }
    }

    /// Stops the gateway, and waits until its port is free.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.running.await.unwrap();
    }

    /// Returns the directory of an agent's sessions.
    pub(crate) fn sessions(&self, agent: &str) -> PathBuf {
        self.state().join("agents").join(agent).join("sessions")
    }

    pub(crate) fn state(&self) -> &Path {
        self.folder.path()
    }
}
