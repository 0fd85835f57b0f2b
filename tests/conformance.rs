//! Every fixture, against the plugin linked into the test. Each result and update must fit `schema/result.schema.json`.

use testkit::conformance::{Options, find, run_suite};

use crate::contract::in_process::{InProcess, VIOLATION};
use crate::support::root;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fixture_passes_and_fits_the_schema() {
    let fixtures = root("fixtures");
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
    // A case that is expected to fail may not fail by its form.
    assert!(!lines.iter().any(|line| line.contains(VIOLATION)));
    if options.filter.is_none() {
        assert_eq!(report.ran.len(), find(&fixtures).unwrap().len());
    }
}
