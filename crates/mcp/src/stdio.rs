//! The server over standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, ReadBuf, stdin, stdout};
use tokio_util::sync::CancellationToken;

use crate::McpServer;

/// How long calls may still run after the end of the input. A script that pipes requests gets short answers.
const END_OF_INPUT_GRACE: Duration = Duration::from_secs(1);

/// How long cancelled calls may take to end.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// Serves one client over standard input and output, until the input ends or `stop` is cancelled. Calls that still run
/// are cancelled one second after the end of the input.
///
/// # Errors
/// The client speaks no MCP, or the streams cannot be used.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let ended = CancellationToken::new();
    let input = InputWithEnd {
        input: stdin(),
        ended: ended.clone(),
    };
    let calls = server.calls();
    let serving = async {
        let running = server.serve((input, stdout())).await;
        let running = match running {
            Ok(running) => running,
            // A client that only looked leaves before the first message.
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
        calls.cancel();
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        served = serving => served,
        () = stopping => Ok(()),
    }
}

/// Standard input that reports its end. `rmcp` alone waits five seconds for running calls.
struct InputWithEnd<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for InputWithEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(cx, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
