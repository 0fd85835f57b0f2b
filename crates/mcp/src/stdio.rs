//! The server over standard input and output.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::lines::{Line, LineReader};
use rmcp::ServiceExt as _;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, GetExtensions as _, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, ServerInitializeError};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, stdin, stdout};
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::McpServer;
use crate::message::{self, Head, Refusal};

/// How long calls may still run after the end of the input. A script that pipes requests gets short answers.
const END_OF_INPUT_GRACE: Duration = Duration::from_secs(1);

/// How long cancelled calls may take to end.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// How long the answers of cancelled calls may take to be written.
const ANSWER_GRACE: Duration = Duration::from_millis(100);

/// The maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;

/// How many bytes of lines the server keeps unread while it starts no further requests. A host may write all its
/// requests before it reads an answer.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// How many requests run at once; more wait as text.
const MAX_RUNNING: usize = 128;

/// How many answers may wait for a host that does not read, before the server starts no further request.
const MAX_UNWRITTEN: usize = 16;

/// Serves one client over standard input and output, until the input ends or `stop` is cancelled. Calls that still run
/// are cancelled one second after the end of the input.
///
/// # Errors
/// The streams are unusable.
pub async fn serve_stdio(server: McpServer, stop: CancellationToken) -> io::Result<()> {
    let ended = CancellationToken::new();
    let transport = LineTransport::new(stdin(), stdout(), ended.clone());
    let calls = server.clone();
    let serving = serve(server, transport);
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

/// Serves until the input ends.
async fn serve<R, W>(server: McpServer, transport: LineTransport<R, W>) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    loop {
        let running = match server.clone().serve(transport.clone()).await {
            Ok(running) => running,
            // A client may close its streams before the first message.
            Err(_) if transport.ended.is_cancelled() => return Ok(()),
            Err(ServerInitializeError::TransportError { error, .. }) => {
                let error = error.error;
                return Err(io::Error::other(format!("cannot write an answer: {error}")));
            }
            // The server ignores what may not precede the first request.
            Err(_) => continue,
        };
        return running.waiting().await.map(drop).map_err(io::Error::other);
    }
}

/// Messages as lines. Answers lines that are no messages, and reads no further while the host does not read. The
/// transport of `rmcp` drops such lines, and keeps every answer that is not read. Clones share the streams.
struct LineTransport<R, W> {
    input: Arc<Mutex<Input<R>>>,
    output: Arc<Output<W>>,
    running: Arc<Semaphore>,
    /// The ids of the requests without an answer.
    ids: Arc<parking_lot::Mutex<HashSet<RequestId>>>,
    ended: CancellationToken,
}

impl<R, W> Clone for LineTransport<R, W> {
    fn clone(&self) -> Self {
        Self {
            input: Arc::clone(&self.input),
            output: Arc::clone(&self.output),
            running: Arc::clone(&self.running),
            ids: Arc::clone(&self.ids),
            ended: self.ended.clone(),
        }
    }
}

/// The input. All state of an interrupted `receive` is here, because the service drops the future whenever another
/// event occurs.
struct Input<R> {
    lines: LineReader<R>,
    queue: VecDeque<Line>,
    queued_bytes: usize,
    /// A request that waits for its permit.
    waiting: Option<ClientJsonRpcMessage>,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Reads a line into the queue. Dropping the future loses nothing. An unreadable input has ended.
    async fn read_line(&mut self) {
        if let Ok(Some(line)) = self.lines.next_line().await {
            self.queued_bytes += length(&line);
            self.queue.push_back(line);
        }
    }

    /// Waits for `ready`, and queues lines until then. Returns `None` one second after the end of the input.
    async fn read_until<T>(&mut self, ready: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(ready);
        while !self.lines.is_ended() {
            let may_read = self.queued_bytes < MAX_QUEUED_BYTES;
            tokio::select! {
                biased;
                ready = &mut ready => return Some(ready),
                () = self.read_line(), if may_read => {}
            }
        }
        tokio::time::timeout(END_OF_INPUT_GRACE, ready).await.ok()
    }

    /// Returns the next line; `None` at the end of the input.
    async fn next_line(&mut self) -> Option<Line> {
        while self.queue.is_empty() && !self.lines.is_ended() {
            self.read_line().await;
        }
        let line = self.queue.pop_front()?;
        self.queued_bytes -= length(&line);
        Some(line)
    }
}

