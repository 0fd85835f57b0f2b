//! Lines that a background thread writes.
//!
//! A blocking thread of the runtime writes the lines, so no call waits for a disk. A failed write loses lines and never
//! fails a call.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::LogFile;
use crate::log::{Level, Log};

/// The maximum number of queued lines. The caller that adds one more writes them, which slows calls down to the pace of the disk instead of
/// losing lines or taking memory.
const MAX_QUEUED_LINES: usize = 4096;

/// A file that lines are appended to, and that is put aside before it grows too large.
pub struct Lines(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    file: Mutex<Writer>,
    log: Arc<dyn Log>,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    /// Whether a thread writes, or is about to.
    claimed: bool,
    /// Whether the background thread has ended.
    closed: bool,
}

struct Writer {
    file: LogFile,
    /// The number of lines lost since the last write.
    lost: u64,
    /// Whether the failed rotation of the file has been logged.
    stuck: bool,
}

impl Lines {
    /// Returns the file at `path`, which is put aside under the same name with `.1` behind before it outgrows
    /// `max_bytes`. Nothing is opened before the first line. Lost lines are logged to `log`, once until one is written
    /// again.
    pub fn new(path: PathBuf, max_bytes: u64, log: Arc<dyn Log>) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::default(),
            file: Mutex::new(Writer {
                file: LogFile::new(path, max_bytes),
                lost: 0,
                stuck: false,
            }),
            log,
        }))
    }

    /// Takes a line with its line end. It is written soon, by another thread where the caller runs on a tokio runtime.
    pub fn write(&self, line: String) {
        let mut queue = lock(&self.0.queue);
        queue.lines.push_back(line);
        if !queue.closed && queue.lines.len() < MAX_QUEUED_LINES {
            if queue.claimed {
                return;
            }
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                queue.claimed = true;
                let shared = Arc::clone(&self.0);
                runtime.spawn_blocking(move || shared.drain());
                return;
            }
        }
        drop(queue);
        self.0.drain();
    }

    /// Waits until every queued line is written. Callers write later lines themselves.
    pub fn close(&self) {
        lock(&self.0.queue).closed = true;
        self.0.drain();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Writes until no line waits.
    fn drain(&self) {
        let mut writer = lock(&self.file);
        loop {
            let mut queue = lock(&self.queue);
            let lines = std::mem::take(&mut queue.lines);
            if lines.is_empty() {
                queue.claimed = false;
                return;
            }
            drop(queue);
            writer.write(&lines, &*self.log);
        }
    }
}

impl Writer {
    fn write(&mut self, lines: &VecDeque<String>, log: &dyn Log) {
        let mut open = match self.file.open() {
            Ok(open) => open,
            Err(error) => return self.lose(lines.len() as u64, &error, log),
        };
        for line in lines {
            match self.file.append(&mut open, line) {
                Ok(put_aside) => {
                    self.back(log);
                    self.moved(put_aside, log);
                }
                Err(error) => self.lose(1, &error, log),
            }
        }
    }

    fn lose(&mut self, lines: u64, error: &std::io::Error, log: &dyn Log) {
        if self.lost == 0 {
            let path = self.file.path().display();
            let message =
                format!("the audit log `{path}` cannot be written, its lines are lost: {error}");
            log.log(Level::Error, &message);
        }
        self.lost += lines;
    }

    fn back(&mut self, log: &dyn Log) {
        if self.lost > 0 {
            let path = self.file.path().display();
            let message = format!(
                "the audit log `{path}` is written again; lost lines: {}",
                self.lost
            );
            log.log(Level::Warn, &message);
            self.lost = 0;
        }
    }

    fn moved(&mut self, put_aside: Result<(), std::io::Error>, log: &dyn Log) {
        let logged = std::mem::replace(&mut self.stuck, put_aside.is_err());
        if let (Err(error), false) = (put_aside, logged) {
            let path = self.file.path().display();
            let message =
                format!("the audit log `{path}` cannot be put aside and grows on: {error}");
            log.log(Level::Error, &message);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
