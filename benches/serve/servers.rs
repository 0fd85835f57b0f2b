//! The servers, each in a process of its own.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use url::Url;

pub(crate) struct Server {
    process: Child,
    endpoint: Url,
    state: Option<PathBuf>,
}

type Start = fn() -> Server;

/// Every server, by what the table calls it.
pub(crate) const ALL: [(&str, Start); 3] = [
    ("serve, tasks in memory", in_memory),
    ("serve, tasks in a directory", in_a_directory),
    ("a2a-sdk 1.3.0, tasks in memory", python),
];

fn in_memory() -> Server {
    serve(&["--task-store", "memory"])
}

fn in_a_directory() -> Server {
    serve(&[])
}

fn serve(flags: &[&str]) -> Server {
    let state = env::temp_dir().join(format!("remote-agent-bench-{}", std::process::id()));
    // What a run before this one left behind would be taken up.
    let _ = fs::remove_dir_all(&state);
    fs::create_dir_all(&state).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
    command.args(["serve", "--json", "--port", "0", "--executor", "scripted"]);
    // The limits are not what is measured.
    for limit in [
        "runs",
        "openRequests",
        "requestsPerSecond",
        "burst",
        "tasksPerClient",
    ] {
        command.args(["--limit", &format!("{limit}=10000")]);
    }
    command.arg("--state-dir").arg(&state).args(flags);
    let (process, line) = started(command);
    let said: Value = serde_json::from_str(&line).unwrap();
    Server {
        process,
        endpoint: said["jsonrpc"].as_str().unwrap().parse().unwrap(),
        state: Some(state),
    }
}

fn python() -> Server {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let home = root.join("target/sdk/py13");
    assert!(
        home.join("installed.txt").exists(),
        "`cargo real --test peers` installs the Python server first"
    );
    let mut command = Command::new(home.join("bin/python"));
    command.arg(root.join("benches/serve/py13_server.py"));
    let (process, line) = started(command);
    Server {
        process,
        endpoint: line.trim().parse().unwrap(),
        state: None,
    }
}

fn started(mut command: Command) -> (Child, String) {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (process, line)
}

impl Server {
    /// Where JSON-RPC is spoken.
    pub(crate) fn endpoint(&self) -> Url {
        self.endpoint.clone()
    }

    /// The memory it has in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory it had in use so far.
    pub(crate) fn most_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let mut lines = status.lines();
        let kilobytes = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        kilobytes.map_or(0, |text| text.parse::<u64>().unwrap() * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(state) = &self.state {
            let _ = fs::remove_dir_all(state);
        }
    }
}
