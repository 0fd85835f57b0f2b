//! Measured processes: their commands and responses, CPU time and memory.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;

/// A child process that reads lines of JSON and responds to each with a line. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The first line of its standard output.
    pub(crate) ready: String,
}

impl Process {
    /// Starts the command and waits for its first line. The process inherits standard error.
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        assert!(
            !ready.is_empty(),
            "{command:?} ended before it was ready: {:?}",
            child.wait()
        );
        Self {
            child,
            stdin,
            stdout,
            ready: ready.trim().to_owned(),
        }
    }

    /// Starts this program again in another role.
    pub(crate) fn start_role(arguments: &[&str]) -> Self {
        Self::start(Command::new(std::env::current_exe().unwrap()).args(arguments))
    }

    /// Sends a command without waiting for the response.
    pub(crate) fn send(&mut self, command: &Value) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    /// Waits for the next response.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("a measured process answered {line:?}; see its error above"))
    }

    /// Sends a command and waits for the response.
    pub(crate) fn call(&mut self, command: &Value) -> Value {
        self.send(command);
        self.receive()
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts measuring the CPU time and memory of the process.
    pub(crate) fn start_usage(&self) -> Usage {
        Usage::start(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU time and memory of a process since a start time.
pub(crate) struct Usage {
    pid: u32,
    seconds: f64,
}

impl Usage {
    /// Starts measuring, and resets the peak memory of the process.
    pub(crate) fn start(pid: u32) -> Self {
        // The kernel refuses this for processes of other users. The peak then covers the whole lifetime.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Self {
            pid,
            seconds: cpu_seconds_of(pid),
        }
    }

    /// Returns the CPU time in user and kernel mode, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds_of(self.pid) - self.seconds
    }

    /// Returns the peak of the resident memory, in bytes.
    pub(crate) fn peak_bytes(&self) -> f64 {
        memory_bytes(self.pid, "VmHWM:")
    }

    /// Returns the resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> f64 {
        memory_bytes(self.pid, "VmRSS:")
    }
}

fn cpu_seconds_of(pid: u32) -> f64 {
    // The unit is 1/USER_HZ; USER_HZ is 100 on every Linux platform that Rust supports.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let stat = stat.unwrap_or_else(|error| panic!("a measured process ended: {error}"));
    // The process name before the last `)` may contain any character.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields = fields.split_whitespace().skip(11).take(2);
    fields
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS
}

fn memory_bytes(pid: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let kilobytes = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
    kilobytes.map_or(0.0, |text| text.parse::<f64>().unwrap() * 1024.0)
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn own_resident_bytes() -> f64 {
    memory_bytes(std::process::id(), "VmRSS:")
}
