//! A page of a list of tasks, of which one task at a time is in memory.

use std::{fmt, vec};

use a2a::{ListTasksResponse, Task};

use super::Service;
use super::view::View;
use crate::store::{Cursor, Listed, Summary};

/// A page of tasks (1.0 §3.1.4). It is bounded in number by the request, and in bytes by
/// [`page_bytes`](crate::settings::Limits::page_bytes): where the next task would go beyond, the page ends before it.
pub struct TaskPage {
    service: Service,
    view: View,
    tasks: vec::IntoIter<Summary>,
    /// Where the page ends.
    next: Option<Cursor>,
    /// The last task that was written.
    last: Option<Cursor>,
    bytes: usize,
    page_size: i32,
    total: usize,
}

impl TaskPage {
    pub(super) fn new(service: Service, view: View, listed: Listed, page_size: i32) -> Self {
        Self {
            service,
            view,
            tasks: listed.tasks.into_iter(),
            next: listed.next,
            last: None,
            bytes: 0,
            page_size,
            total: listed.total,
        }
    }

    /// Loads the next task and returns what `write` makes of it; `None` at the end of the page. A task that is gone, that
    /// cannot be read, or that is being answered by a message is left out.
    pub async fn next(&mut self, write: impl Fn(&Task) -> Vec<u8>) -> Option<Vec<u8>> {
        let core = &self.service.core;
        for listed in self.tasks.by_ref() {
            if self.service.show(&listed.id).is_err() {
                continue;
            }
            let record = match core.store.load(&listed.id).await {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(task_id = listed.id, %error, "a task is left out of a list");
                    continue;
                }
            };
            let written = write(&self.view.of(record.task));
            let bytes = self.bytes.saturating_add(written.len());
            if let Some(last) = &self.last
                && bytes > core.settings.limits.page_bytes
            {
                self.next = Some(last.clone());
                self.tasks = Vec::new().into_iter();
                return None;
            }
            self.bytes = bytes;
            self.last = Some(Cursor::of(&listed));
            return Some(written);
        }
        None
    }

    /// The token of the page that follows; empty after the last one. It is known once [`next`](Self::next) has said `None`.
    pub fn next_page_token(&self) -> String {
        self.next
            .as_ref()
            .map(Cursor::to_string)
            .unwrap_or_default()
    }

    /// The number of tasks that the page may have.
    pub fn page_size(&self) -> i32 {
        self.page_size
    }

    /// How many tasks there are on all pages.
    pub fn total_size(&self) -> i32 {
        i32::try_from(self.total).unwrap_or(i32::MAX)
    }

    /// Loads the whole page.
    pub async fn collect(mut self) -> ListTasksResponse {
        let mut tasks = Vec::new();
        let write = |task: &Task| serde_json::to_vec(task).unwrap_or_default();
        while let Some(json) = self.next(write).await {
            tasks.extend(serde_json::from_slice::<Task>(&json));
        }
        ListTasksResponse {
            tasks,
            next_page_token: self.next_page_token(),
            page_size: self.page_size(),
            total_size: self.total_size(),
        }
    }
}

impl fmt::Debug for TaskPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPage")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
