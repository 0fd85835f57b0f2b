//! `remote-agent package`; what it assembles is the matter of `tests/package.rs`.

use std::{fs, path::Path};

use crate::support::*;

#[tokio::test]
async fn the_paths_of_the_package_are_printed_with_the_tarball_last() {
    let directory = scratch("package");
    let library = directory.join("library.so");
    fs::write(&library, "stands for a library").unwrap();
    let [library, out] = [library, directory.join("out")].map(|path| path.display().to_string());
    let ended = run(&["package", "--library", &library, "--out", &out]).await;
    exits(&ended, 0);
    let paths: Vec<&Path> = ended.stdout.lines().map(Path::new).collect();
    assert_eq!(paths.len(), 2, "{ended:?}");
    assert!(paths[0].join("openclaw.plugin.json").is_file());
    assert!(paths[1].is_file() && paths[1].extension().is_some_and(|end| end == "tgz"));
}

#[tokio::test]
async fn a_library_that_is_not_there_is_a_failure_that_names_it() {
    let out = scratch("package-none").display().to_string();
    let ended = run(&["package", "--library", "/nowhere/library.so", "--out", &out]).await;
    exits(&ended, 1);
    has(&ended.stderr, &["/nowhere/library.so"]);
}
