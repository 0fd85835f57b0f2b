//! Accesses tasks in a store that this command opened.

use std::sync::Arc;

use a2a_server::http::app::task_json;
use a2a_server::store::{Cursor, Filter, StoreError, TaskStore};

use super::Page;
use crate::{exit::Failure, output::note};

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
