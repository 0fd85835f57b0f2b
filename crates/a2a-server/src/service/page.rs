//! A page of a list of tasks, of which one task at a time is in memory.

use std::{fmt, vec};

use a2a::v1_0::Task;

use super::Service;
use super::core::refused;
use super::view::View;
use crate::store::{Cursor, StoreError, Summary, SummaryPage};
use crate::task_record::TaskRecord;
use a2a::A2aError;

/// A page of tasks (1.0 §3.1.4). It is bounded in number by the request, and in bytes by
/// [`page_bytes`](crate::settings::Limits::page_bytes): where the next task would go beyond, the page ends before it.
pub struct TaskPage {
    service: Service,
    view: View,
    tasks: vec::IntoIter<Summary>,
    /// The first task, until it is written.
    first: Option<(Cursor, TaskRecord)>,
    /// Where the page ends.
    next: Option<Cursor>,
    /// The last task that was written.
    last: Option<Cursor>,
    bytes: usize,
    page_size: i32,
    total: usize,
}

impl TaskPage {
    /// Loads the first task, so that a store that fails is reported before an answer begins.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn open(
        service: Service,
        view: View,
        listed: SummaryPage,
        page_size: i32,
    ) -> Result<Self, A2aError> {
        let mut page = Self {
            service,
            view,
            tasks: listed.tasks.into_iter(),
            first: None,
            next: listed.next,
            last: None,
            bytes: 0,
            page_size,
            total: listed.total,
        };
        page.first = page.load().await?;
        Ok(page)
    }

    /// Loads the next task and returns what `write` makes of it; `None` at the end of the page. A task that is gone, that
    /// is damaged, or that is being answered by a message is left out.
    ///
    /// # Errors
    /// The store failed.
    pub async fn next(
        &mut self,
        write: impl Fn(&Task) -> Vec<u8>,
    ) -> Result<Option<Vec<u8>>, A2aError> {
        let loaded = match self.first.take() {
            Some(first) => Some(first),
            None => self.load().await?,
        };
        let Some((place, record)) = loaded else {
            return Ok(None);
        };
        let written = write(&self.view.apply(record.task));
        let bytes = self.bytes.saturating_add(written.len());
        if let Some(last) = &self.last
            && bytes > self.service.core.settings.limits.page_bytes
        {
            self.next = Some(last.clone());
            self.tasks = Vec::new().into_iter();
            return Ok(None);
        }
        self.bytes = bytes;
        self.last = Some(place);
        Ok(Some(written))
    }

    async fn load(&mut self) -> Result<Option<(Cursor, TaskRecord)>, A2aError> {
        for listed in self.tasks.by_ref() {
            if self.service.show(&listed.id).is_err() {
                continue;
            }
            match self.service.core.store.load(&listed.id).await {
                Ok(Some(record)) => return Ok(Some((Cursor::new(&listed), record))),
                Ok(None) => {}
                Err(StoreError::Damaged(why)) => {
                    tracing::error!(task_id = listed.id, why, "a task is left out of a list");
                }
                Err(error) => return Err(refused(error, &listed.id)),
            }
        }
        Ok(None)
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
}

impl fmt::Debug for TaskPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPage")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
