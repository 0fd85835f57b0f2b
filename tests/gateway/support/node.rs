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
    rig::soon,
};

const PACKAGES: &[&str] = &["ws@8.23.0"];

fn installed() -> &'static Installed {
    static ONCE: OnceLock<Installed> = OnceLock::new();
    ONCE.get_or_init(|| install("gateway", PACKAGES))
}

/// A client that runs a role of `play.mjs`. It ends with the value.
pub(crate) struct NodeClient {
    child: Child,
    reported: Lines<BufReader<ChildStdout>>,
}

impl NodeClient {
    /// Starts the client.
    pub(crate) fn start(url: &str, order: &Value) -> Self {
        let installed = installed();
        let play =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/gateway/play.mjs");
        let mut child = Command::new(installed.node())
            .arg(play)
            .arg(installed.package("ws"))
            .args([url, &order.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
        Self {
            child,
            reported: BufReader::new(out).lines(),
        }
    }

    /// Returns its next report of this name.
    pub(crate) async fn next_report(&mut self, name: &str) -> Value {
        let line = soon(self.reported.next_line()).await.unwrap();
        let line = line.expect("it is still there");
        let mut reported: Value = serde_json::from_str(&line).unwrap();
        assert!(reported.get(name).is_some(), "{name} was to come: {line}");
        reported[name].take()
    }
}

impl Drop for NodeClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
