//! Entries on their way to the disk.
//!
//! Whatever waits for one workspace is written at once, and brought to the disk at once, while the next entries gather: the
//! more there are, the more share one visit to the disk. A few threads at most do so for all workspaces.

use std::collections::{HashSet, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::entry::millis;
use super::index::Change;
use super::workspace::{Appender, Workspace};
use super::{Fsync, Options, SessionError, lock};
use common::environment::Environment;
use common::log::{Level, Log};

/// So many threads write at a time. The disk does better with several, and gains nothing by hundreds.
const WRITERS: usize = 8;

/// What waits for one workspace.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Pending>,
    /// Somebody is about to write it, or writing.
    claimed: bool,
}

/// One line that is to be written.
pub(super) struct Pending {
    pub(super) line: Vec<u8>,
    pub(super) session: String,
    pub(super) what: What,
    pub(super) time: u64,
    pub(super) done: oneshot::Sender<Result<(), SessionError>>,
}

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Entry,
    Create,
    Commit,
}

/// What is shared by all workspaces of one process.
pub(super) struct Writers {
    pub(super) options: Options,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
    /// Bytes of lines that wait.
    waiting: AtomicUsize,
    ready: Mutex<Ready>,
    /// Nothing is begun any more that nobody waits for.
    pub(super) closing: AtomicBool,
}

#[derive(Default)]
struct Ready {
    workspaces: VecDeque<Arc<Workspace>>,
    threads: usize,
}

impl Writers {
    pub(super) fn new(options: Options, env: Arc<dyn Environment>, log: Arc<dyn Log>) -> Self {
        Self {
            options,
            env,
            log,
            waiting: AtomicUsize::new(0),
            ready: Mutex::default(),
            closing: AtomicBool::new(false),
        }
    }

