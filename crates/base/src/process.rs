//! A child process with everything it starts: a process group of its own, which ends as a whole.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use openclaw_remote_agent_base::process::{Ended, run};
//! use tokio::{process::Command, time::Instant};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let deadline = Instant::now() + Duration::from_secs(10);
//! let cancel = CancellationToken::new();
//! let ended = run(Command::new("cat"), Some("hello"), deadline, &cancel, |_| {}).await?;
//! let Ended::Exited(finished) = ended else { unreachable!() };
//! assert_eq!(finished.out, b"hello");
//! # Ok(())
//! # }
//! ```

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::join3;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The time from SIGTERM to SIGKILL of the process group.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// The interval of checks for the end of the process group.
const GROUP_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long to read from pipes that descendants of an ended process hold open.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// The maximum size of the standard output that is kept, in bytes.
const MAX_STDOUT_BYTES: usize = 16 * 1024 * 1024;

/// The size of the buffer for standard output.
const PIECE_BYTES: usize = 64 * 1024;

/// The minimum size of the end of standard error that is kept, in bytes; at most twice as much is kept.
const MAX_STDERR_BYTES: usize = 8 * 1024;

/// How a process ended.
#[derive(Debug)]
pub enum Ended {
    /// It exited by itself.
    Exited(Finished),
    /// It was stopped at its deadline.
    TimedOut,
    /// It was stopped on request.
    Canceled,
}

/// The result of a process.
#[derive(Debug)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// The beginning of its standard output, at most 16 MiB.
    pub out: Vec<u8>,
    /// Whether its standard output was longer than `out`.
    pub is_truncated: bool,
    /// The end of its standard error, at most 16 KiB.
    pub err: Vec<u8>,
}

impl Finished {
    /// Returns the last `max_chars` characters of standard error, without white space around them.
    #[must_use]
    pub fn stderr_tail(&self, max_chars: usize) -> String {
        let text = String::from_utf8_lossy(&self.err);
        let text = text.trim();
        let skipped = text.chars().count().saturating_sub(max_chars);
        text.chars().skip(skipped).collect()
    }
}

/// Runs a process with `input` on its standard input, and passes each piece of its standard output to `on_output`. At the
/// deadline `until`, or when `cancel` fires, its group gets SIGTERM, and is ended two seconds later; when this is dropped, at
/// once.
///
/// # Errors
/// It does not start.
pub async fn run(
    mut command: Command,
    input: Option<&str>,
    until: Instant,
    cancel: &CancellationToken,
    mut on_output: impl FnMut(&[u8]),
) -> io::Result<Ended> {
    command
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn()?;
    let mut group = Group::new(&child);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut is_truncated, mut status) = (false, None);
    let stopped = {
        let stdout = Stdout {
            output: &mut out,
            is_truncated: &mut is_truncated,
            on_output: &mut on_output,
        };
        let work = run_to_exit(&mut child, input, stdout, &mut err);
        tokio::pin!(work);
        let stopped = tokio::select! {
            ended = &mut work => {
                status = Some(ended?);
                None
            }
            () = cancel.cancelled() => Some(Ended::Canceled),
            () = sleep_until(until) => Some(Ended::TimedOut),
        };
        if stopped.is_some() {
            group.terminate();
            let deadline = Instant::now() + TERMINATE_GRACE;
            let _ = timeout(TERMINATE_GRACE, &mut work).await;
            while group.exists() && Instant::now() < deadline {
                sleep(GROUP_POLL_INTERVAL).await;
            }
        }
        stopped
    };
    group.kill();
    match (stopped, status) {
        (Some(stopped), _) => {
            child.wait().await?;
            Ok(stopped)
        }
        (None, Some(status)) => Ok(Ended::Exited(Finished {
            status,
            out,
            is_truncated,
            err,
        })),
        (None, None) => Err(io::ErrorKind::Other.into()),
    }
}

/// Waits for the exit of the process, with its pipes served until then.
async fn run_to_exit(
    child: &mut Child,
    input: Option<&str>,
    out: Stdout<'_, impl FnMut(&[u8])>,
    err: &mut Vec<u8>,
) -> io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pipes = join3(
        write_stdin(stdin, input),
        read_stdout(stdout, out),
        read_stderr_tail(stderr, err),
    );
    tokio::pin!(pipes);
    let mut are_closed = false;
    let ended = child.wait();
    tokio::pin!(ended);
    let status = tokio::select! {
        status = &mut ended => status?,
        _ = &mut pipes => {
            are_closed = true;
            ended.await?
        }
    };
    if !are_closed {
        // Descendants of the process may hold its pipes open.
        let _ = timeout(PIPE_DRAIN_TIMEOUT, pipes).await;
    }
    Ok(status)
}

/// Writes the input and closes the pipe. Ignores a process that does not read it.
async fn write_stdin(stdin: Option<ChildStdin>, input: Option<&str>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
}

/// Where the standard output goes.
struct Stdout<'a, F> {
    output: &'a mut Vec<u8>,
    is_truncated: &'a mut bool,
    on_output: &'a mut F,
}

/// Reads to the end, and keeps the beginning.
async fn read_stdout(pipe: Option<impl AsyncRead + Unpin>, stdout: Stdout<'_, impl FnMut(&[u8])>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    while let Ok(1..) = pipe.read_buf(&mut piece).await {
        (stdout.on_output)(&piece);
        let room = MAX_STDOUT_BYTES - stdout.output.len();
        let taken = &piece[..piece.len().min(room)];
        stdout.output.extend_from_slice(taken);
        *stdout.is_truncated |= piece.len() > room;
        piece.clear();
    }
}

/// Reads to the end, and keeps the end.
async fn read_stderr_tail(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    while let Ok(1..) = pipe.read_buf(tail).await {
        if tail.len() > 2 * MAX_STDERR_BYTES {
            tail.drain(..tail.len() - MAX_STDERR_BYTES);
        }
    }
}

/// The processes of a group, whose first one is a child of this process. Dropping it ends them all.
struct Group {
    #[cfg(unix)]
    id: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn new(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            id: id.and_then(rustix::process::Pid::from_raw),
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(id) = self.id {
            // A group that is gone needs no signal.
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }

    fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn exists(&self) -> bool {
        self.id
            .is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.id = None;
    }
}

/// Elsewhere there are no groups; the process itself ends with its handle.
#[cfg(not(unix))]
impl Group {
    fn new(_child: &Child) -> Self {
        Self {}
    }

    fn terminate(&self) {}

    fn exists(&self) -> bool {
        false
    }

    fn kill(&mut self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
