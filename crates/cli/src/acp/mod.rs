//! `remote-agent acp`: an agent of the Agent Client Protocol (version 1) over standard input and output, behind which an A2A agent
//! does the work.
//!
//! A session is a context of the remote agent, and a prompt is a message that follows its task. The crate `agent-client-protocol`
//! does not serve here: it reads lines of any length, and it makes `serde_json` keep the order of members in the whole workspace.

mod content;
mod sessions;
mod turn;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base::json::{self, Limits};
use base::lines::{Line, LineReader};
use base::text::first_chars;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    sessions::SessionFiles,
    turn::{Turn, TurnEnd},
};
use super::{
    exit::{self, Exit, Failure},
    group,
    instance::{Instance, Library},
    target::TargetArgs,
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent acp --config agents.json --target support
  remote-agent acp --url https://support.example

An editor or another client of the Agent Client Protocol starts the command and ends it by closing its input. A task of the agent then \
goes on, unless --cancel-on-disconnect is given, and the session can be resumed.";

/// The version of the Agent Client Protocol.
const PROTOCOL_VERSION: u32 = 1;

/// The maximum length of a frame, in bytes.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// What a frame may contain. A parsed value may weigh many times its text, and each running prompt has one.
const FRAME_LIMITS: Limits = Limits {
    depth: 64,
    values: 200_000,
    memory: 8 << 20,
};

/// How many answers to frames wait for a client that does not read, before the command reads no further frame.
const MAX_UNWRITTEN: usize = 64;

/// How many bytes of frames wait for a client that does not read, before prompts show no further progress and ask their agents for
/// no more. The answer of a call that runs is limited by the limits of the call.
const MAX_UNWRITTEN_BYTES: usize = 4 << 20;

const MAX_SESSIONS: usize = 1000;

/// How many prompts run at once.
const MAX_PROMPTS: usize = 32;

/// How long the last frames may take to be written.
const WRITE_GRACE: Duration = Duration::from_millis(500);

/// How long `--cancel-on-disconnect` waits for the agents.
const CANCEL_GRACE: Duration = Duration::from_secs(6);

/// Offer an agent to an editor or to another client of the Agent Client Protocol (ACP), over standard input and output
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Cancel the running tasks when the client closes its end; otherwise the agent works on
    #[arg(long, help_heading = "Sessions")]
    cancel_on_disconnect: bool,

    /// Keep the sessions in this directory, so that a client can resume them [default: openclaw-remote-agent/acp in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", help_heading = "Sessions")]
    state_dir: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// The library, the configuration, the state directory or standard input cannot be used.
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    if args.target.group(false).is_some() {
        return Err(group::one_only("acp"));
    }
    let library = Library::open(verbose)?.with_source(args.target.peers.source());
    let _gateway = args.target.peers.local.embed().await?;
    let file = args.target.peers.config_file();
    let instance = library.interactive_instance(&args.target.config(None)?, file.as_deref())?;
    check_target(&args.target)?;
    let files = SessionFiles::open(args.state_dir)?;
    let stop = exit::on_signal()?;
    let (output, frames) = Output::new();
    let mut writer = tokio::spawn(write_frames(
        frames,
        Arc::clone(&output.unwritten),
        tokio::io::stdout(),
    ));
    let server = Arc::new(Server {
        instance,
        target: args.target,
        files,
        output,
        sessions: Mutex::default(),
        prompts: TaskTracker::new(),
        room: Arc::new(Semaphore::new(MAX_UNWRITTEN)),
        input_modes: tokio::sync::OnceCell::new(),
    });
    let read = tokio::select! {
        read = server.clone().serve(tokio::io::stdin()) => read,
        // The client reads no more.
        _ = &mut writer => Ok(()),
        () = stop.cancelled() => Ok(()),
    };
    if args.cancel_on_disconnect {
        for session in server.sessions.lock().values() {
            session.running.iter().for_each(CancellationToken::cancel);
        }
        server.prompts.close();
        let _ = timeout(CANCEL_GRACE, server.prompts.wait()).await;
    }
    server.output.end();
    if !writer.is_finished() {
        let _ = timeout(WRITE_GRACE, writer).await;
    }
    // The calls that still run end here, and their sessions are stored. The tasks of the agents go on.
    server.instance.tool().close_and_wait();
    server.prompts.close();
    let _ = timeout(WRITE_GRACE, server.prompts.wait()).await;
    read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
    Ok(Exit::Ok)
}

