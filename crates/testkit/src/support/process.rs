//! Waits for processes to exit, and returns their output.

use std::{
    io::Read,
    process::{Child, ExitStatus},
    time::Duration,
};

/// The timeout of a wait. It is long enough for a busy machine.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(120);

/// The exit status and the output of a process.
#[derive(Debug)]
pub struct ProcessOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Waits until the process exits. Its standard error must be a pipe; its standard output is empty unless it is one.
pub async fn wait_for_output(mut child: Child) -> ProcessOutput {
    let stdout = child.stdout.take();
    let mut stderr = child.stderr.take().expect("a pipe");
    let stdout = tokio::task::spawn_blocking(move || stdout.map(|mut pipe| read_to_end(&mut pipe)));
    let stderr = tokio::task::spawn_blocking(move || read_to_end(&mut stderr));
    let result = tokio::time::timeout(EXIT_TIMEOUT, async { (stdout.await, stderr.await) }).await;
    if result.is_err() {
        child.kill().expect("a process to kill");
    }
    let (stdout, stderr) = result.expect("the process ends");
    ProcessOutput {
        status: child.wait().expect("a status"),
        stdout: stdout.expect("standard output").unwrap_or_default(),
        stderr: stderr.expect("standard error"),
    }
}

fn read_to_end(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("UTF-8");
    text
}
