//! Every fixture, against the plugin linked into the test.

pub(crate) use crate::support::in_process;

use std::path::Path;

use in_process::InProcess;
use testkit::conformance::{Options, find, run_suite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fixture_passes() {
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures");
    let options = Options {
        wire: true,
        filter: std::env::var("REMOTE_AGENT_FIXTURE").ok(),
        ..Options::default()
    };
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
