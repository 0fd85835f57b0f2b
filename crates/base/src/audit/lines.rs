//! Lines that a background thread writes.
//!
//! A blocking thread of the runtime writes the lines, so no call waits for a disk. A failed write loses lines and never
//! fails a call.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use super::file::LogFile;
use crate::log::{Level, Log};
use parking_lot::Mutex;

/// The maximum number of queued lines. The caller that adds one more writes them, which slows calls down to the speed of
/// the disk instead of losing lines or using memory.
const MAX_QUEUED_LINES: usize = 4096;

/// A file of lines that is rotated before it grows too large.
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
    is_writing: bool,
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
    /// Creates a writer for the file at `path`, which it opens at the first line. Rotates the file to the same name with
    /// `.1` before it exceeds `max_bytes`. Reports lost lines to `log` once, until a line is written again.
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

    /// Queues a line with its line end. On a tokio runtime, another thread writes it soon; otherwise, this call does.
    pub fn write(&self, line: String) {
        let mut queue = self.0.queue.lock();
        queue.lines.push_back(line);
        if !queue.closed && queue.lines.len() < MAX_QUEUED_LINES {
            if queue.is_writing {
                return;
            }
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                queue.is_writing = true;
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
        self.0.queue.lock().closed = true;
        self.0.drain();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Writes until the queue is empty.
    fn drain(&self) {
        let mut writer = self.file.lock();
        loop {
            let mut queue = self.queue.lock();
            let lines = std::mem::take(&mut queue.lines);
            if lines.is_empty() {
                queue.is_writing = false;
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
            Err(error) => return self.count_lost(lines.len() as u64, &error, log),
        };
        for line in lines {
            match self.file.append(&mut open, line) {
                Ok(rotated) => {
                    self.log_recovery(log);
                    self.log_rotation(rotated, log);
                }
                Err(error) => self.count_lost(1, &error, log),
            }
        }
    }

    fn count_lost(&mut self, lines: u64, error: &std::io::Error, log: &dyn Log) {
        if self.lost == 0 {
            let path = self.file.path().display();
            let message =
                format!("the audit log `{path}` cannot be written, its lines are lost: {error}");
            log.log(Level::Error, &message);
        }
        self.lost += lines;
    }

    fn log_recovery(&mut self, log: &dyn Log) {
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

    fn log_rotation(&mut self, rotated: Result<(), std::io::Error>, log: &dyn Log) {
        let logged = std::mem::replace(&mut self.stuck, rotated.is_err());
        if let (Err(error), false) = (rotated, logged) {
            let path = self.file.path().display();
            let message =
                format!("cannot rotate the audit log `{path}`, which keeps growing: {error}");
            log.log(Level::Error, &message);
        }
    }
}
