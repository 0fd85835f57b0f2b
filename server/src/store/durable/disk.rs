//! What the operating system has and the disk may not have yet, and whether either still takes anything.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::files;
use crate::store::StoreError;

/// How long the disk may lag behind where it is brought up in intervals.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file that is written to, and how that goes.
#[derive(Debug)]
pub(super) struct Disk {
    head: Mutex<(Arc<File>, PathBuf)>,
    dirty: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last write failed.
    trouble: Option<StoreError>,
    /// A write cannot be undone, or the disk did not take what the system had: nothing can be promised any more.
    over: bool,
}

impl Disk {
    pub(super) fn new(head: Arc<File>, path: PathBuf) -> Self {
        Self {
            head: Mutex::new((head, path)),
            dirty: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Another file is written to from now on; the last one is on the disk.
    pub(super) fn turn_to(&self, head: Arc<File>, path: PathBuf) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = (head, path);
    }

    /// Something was written.
    pub(super) fn soil(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    /// Brings a file to the disk. After a failure nothing is taken any more: the system may have thrown away what the disk
    /// did not take, and would not say so again.
    pub(super) fn sync(&self, file: &File, path: &Path) -> Result<(), StoreError> {
        file.sync_data().map_err(|error| {
            let error = files::failed("sync", path, &error);
            self.give_up(error.clone());
            error
        })
    }

    /// Brings what was written to the disk again and again, until nobody is left who writes.
    pub(super) fn keep_synced(&self, writer: &Receiver<()>) {
        while writer.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if !self.dirty.swap(false, Ordering::AcqRel) {
                continue;
            }
            let (head, path) = self
                .head
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Err(error) = self.sync(&head, &path) {
                tracing::error!(%error, "the task store cannot keep anything any more");
            }
        }
    }

    /// A write failed; the next one may not.
    pub(super) fn trouble(&self, error: StoreError) {
        self.state().trouble = Some(error);
    }

    /// No write may follow.
    pub(super) fn give_up(&self, error: StoreError) {
        let mut state = self.state();
        state.trouble = Some(error);
        state.over = true;
    }

    /// A write succeeded.
    pub(super) fn fine(&self) {
        let mut state = self.state();
        if !state.over {
            state.trouble = None;
        }
    }

    /// What went wrong with the last write.
    pub(super) fn troubled(&self) -> Option<StoreError> {
        self.state().trouble.clone()
    }

    /// Whether writes may be tried.
    pub(super) fn usable(&self) -> Result<(), StoreError> {
        match &*self.state() {
            State {
                trouble: Some(StoreError::Failed(why)),
                over: true,
            } => Err(StoreError::Failed(format!(
                "{why}; the task store takes nothing more until the server is started again"
            ))),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
