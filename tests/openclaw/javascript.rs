//! The checks of the package's JavaScript.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use testkit::support::node::{self, Installed};

/// The packages that check the types of the JavaScript.
const TYPE_CHECK_PACKAGES: [&str; 2] = ["typescript@5.9.3", "@types/node@24.19.2"];

pub(super) fn javascript_checks_pass(node: &Path) {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("openclaw");
    let output = Command::new(node)
        .args(["--test", "--test-reporter=tap", "test/*.test.js"])
        .current_dir(directory)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(
        report.contains("\n# pass ") && !report.contains("\n# pass 0\n"),
        "no check ran: {report}"
    );
}

/// Checks the types of the JavaScript with the types that OpenClaw publishes.
pub(super) fn javascript_has_no_type_errors(openclaw: &Installed) {
    let installed = node::install("typecheck", &TYPE_CHECK_PACKAGES);
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("openclaw");
    // The same as the package's own, with the folders of this build.
    let project = installed.package("../tsconfig.json");
    let settings = json!({
        "extends": directory.join("tsconfig.json"),
        "compilerOptions": {
            "typeRoots": [installed.package("@types")],
            "paths": {"openclaw/plugin-sdk/*": [openclaw.package("openclaw/dist/plugin-sdk/*.d.ts")]},
        },
    });
    fs::write(&project, settings.to_string()).unwrap();
    let output = Command::new(installed.node())
        .arg(installed.package("typescript/lib/tsc.js"))
        .arg("--project")
        .arg(&project)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
}
