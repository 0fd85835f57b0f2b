//! The server over standard input and output.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, stdin, stdout};
use tokio_util::sync::CancellationToken;

use crate::McpServer;

/// How long calls may still run after the end of the input. A script that pipes requests gets short answers.
const END_OF_INPUT_GRACE: Duration = Duration::from_secs(1);

/// How long cancelled calls may take to end.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// How long the answers of cancelled calls may take to be written.
const ANSWER_GRACE: Duration = Duration::from_millis(100);

/// How many bytes the server reads while the client does not read its answers.
const MAX_UNANSWERED_BYTES: usize = 1 << 20;

/// Serves one client over standard input and output, until the input ends or `stop` is cancelled. Calls that still run
/// are cancelled one second after the end of the input.
///
/// # Errors
/// The client does not use MCP, or the streams are unusable.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let ended = CancellationToken::new();
    let blocked = Arc::new(Blocked::default());
    let input = InputWithEnd {
        input: stdin(),
        ended: ended.clone(),
        blocked: Arc::clone(&blocked),
    };
    let output = WatchedOutput {
        output: stdout(),
        blocked,
    };
    let calls = server.clone();
    let serving = async {
        let running = server.serve((input, output)).await;
        let running = match running {
            Ok(running) => running,
            // A client may close its streams before the first message.
            Err(_) if ended.is_cancelled() => return Ok(()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        running.waiting().await.map(drop).map_err(io::Error::other)
    };
    let stopping = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = async {
                ended.cancelled().await;
                tokio::time::sleep(END_OF_INPUT_GRACE).await;
            } => {}
        }
        let _ = tokio::time::timeout(CANCEL_GRACE, calls.cancel_calls()).await;
        // The transport writes the last answers.
        tokio::time::sleep(ANSWER_GRACE).await;
    };
    tokio::select! {
        served = serving => served,
        () = stopping => Ok(()),
    }
}

/// Whether the output waits for the client, and what the input has read since.
#[derive(Default)]
struct Blocked(Mutex<BlockedState>);

#[derive(Default)]
struct BlockedState {
    is_blocked: bool,
    read: usize,
    reader: Option<Waker>,
}

impl Blocked {
    fn lock(&self) -> MutexGuard<'_, BlockedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Standard input that reports its end, and pauses while the client does not read. `rmcp` alone waits five seconds for
/// running calls at the end, and keeps every answer that is not read.
struct InputWithEnd<R> {
    input: R,
    ended: CancellationToken,
    blocked: Arc<Blocked>,
}

impl<R: AsyncRead + Unpin> AsyncRead for InputWithEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        {
            let mut blocked = self.blocked.lock();
            if blocked.is_blocked && blocked.read >= MAX_UNANSWERED_BYTES {
                blocked.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(cx, buffer));
        let count = buffer.filled().len() - before;
        if read.is_err() || count == 0 {
            self.ended.cancel();
        }
        self.blocked.lock().read += count;
        Poll::Ready(read)
    }
}

/// Standard output that reports whether the client reads.
struct WatchedOutput<W> {
    output: W,
    blocked: Arc<Blocked>,
}

impl<W> WatchedOutput<W> {
    fn watch<T>(&self, written: Poll<T>) -> Poll<T> {
        let mut blocked = self.blocked.lock();
        blocked.is_blocked = written.is_pending();
        if !blocked.is_blocked {
            blocked.read = 0;
            if let Some(reader) = blocked.reader.take() {
                reader.wake();
            }
        }
        written
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WatchedOutput<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.output).poll_write(cx, buffer);
        self.watch(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.output).poll_flush(cx);
        self.watch(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_shutdown(cx)
    }
}
