//! Accesses tasks through the API that the web page of a running server uses, or in a store that this command opens.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use a2a_server::{
    http::app::{self, task_json},
    store::{
        Cursor, Filter, StoreError, TaskStore,
        redis::{self, RedisStore},
        sqlite::{self, Holder, SqliteStore},
    },
};
use base::{
    environment::{Clock as _, SystemEnvironment},
    json::{self, Limits},
};
use egress::{
    AddressPolicy, HttpClient as _, NetFault, Request, ReqwestClient, address::is_this_machine,
    body::read_response, credential::Trust,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header::AUTHORIZATION};
use openclaw_server::config::TaskStoreKind;
use serde_json::Value;
use url::Url;

use super::Page;
use crate::{
    config::unset_reason,
    credentials::check_variable,
    exit::{Exit, Failure},
    gateway::trust,
    output::note,
    serve::flags::FileArgs,
};

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
        check_variable("--bearer-env", variable)?;
        match std::env::var(variable) {
            Ok(token) if !token.is_empty() => Ok(Some(token)),
            _ => Err(Failure::usage(format!(
                "the environment variable `{variable}` of `--bearer-env` {}; put the operator's token in it",
                unset_reason(variable)
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

const PAGE: usize = 100;

pub(super) struct StoredTasks(pub(super) Arc<dyn TaskStore>);

impl StoredTasks {
    pub(super) async fn page(&self, after: Option<&str>) -> Result<Page, Failure> {
        let after = after.map(str::parse::<Cursor>).transpose();
        let filter = Filter {
            owner: None,
            context_id: None,
            state: None,
            changed_after: None,
            page_size: PAGE,
            after: after.map_err(|error| Failure::new(error.to_string()))?,
        };
        let listed = self.0.list(&filter).await.map_err(failed)?;
        Ok(Page {
            tasks: listed.tasks.iter().map(task_json).collect(),
            next: listed.next.map(|next| next.to_string()),
        })
    }

    pub(super) async fn delete(&self, id: &str) -> Result<bool, Failure> {
        self.0.delete(id).await.map_err(failed)
    }

    pub(super) async fn close(self) {
        if let Err(error) = self.0.close().await {
            note(error);
        }
    }
}

fn failed(error: StoreError) -> Failure {
    Failure::new(error.to_string())
}

/// The maximum size of a response. A page of 200 tasks with excerpts is much smaller.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

pub(in crate::serve) struct RunningServer {
    net: ReqwestClient,
    url: Url,
    headers: HeaderMap,
    trust: Option<Arc<Trust>>,
}

impl RunningServer {
    pub(in crate::serve) fn new(url: Url, token: Option<String>) -> Result<Self, Failure> {
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(Failure::usage("write the URL of --url as http://HOST:PORT"));
        }
        let mut headers = HeaderMap::new();
        let (own, page) = app::PAGE_HEADER;
        headers.insert(HeaderName::from_static(own), HeaderValue::from_static(page));
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| {
                Failure::usage(
                    "cannot send the token of `--bearer-env`: it is not a valid header value",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let net = ReqwestClient::new().map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self {
            net,
            url,
            headers,
            trust: None,
        })
    }

    /// Trusts these authorities in place of the public ones.
    fn trusting(self, trust: Arc<Trust>) -> Self {
        let trust = Some(trust);
        Self { trust, ..self }
    }

    pub(super) async fn page(&self, after: Option<&str>) -> Result<Page, Failure> {
        let mut url = self.path(&["api", "tasks"])?;
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after", after);
        }
        let (status, mut answer) = self.request(Method::GET, url).await?;
        if !status.is_success() {
            return Err(response_failure(status, &answer));
        }
        let tasks = match answer.get_mut("tasks").map(Value::take) {
            Some(Value::Array(tasks)) => tasks,
            _ => {
                return Err(Failure::new(format!(
                    "cannot list tasks: the server at {} has no task list",
                    self.url
                )));
            }
        };
        let next = answer["next"].as_str().map(str::to_owned);
        Ok(Page { tasks, next })
    }

    /// Returns whether the server answers requests without a token.
    pub(in crate::serve) async fn is_open(&self) -> bool {
        self.page(None).await.is_ok()
    }

    pub(super) async fn delete(&self, id: &str) -> Result<bool, Failure> {
        let url = self.path(&["api", "tasks", id])?;
        match self.request(Method::DELETE, url).await? {
            (status, _) if status.is_success() => Ok(true),
            (StatusCode::NOT_FOUND, _) => Ok(false),
            (status, answer) => Err(response_failure(status, &answer)),
        }
    }

    fn path(&self, segments: &[&str]) -> Result<Url, Failure> {
        let mut url = self.url.clone();
        url.set_query(None);
        url.path_segments_mut()
            .map_err(|()| Failure::usage("write the URL of --url as http://HOST:PORT"))?
            .pop_if_empty()
            .extend(segments);
        Ok(url)
    }

    async fn request(&self, method: Method, url: Url) -> Result<(StatusCode, Value), Failure> {
        let request = Request {
            repeatable: method == Method::GET,
            authorization: None,
            send_state: None,
            method,
            access: access(&url),
            url,
            headers: self.headers.clone(),
            body: None,
            trust: self.trust.clone(),
        };
        let failed = |error: egress::NetError| {
            let tls_hint = match error.fault() {
                NetFault::Tls => {
                    "; `--ca-file FILE` trusts the certificates in a file; if its certificate has another name, use that name: `--url https://NAME:PORT`"
                }
                _ => "",
            };
            Failure {
                exit: Exit::Unreachable,
                message: format!("cannot query the server at {}: {error}{tls_hint}", self.url),
            }
        };
        let mut response = self.net.exchange(request).await.map_err(failed)?;
        let body = read_response(&mut response, MAX_RESPONSE_BYTES)
            .await
            .map_err(failed)?;
        let answer = json::from_slice(&body, Limits::NONE).unwrap_or_default();
        Ok((response.status, answer))
    }
}

/// Returns the address policy for a configured URL. A loopback URL may only reach this machine, without a proxy.
fn access(url: &Url) -> AddressPolicy {
    if is_this_machine(url) {
        AddressPolicy::Loopback
    } else {
        AddressPolicy::AnyAddress
    }
}

fn response_failure(status: StatusCode, answer: &Value) -> Failure {
    let reason = answer["error"]["message"]
        .as_str()
        .unwrap_or("no reason given");
    let (exit, next) = match status {
        StatusCode::UNAUTHORIZED => (
            Exit::Auth,
            "; `--bearer-env VAR` sends an operator's token, which `remote-agent serve clients add NAME --operator` creates",
        ),
        StatusCode::FORBIDDEN => (Exit::Auth, ""),
        _ => (Exit::Failed, ""),
    };
    Failure {
        exit,
        message: format!(
            "the server refused the request ({}): {reason}{next}",
            status.as_u16()
        ),
    }
}
