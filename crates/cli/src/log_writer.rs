//! Writes the log of a server to standard error, in batches while the server is busy: a write for each line would cost more than
//! the request that the line is about.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::Deserialize;
use serde_json::json;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How long after a write the next lines wait for more.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// The size from which lines do not wait, in bytes. A reader that does not keep up then slows the server down, and no lines pile up.
const MAX_BATCH_BYTES: usize = 64 << 10;

/// The maximum time from a failed write to the next.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The size from which lines are dropped that cannot be written, in bytes.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// The maximum length of a line, in bytes. Libraries log values of clients in full.
const MAX_LINE_BYTES: usize = 32 << 10;

/// The bytes of a longer line that the log keeps.
const KEPT_LINE_BYTES: usize = 1 << 10;

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
        let mut delay = BATCH_TIME;
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
            let elapsed = written_at.map_or(delay, |at| at.elapsed());
            thread::sleep(delay.saturating_sub(elapsed));
            // A log that cannot be written has no other place for the error.
            delay = match self.write_waiting() {
                Ok(()) => BATCH_TIME,
                Err(_) => MAX_RETRY_DELAY.min(delay * 2),
            };
        }
    }

    fn write_waiting(&self) -> io::Result<()> {
        // Locked before the lines are taken, so that batches keep their order.
        let mut output = self.output.lock();
        let mut lines = {
            let mut state = self.state.lock();
            state.written_at = Some(Instant::now());
            std::mem::take(&mut state.lines)
        };
        let mut rest = lines.as_slice();
        let outcome = write_rest(&mut *output, &mut rest);
        if outcome.is_err() {
            let written = lines.len() - rest.len();
            lines.drain(..written);
            self.keep(lines);
        }
        outcome
    }

    /// Keeps what could not be written for the next write, which would otherwise continue a line that is written in part.
    fn keep(&self, mut rest: Vec<u8>) {
        let mut state = self.state.lock();
        rest.append(&mut state.lines);
        state.lines = rest;
        let mut excess = state.lines.iter().skip(MAX_KEPT_BYTES);
        if let Some(end) = excess.position(|byte| *byte == b'\n') {
            state.lines.truncate(MAX_KEPT_BYTES + end + 1);
        }
        self.changed.notify_one();
    }
}

