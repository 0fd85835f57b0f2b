//! What a client sees of tasks: the part of a task that it requests, the updates of a task, and a page of tasks, which
//! holds the JSON of some finished tasks and at most one decoded task in memory.

use std::collections::HashMap;
use std::pin::Pin;
use std::vec;

use a2a::v0_3::as_v0_3;
use a2a::v1_0::{StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent};
use a2a::{A2aError, Dialect, ErrorReason};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, future, stream};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::core::to_a2a_error;
use super::{Service, TaskUpdates};
use crate::metrics::OpenStream;
use crate::store::body::RawRecord;
use crate::store::{
    Cursor, Filter, ListedTask, Loaded, StoreError, TaskSubscription, TaskUpdate, body,
};
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};

/// The requested part of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// The number of newest messages in the history.
    messages: usize,
    artifacts: bool,
}

impl View {
    /// Creates a view for `historyLength` (A2A 1.0 §3.2.4). `None` means all messages and 0 none. `limit` is the
    /// maximum.
    pub(super) fn new(history_length: Option<i32>, limit: usize) -> Result<Self, A2aError> {
        let messages = match history_length {
            None => limit,
            Some(length) => usize::try_from(length).map_err(|_| {
                A2aError::new(
                    ErrorReason::InvalidParams,
                    format!("`historyLength` is {length}; it must be 0 or more"),
                )
                .at("historyLength")
            })?,
        };
        Ok(Self {
            messages: messages.min(limit),
            artifacts: true,
        })
    }

    /// Sets whether the view includes artifacts.
    pub(super) fn with_artifacts(self, artifacts: bool) -> Self {
        Self { artifacts, ..self }
    }

    /// Reduces a task to the view.
    pub(super) fn apply(self, mut task: Task) -> Task {
        if let Some(history) = &mut task.history {
            let older = history.len().saturating_sub(self.messages);
            history.drain(..older);
        }
        if task.history.as_ref().is_some_and(Vec::is_empty) {
            task.history = None;
        }
        if !self.artifacts {
            task.artifacts = None;
        }
        task
    }

    /// Returns the view of a finished task as JSON of A2A 1.0.
    pub(super) fn finished(self, raw: RawRecord<'_>) -> Result<FinishedTask, String> {
        let state = raw.state()?;
        let mut json = Vec::new();
        raw.write_v1(&mut json, self.messages, self.artifacts);
        Ok(FinishedTask { json, state })
    }

    /// Returns the view of a task as JSON of `dialect`.
    fn json(self, task: Loaded, dialect: Dialect) -> Result<Vec<u8>, String> {
        let record = match task {
            Loaded::Json(json) => match body::task_v1(&json, self.messages, self.artifacts) {
                Ok(written) => return Ok(written),
                // Decoding reports the damage.
                Err(_) => Box::new(body::decode_record(&json)?),
            },
            Loaded::Record(record) => record,
        };
        let task = self.apply(record.task);
        let written = match dialect {
            Dialect::V1_0 => serde_json::to_vec(&task),
            Dialect::V0_3(dialect) => serde_json::to_vec(&as_v0_3(&task, dialect)),
        };
        written.map_err(|error| error.to_string())
    }
}

/// A finished task.
#[derive(Debug, PartialEq)]
pub struct FinishedTask {
    /// The task as JSON of A2A 1.0.
    pub json: Vec<u8>,
    /// The state of the task.
    pub state: TaskState,
}

/// The size of the tasks that a page reads from the store at once, in bytes of JSON.
const PART_BYTES: usize = 256 << 10;

/// A page of tasks (A2A 1.0 §3.1.4). The request limits the number of tasks.
/// [`page_bytes`](crate::settings::ServiceLimits::page_bytes) limits their size: the page ends before the task that
/// would exceed it.
pub struct TaskPage {
    service: Service,
    view: View,
    /// The client whose tasks the page has; `None` for the operator.
    owner: Option<String>,
    /// The tasks of the page that are not read yet.
    listed: vec::IntoIter<ListedTask>,
    /// The tasks that are read, with the JSON of the finished ones.
    part: vec::IntoIter<(Cursor, Option<Bytes>)>,
    /// Where the next page begins.
    after: Option<Cursor>,
    dialect: Dialect,
    /// The first task, until [`next`](Self::next) writes it.
    first: Option<(Cursor, Loaded)>,
    /// The last written task.
    last: Option<Cursor>,
    bytes: usize,
    page_size: i32,
    total: usize,
}