    /// The time of day, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        millis(self.env.system_time())
    }

    /// Takes a line. It is written by another thread where the caller runs on a tokio runtime.
    ///
    /// # Errors
    /// Too much waits already.
    pub(super) fn take(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        pending: Pending,
    ) -> Result<(), SessionError> {
        let bytes = pending.line.len();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > self.options.waiting {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(SessionError::Busy);
        }
        let mut queue = lock(&workspace.queue);
        queue.waiting.push(pending);
        if std::mem::replace(&mut queue.claimed, true) {
            return Ok(());
        }
        drop(queue);
        let mut ready = lock(&self.ready);
        ready.workspaces.push_back(Arc::clone(workspace));
        if ready.threads == WRITERS {
            return Ok(());
        }
        ready.threads += 1;
        drop(ready);
        let writers = Arc::clone(self);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || writers.work())),
            Err(_) => writers.work(),
        }
        Ok(())
    }

    /// Writes until no workspace is ready.
    fn work(self: &Arc<Self>) {
        loop {
            let mut ready = lock(&self.ready);
            let Some(workspace) = ready.workspaces.pop_front() else {
                ready.threads -= 1;
                return;
            };
            drop(ready);
            self.write(&workspace);
            let mut queue = lock(&workspace.queue);
            queue.claimed = !queue.waiting.is_empty();
            if queue.claimed {
                drop(queue);
                lock(&self.ready).workspaces.push_back(workspace);
            }
        }
    }

    /// Writes what waits for a workspace.
    pub(super) fn write(self: &Arc<Self>, workspace: &Arc<Workspace>) {
        let mut appender = lock(&workspace.file);
        let batch = std::mem::take(&mut lock(&workspace.queue).waiting);
        if batch.is_empty() {
            return;
        }
        let bytes: usize = batch.iter().map(|pending| pending.line.len()).sum();
        self.keep(workspace, &mut appender, batch);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.schedule(workspace, appender);
        self.make_room(workspace);
    }

    fn keep(&self, workspace: &Workspace, appender: &mut Appender, batch: Vec<Pending>) {
        let taken = self.admitted(workspace, batch);
        if taken.is_empty() {
            return;
        }
        let written = self.written(workspace, appender, &taken);
        if let Err(error) = written {
            self.log.log(Level::Error, &error.to_string());
            for pending in taken {
                let _ = pending.done.send(Err(error.again()));
            }
            return;
        }
        let mut index = lock(&workspace.index);
        for pending in &taken {
            let change = match pending.what {
                What::Entry => Change::Entry,
                What::Create => Change::Other,
                What::Commit => Change::Committed,
            };
            let start = appender.end;
            appender.end += pending.line.len() as u64;
            appender.lines += 1;
            let place = (start, appender.end);
            index.note(&pending.session, change, place, pending.time);
        }
        drop(index);
        for pending in taken {
            // Whoever gave up waiting does not need to know.
            let _ = pending.done.send(Ok(()));
        }
    }

    /// Those of a batch whose sessions take them. The others are told why not.
    fn admitted(&self, workspace: &Workspace, batch: Vec<Pending>) -> Vec<Pending> {
        let now = self.now();
        let mut begun = HashSet::new();
        let mut taken = Vec::with_capacity(batch.len());
        for pending in batch {
            match self.admit(workspace, &pending, &mut begun, now) {
                Ok(()) => taken.push(pending),
                Err(error) => drop(pending.done.send(Err(error))),
            }
        }
        taken
    }

    fn admit(
        &self,
        workspace: &Workspace,
        pending: &Pending,
        begun: &mut HashSet<String>,
        now: u64,
    ) -> Result<(), SessionError> {
        let session = pending.session.as_str();
        let exists = || SessionError::Exists {
            agent: workspace.agent.clone(),
            session: session.to_owned(),
        };
        let index = lock(&workspace.index);
        let creates = pending.what == What::Create;
        if index.get(session).is_some() || begun.contains(session) {
            return match index.get(session) {
                _ if creates => Err(exists()),
                Some(known) => workspace.readable(session, known, now, &self.options),
                None => Ok(()),
            };
        }
        let sessions = index.len() + begun.len();
        drop(index);
        match workspace.unknown(session) {
            SessionError::Expired { .. } | SessionError::Leaving { .. } if creates => {
                return Err(exists());
            }
            SessionError::NotFound { .. }
                if creates || (pending.what == What::Entry && self.options.begin) => {}
            other => return Err(other),
        }
        if sessions >= self.options.most {
            return Err(SessionError::Full {
                agent: workspace.agent.clone(),
                most: self.options.most,
            });
        }
        begun.insert(session.to_owned());
        Ok(())
    }

    fn written(
        &self,
        workspace: &Workspace,
        appender: &mut Appender,
        batch: &[Pending],
    ) -> Result<(), SessionError> {
        let path = workspace.path();
        appender.usable(&path)?;
        let file = workspace.opened(appender)?;
        let lines: Vec<&[u8]> = batch.iter().map(|one| one.line.as_slice()).collect();
        let text = lines.concat();
        if let Err(error) = (&*file).write_all(&text) {
            // What was written of it would be a line that nobody finishes.
            if let Err(worse) = file.set_len(appender.end) {
                appender.failed = Some(worse.to_string());
            }
            return Err(SessionError::io("write", &path, error));
        }
        appender.unsynced = true;
        let commits = batch.iter().any(|pending| pending.what == What::Commit);
        if commits || self.options.fsync == Fsync::Always {
            file.sync_data().map_err(|error| {
                // What the disk has after that, nobody can say.
                appender.failed = Some(error.to_string());
                SessionError::io("sync", &path, error)
            })?;
            appender.unsynced = false;
        }
        Ok(())
    }

    /// Sees to it that what was written comes to the disk in time.
    fn schedule(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        mut appender: MutexGuard<'_, Appender>,
    ) {
        let Fsync::Interval(interval) = self.options.fsync else {
            return;
        };
        if !appender.unsynced || appender.scheduled {
            return;
        }
        // Without a runtime it is done when the sessions are closed.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        appender.scheduled = true;
        drop(appender);
        let (writers, workspace) = (Arc::clone(self), Arc::clone(workspace));
        runtime.spawn(async move {
            tokio::time::sleep(interval).await;
            let synced = tokio::task::spawn_blocking(move || workspace.sync()).await;
            if let Ok(Err(error)) = synced {
                writers.log.log(Level::Error, &error.to_string());
            }
        });
    }
}
