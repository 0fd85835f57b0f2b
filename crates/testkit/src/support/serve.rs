//! The running command.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

/// A server process. Dropping it kills the process.
pub struct Server {
    child: Child,
    startup_info: Value,
    log: Option<JoinHandle<String>>,
    state: PathBuf,
}

/// The exit status and the log of a server.
pub struct ServerExit {
    pub status: ExitStatus,
    /// Its log.
    pub log: String,
}

impl Server {
    /// Starts a server with the scripted executor on a free port of loopback, with further flags.
    pub fn scripted(flags: &[&str]) -> Self {
        let base_flags = ["--port", "0", "--executor", "scripted"];
        Self::start(&[&base_flags, flags].concat(), &[])
    }

    /// Starts a server with these flags and variables, and a new state directory unless they name one.
    pub fn start(flags: &[&str], variables: &[(String, String)]) -> Self {
        let state = scratch();
        // A test with a directory starts several servers in it.
        let has_no_state_dir = !flags.contains(&"--state-dir");
        let mut child = Command::new(super::command())
            .args(["serve", "--json"])
            .args(has_no_state_dir.then_some("--state-dir"))
            .args(has_no_state_dir.then_some(&state))
            .args(flags)
            .envs(variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let Ok(startup_info) = serde_json::from_str(&line) else {
            panic!("the server printed {line:?}: {}", log.join().unwrap());
        };
        Self {
            child,
            startup_info,
            log: Some(log),
            state,
        }
    }

    /// Returns its URL, without a trailing slash.
    pub fn url(&self) -> &str {
        self.startup_info["url"].as_str().unwrap()
    }

    /// Returns the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it with a signal, like a service manager, and waits until it exits.
    pub fn stop(self) -> ServerExit {
        self.signal("-TERM");
        self.wait_for_exit()
    }

    /// Kills it, even during other requests.
    pub fn kill(&self) {
        self.signal("-KILL");
    }

    /// Sends it a signal, such as `-TERM`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the server exits.
    pub fn wait_for_exit(mut self) -> ServerExit {
        let status = self.child.wait().unwrap();
        let log = self.log.take().unwrap().join().unwrap();
        ServerExit { status, log }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.state);
    }
}

/// Returns an empty directory for one server.
fn scratch() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}", process::id());
    let state = super::target().join("tmp/serve").join(name);
    fs::create_dir_all(&state).unwrap();
    state
}