impl TaskPage {
    /// Loads the first task now, so that the server can still respond with an error of the store.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn open(
        service: Service,
        view: View,
        filter: Filter,
        page_size: i32,
        dialect: Dialect,
    ) -> Result<Self, A2aError> {
        // A2A 0.3 needs the decoded tasks: the store loads them, because it bounds the number that are decoded at once.
        let json_bytes = match dialect {
            Dialect::V1_0 => PART_BYTES,
            _ => 0,
        };
        let core = &service.core;
        let read = core.store.page(&filter, json_bytes);
        let listed = core.read(filter.owner.as_deref(), read).await;
        let listed = listed.map_err(|error| to_a2a_error(error, ""))?;
        let mut page = Self {
            service,
            view,
            owner: filter.owner,
            listed: listed.tasks.into_iter(),
            part: Vec::new().into_iter(),
            after: listed.next,
            dialect,
            first: None,
            last: None,
            bytes: 0,
            page_size,
            total: listed.total,
        };
        page.first = page.load().await?;
        Ok(page)
    }

    /// Returns the next task as JSON of the page's dialect; `None` at the end of the page. Skips tasks that have been deleted,
    /// damaged, or replaced by a message.
    ///
    /// # Errors
    /// The store failed.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, A2aError> {
        loop {
            let loaded = match self.first.take() {
                Some(first) => Some(first),
                None => self.load().await?,
            };
            let Some((place, task)) = loaded else {
                return Ok(None);
            };
            let written = match self.view.json(task, self.dialect) {
                Ok(written) => written,
                Err(cause) => {
                    self.service.core.log_unreadable(&place.task_id, &cause);
                    continue;
                }
            };
            let bytes = self.bytes.saturating_add(written.len());
            if let Some(last) = &self.last
                && bytes > self.service.core.settings.limits.page_bytes
            {
                self.after = Some(last.clone());
                self.listed = Vec::new().into_iter();
                self.part = Vec::new().into_iter();
                return Ok(None);
            }
            self.bytes = bytes;
            self.last = Some(place);
            return Ok(Some(written));
        }
    }

    /// Reads the JSON of the finished tasks that follow, up to [`PART_BYTES`] or of one task.
    async fn read_part(&mut self) -> Result<(), A2aError> {
        let mut bytes = 0_usize;
        let fits = |listed: &&ListedTask| {
            let first = bytes == 0;
            bytes = bytes.saturating_add(listed.bytes.unwrap_or_default());
            first || bytes <= PART_BYTES
        };
        let count = self.listed.as_slice().iter().take_while(fits).count();
        let part: Vec<ListedTask> = self.listed.by_ref().take(count).collect();
        let sends_json = matches!(self.dialect, Dialect::V1_0);
        let unread = |listed: &&ListedTask| listed.bytes.is_some() && listed.json.is_none();
        let finished = part.iter().filter(|_| sends_json).filter(unread);
        let finished: Vec<ListedTask> = finished.cloned().collect();
        let mut bodies = Vec::new().into_iter();
        if !finished.is_empty() {
            let owner = self.owner.as_deref();
            let core = &self.service.core;
            let read = core.read(owner, core.store.bodies(owner, &finished));
            bodies = read
                .await
                .map_err(|error| to_a2a_error(error, ""))?
                .into_iter();
        }
        let body = |listed: ListedTask| {
            let read = |_| bodies.next().flatten();
            let json = listed.json.or_else(|| listed.bytes.and_then(read));
            (listed.place, json)
        };
        self.part = part.into_iter().map(body).collect::<Vec<_>>().into_iter();
        Ok(())
    }

    async fn load(&mut self) -> Result<Option<(Cursor, Loaded)>, A2aError> {
        loop {
            while let Some((place, json)) = self.part.next() {
                let id = &place.task_id;
                if self.service.show(id).is_err() {
                    continue;
                }
                if let Some(json) = json {
                    return Ok(Some((place, Loaded::Json(json))));
                }
                if let Some(record) = self.record(id).await? {
                    return Ok(Some((place, record)));
                }
            }
            if self.listed.len() == 0 {
                return Ok(None);
            }
            self.read_part().await?;
        }
    }

    /// Loads a task; `None` if it is deleted, damaged or of another client.
    async fn record(&self, id: &str) -> Result<Option<Loaded>, A2aError> {
        let core = &self.service.core;
        match core.read(self.owner.as_deref(), core.store.load(id)).await {
            Ok(record) => {
                let own = |record: &TaskRecord| {
                    let owner = self.owner.as_ref();
                    owner.is_none_or(|owner| *owner == record.owner)
                };
                Ok(record
                    .filter(own)
                    .map(|record| Loaded::Record(Box::new(record))))
            }
            Err(StoreError::Damaged(cause)) => {
                core.log_unreadable(id, &cause);
                Ok(None)
            }
            Err(error) => Err(to_a2a_error(error, id)),
        }
    }

    /// Returns the token of the next page, which is empty on the last page. Valid once [`next`](Self::next) has
    /// returned `None`.
    pub fn next_page_token(&self) -> String {
        self.after
            .as_ref()
            .map(Cursor::to_string)
            .unwrap_or_default()
    }

    /// Returns the dialect of the tasks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the requested page size.
    pub fn page_size(&self) -> i32 {
        self.page_size
    }

    /// Returns the number of tasks on all pages.
    pub fn total_size(&self) -> i32 {
        i32::try_from(self.total).unwrap_or(i32::MAX)
    }
}

