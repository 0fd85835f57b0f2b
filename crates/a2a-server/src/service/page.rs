//! A page of tasks. It holds one task in memory at a time.

use std::{fmt, vec};

use a2a::v1_0::Task;

use super::Service;
use super::core::to_a2a_error;
use super::view::View;
use crate::store::{Cursor, StoreError, Summary, SummaryPage};
use crate::task_record::TaskRecord;
use a2a::A2aError;

/// A page of tasks (A2A 1.0 §3.1.4). The request limits the number of tasks.
/// [`page_bytes`](crate::settings::ServiceLimits::page_bytes) limits their size: the page ends before the task that
/// would exceed it.
pub struct TaskPage {
    service: Service,
    view: View,
    tasks: vec::IntoIter<Summary>,
    /// The first task, until [`next`](Self::next) writes it.
    first: Option<(Cursor, TaskRecord)>,
    /// The start of the next page.
    next: Option<Cursor>,
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

    /// Loads the next task and returns the result of `write`; `None` at the end of the page. Skips tasks that have been
    /// deleted, damaged, or replaced by a message.
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
                Err(StoreError::Damaged(cause)) => {
                    tracing::error!(task_id = listed.id, cause, "a list omits a damaged task");
                }
                Err(error) => return Err(to_a2a_error(error, &listed.id)),
            }
        }
        Ok(None)
    }

    /// Returns the token of the next page, which is empty on the last page. Valid once [`next`](Self::next) has
    /// returned `None`.
    pub fn next_page_token(&self) -> String {
        self.next
            .as_ref()
            .map(Cursor::to_string)
            .unwrap_or_default()
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

impl fmt::Debug for TaskPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPage")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
