//! The drivers of the conformance runner: the library through its Rust interface, and another implementation, a program that
//! implements the JSON Lines protocol of `remote-agent call --jsonl`.

use std::{
    collections::HashMap,
    ffi::OsString,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use conformance::{Driver, Failure, Step, driver};
use openclaw_remote_agent_interface::{CallOptions, log_to, updates_to};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{OnceCell, mpsc},
};
use tokio_util::sync::CancellationToken;

use crate::{
    exit,
    instance::{Instance, Library},
};

/// A process of the program. It starts with the first operation of a case and is killed at the end of the case.
pub(super) struct ExternalCommand {
    program: OsString,
    arguments: Vec<OsString>,
    process: OnceCell<Result<Process, Failure>>,
    last_id: AtomicU64,
    received: Arc<Received>,
}

struct Process {
    stdin: tokio::sync::Mutex<ChildStdin>,
    _child: Child,
}

/// The output of the process.
#[derive(Default)]
struct Received {
    /// The senders for response lines, by operation id.
    waiting: Mutex<HashMap<u64, mpsc::UnboundedSender<Value>>>,
    log: Mutex<Vec<(String, String)>>,
    broken: Mutex<Option<String>>,
}

impl ExternalCommand {
    pub(super) fn new(program: OsString, arguments: Vec<OsString>) -> Self {
        Self {
            program,
            arguments,
            process: OnceCell::new(),
            last_id: AtomicU64::new(0),
            received: Arc::default(),
        }
    }

    /// Checks that the program starts, so that the runner reports a start error once instead of once per case.
    pub(super) fn can_start(&self) -> Result<(), exit::Failure> {
        match self.start() {
            Err(Failure::Broken(message)) => Err(exit::Failure::usage(message)),
            _ => Ok(()),
        }
    }

    fn start(&self) -> Result<Process, Failure> {
        let cannot = |why: String| {
            let program = self.program.display();
            Failure::Broken(format!("`{program}` cannot be started: {why}"))
        };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot(error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(cannot("it has no pipes".to_owned()));
        };
        tokio::spawn(answers(stdout, Arc::clone(&self.received)));
        tokio::spawn(log(stderr, Arc::clone(&self.received)));
        Ok(Process {
            stdin: tokio::sync::Mutex::new(stdin),
            _child: child,
        })
    }

    /// Sends one operation. Its response lines arrive in the receiver, which closes when the process ends.
    async fn write_line(
        &self,
        mut line: Value,
    ) -> Result<(u64, mpsc::UnboundedReceiver<Value>), Failure> {
        let process = self.process.get_or_init(async || self.start()).await;
        let process = process.as_ref().map_err(Clone::clone)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        line["id"] = json!(id);
        let (tell, hear) = mpsc::unbounded_channel();
        self.received.waiting.lock().insert(id, tell);
        if self.received.broken.lock().is_some() {
            return Err(self.ended());
        }
        let mut stdin = process.stdin.lock().await;
        // A failed write means that the process has ended. The receiver reports the reason.
        let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
        let _ = stdin.flush().await;
        Ok((id, hear))
    }

    /// Sends an operation and returns its only response.
    async fn request(&self, line: Value, field: &str) -> Result<Value, Failure> {
        let (_, mut lines) = self.write_line(line).await?;
        let mut answer = lines.recv().await.ok_or_else(|| self.ended())?;
        if let Some(refused) = answer.get_mut("init_error") {
            return Err(Failure::Refused(refused.take()));
        }
        let found = answer.get_mut(field).map(Value::take);
        found.ok_or_else(|| Failure::Broken(format!("there is no `{field}` in: {answer}")))
    }

    fn ended(&self) -> Failure {
        let why = self.received.broken.lock().clone();
        Failure::Broken(why.unwrap_or_else(|| "it ended".to_owned()))
    }
}

