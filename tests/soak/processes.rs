//! The processes of the run, and their resources in the kernel.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A process that prints lines of JSON. Dropping it kills the process.
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<Value>,
}

/// The resources of a process.
#[derive(Clone, Copy, Default)]
pub(super) struct Resources {
    pub(super) memory_bytes: u64,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    pub(super) cpu_ms: u64,
}

impl Process {
    /// Starts the command `remote-agent`. Its log goes to `log`.
    pub(super) fn command(args: &[&str], log: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
        command.args(args).env_remove("OPENCLAW_GATEWAY_TOKEN");
        Self::start(command, log)
    }

    pub(super) fn start(mut command: Command, log: &Path) -> Self {
        let log = fs::File::options().create(true).append(true).open(log);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = unbounded_channel();
        // Keeps reading without a receiver, because a full pipe would stop the process.
        tokio::spawn(async move {
            while let Ok(Some(line)) = stdout.next_line().await {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// Returns the next line.
    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(super::SETTLE_TIMEOUT, self.lines.recv()).await;
        let line = line.expect("a line in time");
        line.expect("the process runs; its log says why not")
    }

    /// Discards further lines.
    pub(super) fn ignore_lines(&mut self) {
        self.lines.close();
    }

    pub(super) async fn write(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Returns whether it ended by itself with success.
    pub(super) async fn assert_clean_exit(&mut self) -> bool {
        self.child.wait().await.unwrap().success()
    }

    /// Reads the resources of the process from `/proc`.
    pub(super) fn resources(&self) -> Resources {
        let folder = format!("/proc/{}", self.child.id().expect("a running process"));
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.unwrap().parse::<u64>().unwrap()
        };
        let stat = fs::read_to_string(format!("{folder}/stat")).unwrap();
        let times = stat.rsplit(')').next().unwrap().split_whitespace().skip(11);
        let ticks: u64 = times.take(2).map(|time| time.parse::<u64>().unwrap()).sum();
        Resources {
            memory_bytes: field("VmRSS:") * 1024,
            threads: field("Threads:"),
            descriptors: fs::read_dir(format!("{folder}/fd")).unwrap().count() as u64,
            // The kernel's clock has a hundred ticks a second.
            cpu_ms: ticks * 10,
        }
    }
}