/// Refuses the alias of an unknown agent, which otherwise each prompt would.
fn check_target(target: &TargetArgs) -> Result<(), Failure> {
    let peers = &target.peers;
    // Only a running gateway knows all of its agents.
    let of_gateway = |alias: &str| peers.uses_gateway() || alias.starts_with("gateway:");
    let aliases = peers.aliases();
    match target.named() {
        Some(alias)
            if !aliases.is_empty()
                && !of_gateway(alias)
                && !aliases.iter().any(|known| known == alias) =>
        {
            Err(Failure::usage(format!(
                "no agent is called `{}`; `remote-agent targets{}` lists the agents",
                text::line(alias),
                peers.options()
            )))
        }
        _ => Ok(()),
    }
}

/// A frame, and the room that it takes until it is written. `None` ends the output.
type Frame = Option<(String, Option<OwnedSemaphorePermit>)>;

/// Where frames go. Sending does not block, because the library sends the updates of a call.
#[derive(Clone)]
struct Output {
    frames: mpsc::UnboundedSender<Frame>,
    /// The bytes of the frames that are not written yet.
    unwritten: Arc<AtomicUsize>,
}

impl Output {
    fn new() -> (Self, mpsc::UnboundedReceiver<Frame>) {
        let (frames, unwritten_frames) = mpsc::unbounded_channel();
        let unwritten = Arc::default();
        (Self { frames, unwritten }, unwritten_frames)
    }

    /// Sends a frame. After the end of the output it has no effect.
    fn send(&self, frame: &Value, room: Option<OwnedSemaphorePermit>) {
        let frame = frame.to_string();
        self.unwritten.fetch_add(frame.len(), Ordering::Relaxed);
        let _ = self.frames.send(Some((frame, room)));
    }

    fn end(&self) {
        let _ = self.frames.send(None);
    }

    /// Returns whether the client has more to read than it should have.
    fn is_full(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed) > MAX_UNWRITTEN_BYTES
    }

    /// Sends an update of a session.
    fn update(&self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        self.send(&frame, None);
    }
}

