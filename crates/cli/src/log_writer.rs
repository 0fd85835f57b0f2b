//! Writes the log of a server to standard error, in batches while the server is busy: a write for each line would cost more than
//! the request that the line is about.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long after a write the next lines wait for more.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// The size from which lines do not wait, in bytes. A reader that does not keep up then slows the server down, and no lines pile up.
const MAX_BATCH_BYTES: usize = 64 << 10;

/// A log on `output`, from any thread.
#[derive(Debug)]
pub(crate) struct LogWriter<W> {
    state: Mutex<State>,
    /// Notified when a line begins to wait, and at the end.
    changed: Condvar,
    output: Mutex<W>,
}

#[derive(Debug, Default)]
struct State {
    /// The lines that wait.
    lines: Vec<u8>,
    written_at: Option<Instant>,
    /// Whether each line is written at once, because no thread writes batches.
    is_closed: bool,
}

/// Writes the waiting lines when it is dropped. Later lines do not wait.
#[derive(Debug)]
#[must_use]
pub(crate) struct LogGuard<W: Write>(Arc<LogWriter<W>>);

impl<W: Write + Send + 'static> LogWriter<W> {
    /// Starts the thread that writes batches.
    pub(crate) fn start(output: W) -> (Arc<Self>, LogGuard<W>) {
        let log = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            output: Mutex::new(output),
        });
        let thread = thread::Builder::new().name("log".to_owned());
        let batches = Arc::clone(&log);
        if thread.spawn(move || batches.write_batches()).is_err() {
            log.state.lock().is_closed = true;
        }
        (Arc::clone(&log), LogGuard(log))
    }
}

impl<W: Write> LogWriter<W> {
    fn write_batches(&self) {
        loop {
            let mut state = self.state.lock();
            while state.lines.is_empty() && !state.is_closed {
                self.changed.wait(&mut state);
            }
            if state.is_closed {
                return;
            }
            let written_at = state.written_at;
            drop(state);
            let elapsed = written_at.map_or(BATCH_TIME, |at| at.elapsed());
            thread::sleep(BATCH_TIME.saturating_sub(elapsed));
            // A log that cannot be written has no other place for this error.
            let _ = self.write_waiting();
        }
    }

    fn write_waiting(&self) -> io::Result<()> {
        // Locked before the lines are taken, so that batches keep their order.
        let mut output = self.output.lock();
        let lines = {
            let mut state = self.state.lock();
            state.written_at = Some(Instant::now());
            std::mem::take(&mut state.lines)
        };
        output.write_all(&lines)
    }
}

impl<W: Write> Write for &LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        let is_first = state.lines.is_empty();
        state.lines.extend_from_slice(line);
        let written_at = state.written_at;
        let is_busy = written_at.is_some_and(|at| at.elapsed() < BATCH_TIME);
        if is_busy && !state.is_closed && state.lines.len() < MAX_BATCH_BYTES {
            if is_first {
                self.changed.notify_one();
            }
            return Ok(line.len());
        }
        drop(state);
        self.write_waiting()?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_waiting()
    }
}

impl<W: Write> Drop for LogGuard<W> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_one();
        let _ = self.0.write_waiting();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The writes so far.
    #[derive(Clone, Debug, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.lock().push(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn first_line_is_written_at_once_and_a_burst_together() {
        let writes = Writes::default();
        let (log, guard) = LogWriter::start(writes.clone());
        let lines: Vec<String> = (0..1000).map(|line| format!("{line}\n")).collect();
        for line in &lines {
            (&*log).write_all(line.as_bytes()).unwrap();
            assert_eq!(writes.0.lock()[0], "0\n");
        }
        drop(guard);
        let all = writes.0.lock();
        assert_eq!(all.concat(), lines.concat());
        assert!(all.len() < lines.len() / 2, "{} writes", all.len());
    }

    #[test]
    fn waiting_line_is_written_without_another_one() {
        let writes = Writes::default();
        let (log, guard) = LogWriter::start(writes.clone());
        (&*log).write_all(b"a\n").unwrap();
        (&*log).write_all(b"b\n").unwrap();
        while writes.0.lock().concat() != "a\nb\n" {
            thread::sleep(BATCH_TIME);
        }
        drop(guard);
        (&*log).write_all(b"c\n").unwrap();
        assert_eq!(writes.0.lock().concat(), "a\nb\nc\n");
    }
}