base::debug_fields!(self: TaskPage { total });

/// Returns the task and its updates until it is terminal or interrupted (A2A 1.0 §3.1.2), or until `ending` is
/// cancelled.
pub(super) fn updates(
    subscription: TaskSubscription,
    view: View,
    listening: OpenStream,
    ending: CancellationToken,
) -> TaskUpdates {
    let TaskSubscription { record, updates } = subscription;
    let state = UpdateStream {
        task_id: record.task.id.clone(),
        context_id: record.task.context_id.clone(),
        metadata: record.task.metadata.clone().unwrap_or_default(),
        updates,
        view,
        excess: false,
        ending: Box::pin(ending.cancelled_owned()),
        _listening: listening,
    };
    let first = StreamResponse::Task(view.apply(record.task));
    stream::once(future::ready(Ok(first)))
        .chain(stream::unfold(state, |mut state| async move {
            let update = state.next().await?;
            Some((Ok(update), state))
        }))
        .boxed()
}

struct UpdateStream {
    task_id: String,
    context_id: String,
    /// The metadata of the run. The next status carries it, because streams have no other field for it.
    metadata: HashMap<String, Value>,
    updates: BoxStream<'static, TaskUpdate>,
    view: View,
    excess: bool,
    /// Resolves when the server stops.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    _listening: OpenStream,
}

impl UpdateStream {
    async fn next(&mut self) -> Option<StreamResponse> {
        while !self.excess {
            let update = tokio::select! {
                biased;
                update = self.updates.next() => update?,
                () = &mut self.ending => return None,
            };
            let update = match update {
                TaskUpdate::Snapshot(record) => {
                    self.excess = record.is_terminal() || record.is_interrupted();
                    self.metadata = record.task.metadata.clone().unwrap_or_default();
                    Some(StreamResponse::Task(self.view.apply(record.task)))
                }
                // Other subscribers may share the change, so clone it only if necessary.
                TaskUpdate::Change(_, change) => {
                    self.response(std::sync::Arc::unwrap_or_clone(change))
                }
            };
            if update.is_some() {
                return update;
            }
        }
        None
    }

    fn response(&mut self, change: TaskChange) -> Option<StreamResponse> {
        match change {
            TaskChange::Status(status) => {
                let settled = status.state.is_terminal();
                self.excess = settled || is_interrupted(&status.state);
                let metadata = std::mem::take(&mut self.metadata);
                Some(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                    task_id: self.task_id.clone(),
                    context_id: self.context_id.clone(),
                    status,
                    metadata: (!metadata.is_empty()).then_some(metadata),
                }))
            }
            TaskChange::Artifact {
                artifact,
                append,
                last_chunk,
            } => Some(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                artifact,
                append: Some(append),
                last_chunk: Some(last_chunk),
                metadata: None,
            })),
            TaskChange::Metadata(more) => {
                self.metadata.extend(more);
                None
            }
            TaskChange::Message(_) | TaskChange::Run(_) | TaskChange::Started => None,
        }
    }
}
