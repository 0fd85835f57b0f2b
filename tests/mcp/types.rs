//! The TypeScript types of the HTTP API.

use std::process::Command;

use openclaw_remote_agent::remote_agent::ApiCode;

use crate::support::{generated, node, root};

#[test]
fn types_are_those_of_the_schemas() {
    let packages = ["json-schema-to-typescript@15.0.4", "typescript@5.9.3"];
    let installed = node::install("types", &packages);
    let script = installed.package("../types.mjs");
    std::fs::write(&script, include_str!("types.mjs")).unwrap();
    let run = Command::new(installed.node())
        .arg(&script)
        .args(["request", "result"].map(|name| root(&format!("schema/{name}.schema.json"))))
        .args(ApiCode::ALL.map(ApiCode::as_str))
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let types = String::from_utf8(run.stdout).unwrap();
    generated::file("schema/remote-agent.d.ts", &types);
    let checked = Command::new(installed.node())
        .arg(installed.package("typescript/lib/tsc.js"))
        .args(["--noEmit", "--strict"])
        .arg(root("schema/remote-agent.d.ts"))
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );
}