/// Writes `rest`, and leaves in it what is not written after an error.
fn write_rest(output: &mut impl Write, rest: &mut &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match output.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The members of a line of JSON that programs filter by.
#[derive(Debug, Default, Deserialize)]
struct LineHead {
    timestamp: Option<String>,
    level: Option<String>,
}

/// Returns a line in place of one that is too long: its beginning, as a text of a JSON object if it is one, with its time and
/// level.
fn shortened_line(line: &[u8]) -> String {
    let start = String::from_utf8_lossy(&line[..KEPT_LINE_BYTES.min(line.len())]);
    match line.first() {
        Some(b'{') => {
            let LineHead { timestamp, level } = serde_json::from_slice(line).unwrap_or_default();
            let short = json!({"timestamp": timestamp, "level": level, "cut_line": start, "bytes": line.len()});
            format!("{short}\n")
        }
        _ => format!("{start}… ({} bytes)\n", line.len()),
    }
}

impl<W: Write> Write for &LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        let is_first = state.lines.is_empty();
        match line.len() > MAX_LINE_BYTES {
            true => state.lines.extend(shortened_line(line).into_bytes()),
            false => state.lines.extend_from_slice(line),
        }
        let written_at = state.written_at;
        let is_busy = written_at.is_some_and(|at| at.elapsed() < BATCH_TIME);
        if is_busy && !state.is_closed && state.lines.len() < MAX_BATCH_BYTES {
            if is_first {
                self.changed.notify_one();
            }
            return Ok(line.len());
        }
        drop(state);
        // After a failure, the line waits for the next write.
        let _ = self.write_waiting();
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

/// Writes the waiting lines after an error, because the process may not live until the next batch. It comes after the layer
/// that writes the line of the error.
#[derive(Debug)]
pub(crate) struct WriteErrors<W>(pub(crate) Arc<LogWriter<W>>);

impl<S: Subscriber, W: Write + Send + 'static> Layer<S> for WriteErrors<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            let _ = self.0.write_waiting();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

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
    fn line_that_is_too_long_is_cut_and_stays_one_line() {
        let writes = Writes::default();
        let (log, guard) = LogWriter::start(writes.clone());
        let long = "\u{fc}\"".repeat(MAX_LINE_BYTES);
        let event = json!({"timestamp": "2026-01-01", "level": "WARN", "fields": {"level": long}});
        for line in [
            format!("WARN {long}\n"),
            format!("{event}\n"),
            format!("{{\"a\":{long:?}\n"),
        ] {
            (&*log).write_all(line.as_bytes()).unwrap();
        }
        drop(guard);
        let written = writes.0.lock().concat();
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.len(), 3, "{written}");
        assert!(written.len() < 6 * KEPT_LINE_BYTES, "{}", written.len());
        assert!(lines[0].starts_with("WARN \u{fc}\"") && lines[0].ends_with(" bytes)"));
        let objects = [lines[1], lines[2]].map(|line| {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(object["bytes"].as_u64() > Some(MAX_LINE_BYTES as u64));
            object
        });
        assert_eq!(objects[0]["level"], "WARN");
        assert_eq!(objects[0]["timestamp"], "2026-01-01");
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

    /// An output that accepts `room` bytes, in pieces.
    #[derive(Clone, Debug, Default)]
    struct Pieces {
        room: Arc<Mutex<usize>>,
        failures: Arc<Mutex<usize>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.room.lock();
            let piece = bytes.len().min(7).min(*room);
            if piece == 0 {
                *self.failures.lock() += 1;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            *room -= piece;
            self.written.lock().extend_from_slice(&bytes[..piece]);
            Ok(piece)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn failed_write_loses_no_line() {
        let output = Pieces::default();
        *output.room.lock() = 1_001;
        let (log, guard) = LogWriter::start(output.clone());
        let lines: Vec<String> = (0..1000).map(|line| format!("{line}\n")).collect();
        for line in &lines {
            (&*log).write_all(line.as_bytes()).unwrap();
        }
        while *output.failures.lock() == 0 {
            thread::sleep(BATCH_TIME);
        }
        *output.room.lock() = usize::MAX;
        // The thread tries again, without another line.
        let end = Instant::now() + Duration::from_secs(10);
        while output.written.lock().len() < lines.concat().len() && Instant::now() < end {
            thread::sleep(BATCH_TIME);
        }
        let written = String::from_utf8(output.written.lock().clone()).unwrap();
        assert_eq!(written, lines.concat());
        drop(guard);
    }

    #[test]
    fn output_without_room_keeps_whole_lines_and_bounded_memory() {
        let output = Pieces::default();
        *output.room.lock() = 10;
        let (log, guard) = LogWriter::start(output.clone());
        let line = format!("{}\n", "x".repeat(9_999));
        for _ in 0..MAX_KEPT_BYTES / 5_000 {
            (&*log).write_all(line.as_bytes()).unwrap();
        }
        let kept = log.state.lock().lines.len();
        assert!(kept < MAX_KEPT_BYTES + 2 * line.len(), "{kept}");
        *output.room.lock() = usize::MAX;
        drop(guard);
        let written = String::from_utf8(output.written.lock().clone()).unwrap();
        assert!(written.lines().count() > 50);
        assert!(written.split_inclusive('\n').all(|written| written == line));
    }

    #[test]
    fn error_is_written_at_once_after_the_lines_before_it() {
        let writes = Writes::default();
        let (log, guard) = LogWriter::start(writes.clone());
        let lines = fmt::layer().with_writer(Arc::clone(&log));
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber.with(WriteErrors(log)), || {
            for n in 0..100 {
                tracing::info!("before {n}.");
                tracing::error!("error {n}.");
                let written = writes.0.lock().concat();
                let places = ["before", "error"].map(|line| written.find(&format!("{line} {n}.")));
                assert!(
                    places[0].is_some() && places[0] < places[1],
                    "{n}: {places:?}"
                );
            }
        });
        drop(guard);
    }
}