/// Writes frames until the output ends or the client reads no more.
async fn write_frames(
    mut frames: mpsc::UnboundedReceiver<Frame>,
    unwritten: Arc<AtomicUsize>,
    mut stream: impl tokio::io::AsyncWrite + Unpin,
) {
    while let Some(Some((mut frame, _room))) = frames.recv().await {
        let bytes = frame.len();
        frame.push('\n');
        let written = async {
            stream.write_all(frame.as_bytes()).await?;
            stream.flush().await
        };
        if written.await.is_err() {
            return;
        }
        unwritten.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An error of JSON-RPC.
#[derive(Debug)]
struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    const PARSE: i32 = -32700;
    const INVALID_REQUEST: i32 = -32600;
    const METHOD_NOT_FOUND: i32 = -32601;
    const INVALID_PARAMS: i32 = -32602;
    const INTERNAL: i32 = -32603;
    const RESOURCE_NOT_FOUND: i32 = -32002;

    fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// A session that the client has opened.
#[derive(Default)]
struct Session {
    /// The conversation, and the task that the next prompt continues.
    continuation: Option<Value>,
    /// Cancels the running prompt.
    running: Option<CancellationToken>,
    /// Whether the client has closed the session. It remains until its prompt ends.
    is_closed: bool,
}

/// The agent that the client sees.
struct Server {
    instance: Instance,
    target: TargetArgs,
    files: Option<SessionFiles>,
    output: Output,
    sessions: Mutex<HashMap<String, Session>>,
    prompts: TaskTracker,
    room: Arc<Semaphore>,
    /// The media types that the agent takes, if its card is known.
    input_modes: tokio::sync::OnceCell<Vec<String>>,
}

impl Server {
    /// Handles frames until the input ends.
    async fn serve(self: Arc<Self>, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut lines = LineReader::new(input, MAX_FRAME_BYTES);
        loop {
            let room = self.room.clone().acquire_owned().await.ok();
            let Some(line) = lines.next_line().await? else {
                return Ok(());
            };
            self.handle(line, room);
        }
    }

    fn handle(self: &Arc<Self>, line: Line, room: Option<OwnedSemaphorePermit>) {
        let (id, outcome) = match parse(line) {
            Ok(Message::Request(id, method, params)) => {
                let outcome = self.answer(&id, &method, params);
                (id, outcome)
            }
            Ok(Message::Notification(method, params)) => {
                if method == "session/cancel" {
                    let sessions = self.sessions.lock();
                    let session = params["sessionId"].as_str().and_then(|id| sessions.get(id));
                    let running = session.and_then(|session| session.running.as_ref());
                    running.into_iter().for_each(CancellationToken::cancel);
                }
                return;
            }
            Ok(Message::Response) => return,
            Err((id, error)) => (id, Err(error)),
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(result)) => self.output.send(&response(&id, Ok(result)), room),
            Err(error) => self.output.send(&response(&id, Err(error)), room),
        }
    }

    /// Returns the result of a request; `None` for a prompt, which answers when its turn ends.
    fn answer(
        self: &Arc<Self>,
        id: &Value,
        method: &str,
        params: Value,
    ) -> Result<Option<Value>, RpcError> {
        match method {
            "initialize" => return Ok(Some(self.initialize())),
            "session/new" => return self.open(SessionFiles::new_id(), None).map(Some),
            "session/resume" | "session/prompt" | "session/close" => {}
            _ => {
                let method = first_chars(method, 100);
                let message = format!("this agent has no method `{method}`");
                return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
            }
        }
        let session = params["sessionId"].as_str().ok_or_else(|| {
            RpcError::new(RpcError::INVALID_PARAMS, "`sessionId` must be a string")
        })?;
        match method {
            "session/resume" => {
                match self.sessions.lock().get(session) {
                    Some(known) if known.is_closed => {
                        let message = "the prompt of the closed session has not ended yet; resume the session after the answer to the prompt";
                        return Err(RpcError::new(RpcError::INVALID_REQUEST, message));
                    }
                    Some(_) => return Ok(Some(json!({}))),
                    None => {}
                }
                let files = self.files.as_ref();
                let known = files.and_then(|files| files.read(session));
                let known = known.ok_or_else(|| unknown_session(session))?;
                let of = known.as_ref().map(|known| &known["target"]["target_alias"]);
                let of = of.and_then(Value::as_str);
                if let (Some(of), Some(own)) = (of, self.target.alias(None))
                    && of != own
                {
                    let message = format!(
                        "the session is one with `{of}`, and this command is for `{own}`; start one with session/new"
                    );
                    return Err(RpcError::new(RpcError::RESOURCE_NOT_FOUND, message));
                }
                self.open(session.to_owned(), known)?;
                Ok(Some(json!({})))
            }
            "session/close" => {
                let mut sessions = self.sessions.lock();
                let closed = sessions.get_mut(session).filter(|known| !known.is_closed);
                let closed = closed.ok_or_else(|| unknown_session(session))?;
                closed.is_closed = true;
                match &closed.running {
                    Some(running) => running.cancel(),
                    None => drop(sessions.remove(session)),
                }
                Ok(Some(json!({})))
            }
            _ => {
                let session = session.to_owned();
                self.prompt(id.clone(), session, params).map(|()| None)
            }
        }
    }

    fn initialize(&self) -> Value {
        let resume = match self.files {
            Some(_) => json!({"close": {}, "resume": {}}),
            None => json!({"close": {}}),
        };
        let prompts = json!({"image": true, "audio": true, "embeddedContext": true});
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {"loadSession": false, "promptCapabilities": prompts, "sessionCapabilities": resume},
            "agentInfo": {"name": "remote-agent", "title": self.target.named().unwrap_or("remote agent"), "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
        })
    }

    fn open(&self, id: String, continuation: Option<Value>) -> Result<Value, RpcError> {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            let message = format!("{MAX_SESSIONS} sessions are open; close one");
            return Err(RpcError::new(RpcError::INTERNAL, message));
        }
        if continuation.is_none() {
            self.save(&id, None);
        }
        let answer = json!({"sessionId": id});
        let session = Session {
            continuation,
            ..Session::default()
        };
        sessions.insert(id, session);
        Ok(answer)
    }

    /// Starts a prompt, which answers for itself.
    fn prompt(
        self: &Arc<Self>,
        id: Value,
        session_id: String,
        params: Value,
    ) -> Result<(), RpcError> {
        let mut sessions = self.sessions.lock();
        let running = sessions
            .values()
            .filter(|session| session.running.is_some());
        let is_full = running.count() >= MAX_PROMPTS;
        let session = sessions
            .get_mut(&session_id)
            .filter(|session| !session.is_closed)
            .ok_or_else(|| unknown_session(&session_id))?;
        let refusal = match (&session.running, is_full) {
            (Some(_), _) => {
                "a prompt of this session is running; cancel it with session/cancel, or wait for its end"
            }
            (None, true) => "too many prompts are running; wait for the end of one",
            (None, false) => "",
        };
        if !refusal.is_empty() {
            return Err(RpcError::new(RpcError::INVALID_REQUEST, refusal));
        }
        let cancel = CancellationToken::new();
        session.running = Some(cancel.clone());
        let continuation = session.continuation.clone();
        drop(sessions);
        let server = Arc::clone(self);
        self.prompts.spawn(async move {
            let turn = Turn::new(&server, &session_id, cancel);
            let TurnEnd {
                result,
                continuation,
            } = turn.run(params, continuation).await;
            server.save(&session_id, continuation.as_ref());
            let mut sessions = server.sessions.lock();
            if let Some(session) = sessions.get_mut(&session_id) {
                session.continuation = continuation;
                session.running = None;
                if session.is_closed {
                    sessions.remove(&session_id);
                }
            }
            drop(sessions);
            let result = result.map(|reason| json!({"stopReason": reason}));
            server.output.send(&response(&id, result), None);
        });
        Ok(())
    }

    /// Stores a session for a later process.
    fn save(&self, session: &str, continuation: Option<&Value>) {
        if let Some(files) = &self.files {
            files.write(session, continuation);
        }
    }
}

