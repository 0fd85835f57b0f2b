//! Every fixture, against the plugin linked into the test.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

#[path = "support/in_process.rs"]
mod in_process;

use std::path::Path;

use in_process::InProcess;
use openclaw_remote_agent::conformance::{Options, find, run_suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fixture_holds() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut options = Options::default();
    options.wire = true;
    options.filter = std::env::var("REMOTE_AGENT_FIXTURE").ok();
    let report = run_suite(&fixtures, InProcess::default, &options)
        .await
        .unwrap();
    let mut lines = report.lines();
    lines.retain(|line| !line.starts_with("pass"));
    println!("{}", lines.join("\n"));
    assert!(report.is_fine(), "see above");
    if options.filter.is_none() {
        assert_eq!(report.ran.len(), find(&fixtures).unwrap().len());
    }
}
