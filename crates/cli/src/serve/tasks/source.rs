//! Accesses tasks through a running server, or in a store that this command opens.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_server::store::redis::{self, RedisStore};
use a2a_server::store::sqlite::{self, Holder, SqliteStore};
use base::environment::{Clock as _, SystemEnvironment};
use url::Url;

use super::Page;
use super::running::RunningServer;
use super::stored::StoredTasks;
use crate::{
    exit::{Exit, Failure},
    gateway::trust,
    output::note,
    serve::flags::FileArgs,
};
use openclaw_server::config::TaskStoreKind;

/// Which server's tasks are meant.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct TaskSourceArgs {
    /// Query the server at this URL [default: the local server that has the directory of the tasks open]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,

    /// Send the operator's token in this environment variable to the server
    #[arg(long, value_name = "VAR")]
    bearer_env: Option<String>,

    /// Trust the certificates in this PEM file for the server
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// The source of tasks.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum TaskSource {
    /// A running server holds the store.
    RunningServer(RunningServer),
    /// No server holds the store, or the store can be shared.
    StoredTasks(StoredTasks),
    /// The directory does not exist yet.
    Empty,
}

impl TaskSourceArgs {
    /// Locates the tasks.
    ///
    /// # Errors
    /// Another, unknown process holds the store, or the store cannot be opened.
    pub(super) async fn open(&self, files: &FileArgs) -> Result<TaskSource, Failure> {
        if let Some(url) = &self.url {
            return self.server_at(url.clone());
        }
        let store = files.read()?.store(|name| std::env::var(name).ok());
        match store.map_err(|error| Failure::usage(error.to_string()))? {
            TaskStoreKind::Memory => Err(Failure::usage(
                "cannot read the tasks: the configured server keeps them in memory; name the running server with `--url URL`",
            )),
            TaskStoreKind::Directory(path) => self.directory(&path).await,
            TaskStoreKind::Redis(address) => {
                let options = redis::Options::new(address);
                let store = RedisStore::connect(&options, &SystemEnvironment).await;
                let store = store.map_err(|error| Failure {
                    exit: Exit::Unreachable,
                    message: error.to_string(),
                })?;
                Ok(TaskSource::StoredTasks(StoredTasks(Arc::new(store))))
            }
        }
    }

    async fn directory(&self, path: &Path) -> Result<TaskSource, Failure> {
        if !path.exists() {
            note(format_args!(
                "no server has stored tasks in {} yet",
                path.display()
            ));
            return Ok(TaskSource::Empty);
        }
        let holder = sqlite::holder(path).map_err(|error| Failure::new(error.to_string()))?;
        if let Some(holder) = holder {
            return self.running_server(path, holder);
        }
        let options = sqlite::Options::new(path);
        let now = SystemEnvironment.system_time();
        let opened =
            tokio::task::spawn_blocking(move || SqliteStore::open(&options, now.into())).await;
        let opened = opened.map_err(|error| Failure::new(error.to_string()))?;
        let store = opened.map_err(|error| Failure::new(error.to_string()))?;
        Ok(TaskSource::StoredTasks(StoredTasks(Arc::new(store))))
    }

    fn running_server(&self, path: &Path, holder: Option<Holder>) -> Result<TaskSource, Failure> {
        let url = holder.and_then(|holder| holder.url);
        let url = url.and_then(|url| Url::parse(&url).ok()).ok_or_else(|| {
            Failure::new(format!(
                "cannot read the tasks in {}: a server with an unknown address uses them; name it with `--url URL`, or stop it",
                path.display()
            ))
        })?;
        self.server_at(url)
    }

    fn server_at(&self, url: Url) -> Result<TaskSource, Failure> {
        let server = RunningServer::new(url, self.token()?)?;
        Ok(TaskSource::RunningServer(match &self.ca_file {
            Some(file) => server.trusting(trust(file)?),
            None => server,
        }))
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(variable) = &self.bearer_env else {
            return Ok(None);
        };
        match std::env::var(variable) {
            Ok(token) if !token.is_empty() => Ok(Some(token)),
            _ => Err(Failure::usage(format!(
                "the environment variable `{variable}` of `--bearer-env` is not set; put the operator's token in it"
            ))),
        }
    }
}

impl TaskSource {
    /// Returns a page of the tasks of all clients, the most recently changed first. `after` is the cursor of the page.
    ///
    /// # Errors
    /// The source cannot be read.
    pub(super) async fn page(&self, after: Option<&str>) -> Result<Page, Failure> {
        match self {
            Self::RunningServer(running) => running.page(after).await,
            Self::StoredTasks(stored) => stored.page(after).await,
            Self::Empty => Ok(Page::default()),
        }
    }

    /// Deletes a task. Returns whether it existed.
    ///
    /// # Errors
    /// The task cannot be deleted.
    pub(super) async fn delete(&self, id: &str) -> Result<bool, Failure> {
        match self {
            Self::RunningServer(running) => running.delete(id).await,
            Self::StoredTasks(stored) => stored.delete(id).await,
            Self::Empty => Ok(false),
        }
    }

    /// Releases the store.
    pub(super) async fn close(self) {
        if let Self::StoredTasks(stored) = self {
            stored.close().await;
        }
    }
}