fn unknown_session(id: &str) -> RpcError {
    let id = first_chars(id, 100);
    let message = format!("there is no session `{id}`; start one with session/new");
    RpcError::new(RpcError::RESOURCE_NOT_FOUND, message)
}

fn response(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let error = json!({"code": error.code, "message": error.message});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

/// A message of the client. The command sends no requests, so it ignores responses.
enum Message {
    Request(Value, String, Value),
    Notification(String, Value),
    Response,
}

/// Parses a line.
///
/// # Errors
/// It is no message; with the id of the request, if it has one.
fn parse(line: Line) -> Result<Message, (Value, RpcError)> {
    let invalid = |id: Value, message: &str| {
        let error = RpcError::new(RpcError::INVALID_REQUEST, message);
        Err((id, error))
    };
    let Line::Bytes(line) = line else {
        let message = format!("the frame exceeds {MAX_FRAME_BYTES} bytes");
        return invalid(Value::Null, &message);
    };
    let mut message: Value = json::from_slice(&line, FRAME_LIMITS).map_err(|error| {
        let message = format!("the frame is not JSON: {error}");
        (Value::Null, RpcError::new(RpcError::PARSE, message))
    })?;
    if !message.is_object() {
        return invalid(Value::Null, "the frame is not a JSON object");
    }
    let has_id = message.get("id").is_some();
    let id = message["id"].take();
    if !matches!(id, Value::Null | Value::String(_) | Value::Number(_)) {
        return invalid(Value::Null, "`id` must be a string or a number");
    }
    let method = match message["method"].take() {
        Value::String(method) => method,
        Value::Null if message.get("result").or(message.get("error")).is_some() => {
            return Ok(Message::Response);
        }
        _ => return invalid(id, "`method` must be a string"),
    };
    let params = message["params"].take();
    if !matches!(params, Value::Null | Value::Object(_)) {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "`params` must be an object");
        return Err((id, error));
    }
    Ok(match id {
        // A cancellation with `null` is understood: it asks for no answer.
        Value::Null if has_id && method != "session/cancel" => {
            return invalid(
                Value::Null,
                "`id` must not be null; a notification has none",
            );
        }
        Value::Null => Message::Notification(method, params),
        id => Message::Request(id, method, params),
    })
}

#[cfg(test)]
mod tests;