/// Returns the length of a queued line, in bytes.
fn length(line: &Line) -> usize {
    match line {
        Line::Bytes(bytes) => bytes.len(),
        Line::TooLong => 0,
    }
}

/// The output, and how many messages wait for it.
struct Output<W> {
    writer: Mutex<W>,
    unwritten: AtomicUsize,
    written: Notify,
}

/// A message that waits for the output.
struct Unwritten<W>(Arc<Output<W>>);

impl<W> Drop for Unwritten<W> {
    fn drop(&mut self) {
        self.0.unwritten.fetch_sub(1, Ordering::AcqRel);
        self.0.written.notify_waiters();
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn begin(self: &Arc<Self>) -> Unwritten<W> {
        self.unwritten.fetch_add(1, Ordering::AcqRel);
        Unwritten(Arc::clone(self))
    }

    fn has_room(&self, limit: usize) -> bool {
        self.unwritten.load(Ordering::Acquire) < limit
    }

    /// Waits until fewer than `limit` messages wait for the output.
    async fn until_room(&self, limit: usize) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            if self.has_room(limit) {
                return;
            }
            written.await;
        }
    }

    async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut writer = self.writer.lock().await;
        writer.write_all(&line).await?;
        writer.flush().await
    }
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn new(input: R, output: W, ended: CancellationToken) -> Self {
        Self {
            input: Arc::new(Mutex::new(Input {
                lines: LineReader::new(input, MAX_LINE_BYTES),
                queue: VecDeque::new(),
                queued_bytes: 0,
                waiting: None,
            })),
            output: Arc::new(Output {
                writer: Mutex::new(output),
                unwritten: AtomicUsize::new(0),
                written: Notify::new(),
            }),
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            ids: Arc::default(),
            ended,
        }
    }

    async fn next_message(&self, input: &mut Input<R>) -> Option<ClientJsonRpcMessage> {
        loop {
            let room = self.output.until_room(MAX_UNWRITTEN);
            input.read_until(room).await?;
            if input.waiting.is_some() {
                let permit = Arc::clone(&self.running).acquire_owned();
                let permit = input.read_until(permit).await?.ok()?;
                let mut message = input.waiting.take()?;
                if let ClientJsonRpcMessage::Request(request) = &mut message {
                    // The extensions live as long as the handler of the request.
                    request.request.extensions_mut().insert(Arc::new(permit));
                }
                return Some(message);
            }
            match self.parse(input.next_line().await?) {
                Ok(Some(message @ ClientJsonRpcMessage::Request(_))) => {
                    input.waiting = Some(message);
                }
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(refusal) => {
                    let (output, unwritten) = (Arc::clone(&self.output), self.output.begin());
                    tokio::spawn(async move {
                        let _ = output.write(refusal.to_json().into_bytes()).await;
                        drop(unwritten);
                    });
                }
            }
        }
    }

    fn parse(&self, line: Line) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let Line::Bytes(bytes) = line else {
            let text = format!("the line exceeds {MAX_LINE_BYTES} bytes");
            return Err(Refusal::new(None, ErrorCode::INVALID_REQUEST, text));
        };
        let text = message::text(&bytes)?;
        let head = Head::parse(&text)?;
        let message = head.message(&text)?;
        match &message {
            Some(ClientJsonRpcMessage::Request(request))
                if !self.ids.lock().insert(request.id.clone()) =>
            {
                let text = "a request with this `id` has no answer yet; choose another id";
                return Err(head.refuse(ErrorCode::INVALID_REQUEST, text));
            }
            Some(ClientJsonRpcMessage::Notification(notification)) => {
                // A cancelled request gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.ids.lock().remove(id);
                }
            }
            _ => {}
        }
        Ok(message)
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        message::set_own_words(&mut message);
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.ids.lock().remove(id);
        }
        let output = Arc::clone(&self.output);
        // Of notifications, a host that does not read misses some.
        let is_dropped = matches!(message, ServerJsonRpcMessage::Notification(_))
            && !output.has_room(MAX_UNWRITTEN);
        let unwritten = output.begin();
        async move {
            if is_dropped {
                return Ok(());
            }
            let line = serde_json::to_vec(&message)?;
            drop(message);
            let written = output.write(line).await;
            drop(unwritten);
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let shared = Arc::clone(&self.input);
        let mut input = shared.lock().await;
        let message = self.next_message(&mut input).await;
        if message.is_none() {
            self.ended.cancel();
            let written = self.output.until_room(1);
            let _ = tokio::time::timeout(END_OF_INPUT_GRACE, written).await;
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
