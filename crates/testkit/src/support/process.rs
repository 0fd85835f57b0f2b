//! Waits for processes that should end by themselves.

use std::{
    io::Read,
    process::{Child, ExitStatus},
    time::Duration,
};

/// The timeout, far longer than any process takes.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The exit status and the output of a process.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Waits until the process has ended by itself. Its standard output and error must be pipes.
pub async fn end(mut child: Child) -> Ended {
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut stderr = child.stderr.take().expect("a pipe");
    let stdout = tokio::task::spawn_blocking(move || read_out(&mut stdout));
    let stderr = tokio::task::spawn_blocking(move || read_out(&mut stderr));
    let ended = tokio::time::timeout(EXIT_TIMEOUT, async { (stdout.await, stderr.await) }).await;
    if ended.is_err() {
        child.kill().expect("a process to kill");
    }
    let (stdout, stderr) = ended.expect("the process ends");
    Ended {
        status: child.wait().expect("a status"),
        stdout: stdout.expect("standard output"),
        stderr: stderr.expect("standard error"),
    }
}

fn read_out(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("UTF-8");
    text
}