impl Driver for ExternalCommand {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        let line = json!({"op": "init", "config": config});
        self.request(line, "ok").await.map(|_| ())
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let line = json!({"op": "parse_config", "config": config});
        self.request(line, "parsed").await
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        let line = json!({"op": "tool_definition"});
        self.request(line, "tool_definition").await
    }

    /// Ignores `updates_fail`: this driver always accepts updates.
    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let mut line = json!({"op": "execute", "request": request});
        if let Some(after) = step.abort_after_ms {
            line["abort_after_ms"] = json!(after);
        }
        let (id, mut lines) = self.write_line(line).await?;
        let mut asked_to_stop = step.abort_after_ms.is_some();
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = abort.cancelled(), if !asked_to_stop => {
                    asked_to_stop = true;
                    // The response lines of the aborted call report whether it ended.
                    drop(self.write_line(json!({"op": "abort", "call": id})).await?);
                    continue;
                }
            };
            let Some(mut line) = line else {
                return Err(self.ended());
            };
            if let Some(update) = line.get_mut("update") {
                on_update(update.take());
            } else if let Some(result) = line.get_mut("result") {
                return Ok(result.take());
            } else {
                return Err(Failure::Broken(format!(
                    "neither an update nor a result: {line}"
                )));
            }
        }
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(self.received.log.lock().clone())
    }
}

/// Forwards each output line of the process to the operation that waits for it, and records the end of the output.
async fn answers(stdout: impl AsyncRead + Unpin, received: Arc<Received>) {
    let mut lines = BufReader::new(stdout).lines();
    let why = loop {
        let line = match lines.next_line().await {
            Ok(Some(line)) => line,
            Ok(None) => break "it ended".to_owned(),
            Err(error) => break format!("its answers cannot be read: {error}"),
        };
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            break format!("its answer is not JSON: {line}");
        };
        let id = value.get("id").and_then(Value::as_u64);
        let waiting = id.and_then(|id| received.waiting.lock().get(&id).cloned());
        match waiting {
            // The receiver is gone if the call timed out.
            Some(tell) => drop(tell.send(value)),
            None => break format!("it answered what was not asked: {line}"),
        }
    };
    *received.broken.lock() = Some(why);
    received.waiting.lock().clear();
}

/// Collects the log lines of standard error: `LEVEL: LINE`, the format of `remote-agent --verbose`, or any other text.
async fn log(stderr: impl AsyncRead + Unpin, received: Arc<Received>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let level = line
            .split_once(": ")
            .filter(|(level, _)| matches!(*level, "debug" | "info" | "warn" | "error"));
        let (level, text) = level.unwrap_or(("", &line));
        received
            .log
            .lock()
            .push((level.to_owned(), text.to_owned()));
    }
}

/// One instance of the library.
pub(super) struct InProcessDriver {
    library: Library,
    instance: Mutex<Option<Instance>>,
    log: Arc<Mutex<Vec<(String, String)>>>,
}

impl InProcessDriver {
    pub(super) fn new(library: Library) -> Self {
        Self {
            library,
            instance: Mutex::default(),
            log: Arc::default(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Instance) -> T) -> Result<T, Failure> {
        let instance = self.instance.lock();
        let instance = instance.as_ref();
        instance
            .map(act)
            .ok_or_else(|| Failure::Broken("there is no instance".to_owned()))
    }
}

impl Driver for InProcessDriver {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        self.instance.lock().take();
        let log = Arc::clone(&self.log);
        let log = log_to(move |level, line| log.lock().push((level.to_owned(), line.to_owned())));
        let made = self.library.instance_with(&config.to_string(), log);
        *self.instance.lock() = Some(made.map_err(|error| Failure::refused(&error))?);
        Ok(())
    }

    async fn parse_config(&self, config: &Value) -> Result<Value, Failure> {
        let parsed = self.library.parse_config(&config.to_string());
        driver::read(&parsed.map_err(|error| Failure::refused(&error))?)
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        driver::read(&self.with(Instance::definition)?)
    }

    async fn execute(
        &self,
        request: &Value,
        step: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        let (take, received) = driver::consumer(step);
        let request = request.to_string();
        let options = CallOptions {
            updates: Some(updates_to(take)),
            ..CallOptions::default()
        };
        let running = self.with(|instance| instance.start(&request, options))?;
        let stop = async {
            abort.cancelled().await;
            true
        };
        let envelope = running.run_until(stop);
        driver::followed(envelope, received, on_update).await
    }

    fn log(&self) -> Option<Vec<(String, String)>> {
        Some(self.log.lock().clone())
    }
}
