//! A person who answers at the terminal, with each server.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::peer::Peer;

/// Lets a person answer the question of the server's agent through `remote-agent send --ask`, and expects the completed task.
pub fn check(peer: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.json");
    std::fs::write(&file, peer.config().to_string()).unwrap();
    for follow in [&["--follow"][..], &[]] {
        let mut child = Command::new(testkit::support::command())
            .args([
                "send",
                "--target",
                "peer",
                "--ask",
                "ask: which one?",
                "--config",
            ])
            .arg(&file)
            .args(follow)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"blue\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let [answer, asked] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{asked}");
        assert_eq!(answer, "you said blue\n", "{asked}");
        assert!(asked.contains("  | which one?"), "{asked}");
    }
}
