//! Clients on Node.js, and their reports.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::ChildStdout,
};

use crate::gateway::{
    npm::{Installed, install},
    tool_fixture::within_timeout,
};

const PACKAGES: &[&str] = &["ws@8.23.0"];

fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| install("gateway", PACKAGES))
}

/// Runs a script of the tests and returns what it prints.
pub(crate) fn run(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(script);
    let mut command = Command::new(installed().node());
    let output = command.arg(script).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A client that runs a role of `run_client.mjs`. It ends with the value.
pub(crate) struct NodeClient {
    child: Child,
    reports: Lines<BufReader<ChildStdout>>,
}

impl NodeClient {
    /// Starts the client.
    pub(crate) fn start(url: &str, options: &Value) -> Self {
        let installed = installed();
        let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("tests/gateway/run_client.mjs");
        let mut child = Command::new(installed.node())
            .arg(script)
            .arg(installed.package("ws"))
            .args([url, &options.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        Self {
            child,
            reports: BufReader::new(out).lines(),
        }
    }

    /// Returns its next report of this name.
    pub(crate) async fn next_report(&mut self, name: &str) -> Value {
        let line = within_timeout(self.reports.next_line()).await.unwrap();
        let line = line.expect("the client has not exited");
        let mut report: Value = serde_json::from_str(&line).unwrap();
        assert!(report.get(name).is_some(), "no report `{name}`: {line}");
        report[name].take()
    }
}

impl Drop for NodeClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
