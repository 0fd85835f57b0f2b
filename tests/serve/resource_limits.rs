//! The command without disk space, without file descriptors, and in a directory that it cannot write.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Resource;
use serde_json::{Value, json};

use crate::gateway::crash::{IGNORE_FILE_SIZE_SIGNAL, largest_file_size, set_limit};
use crate::serve::http_client::exchange_at;

/// The timeout until a server works again.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

/// A server process. Dropping it kills the process.
struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    fn start(command: &str, state: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new("sh")
            .args(IGNORE_FILE_SIZE_SIGNAL)
            .arg(env!("CARGO_BIN_EXE_remote-agent"))
            .args([command, "--json", "--port", "0", "--state-dir"])
            .arg(state)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let url = started["url"].as_str().unwrap().replace("ws://", "http://");
        let url = url.trim_end_matches('/').to_owned();
        Self { child, url }
    }

    fn is_healthy(&self) -> bool {
        let address = self.url.trim_start_matches("http://");
        let Ok(mut stream) = TcpStream::connect(address) else {
            return false;
        };
        // A server without descriptors accepts nothing.
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let request = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let mut status = [0; 12];
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_exact(&mut status).is_ok()
            && status.ends_with(b"200")
    }

    fn descriptors(&self) -> u64 {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        open.unwrap().count() as u64
    }

    /// Sends a message and returns the state of its task; `None` after a failure.
    fn send(&self, text: &str) -> Option<String> {
        let message = json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{"text": text}]});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
        let lines = ["Content-Type: application/json", "A2A-Version: 1.0"];
        let answer = exchange_at(&self.url, "POST /", &lines, &body.to_string()).ok()?;
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        let state = &answer["result"]["task"]["status"]["state"];
        Some(state.as_str()?.to_owned())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < RECOVERY_TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn full_disk_fails_messages_only() {
    let state = tempfile::tempdir().unwrap();
    let server = ServerProcess::start("serve", state.path(), &["--executor", "scripted"]);
    let completed = Some("TASK_STATE_COMPLETED".to_owned());
    assert_eq!(server.send("echo before"), completed);
    set_limit(
        &server.child,
        Resource::Fsize,
        Some(largest_file_size(state.path())),
    );
    wait_until("a write fails", || server.send("big 200000") != completed);
    assert!(server.is_healthy());
    set_limit(&server.child, Resource::Fsize, None);
    wait_until("messages work again", || {
        server.send("echo after") == completed
    });
}

#[test]
fn servers_recover_from_a_lack_of_descriptors() {
    for (command, flags) in [
        ("serve", ["--executor", "scripted"].as_slice()),
        ("gateway", &[]),
    ] {
        let state = tempfile::tempdir().unwrap();
        let server = ServerProcess::start(command, state.path(), flags);
        assert!(server.is_healthy(), "{command}");
        set_limit(
            &server.child,
            Resource::Nofile,
            Some(server.descriptors() + 3),
        );
        let address = server.url.trim_start_matches("http://");
        let connections: Vec<_> = (0..32)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        wait_until("no descriptors are left", || !server.is_healthy());
        drop(connections);
        wait_until("the server answers again", || server.is_healthy());
    }
}

#[test]
fn unwritable_state_directory_is_named() {
    for (command, flags) in [
        ("serve", ["--executor", "scripted"].as_slice()),
        ("gateway", &[]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_remote-agent"))
            .args([command, "--port", "0", "--state-dir", "/proc/no-such-place"])
            .args(flags)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command}");
        assert!(error.contains("/proc/no-such-place"), "{command}: {error}");
    }
}
