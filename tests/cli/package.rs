//! `remote-agent package`; `tests/package.rs` tests its output.

use std::{
    env::consts::{DLL_PREFIX, DLL_SUFFIX},
    fs,
    path::Path,
};

use openclaw_remote_agent::BUILD_ID;
use remote_agent_cli::package::Platform;

use crate::call::library_of_another_build;
use crate::cli::support::*;

#[tokio::test]
async fn package_prints_its_paths_with_the_tarball_last() {
    let directory = scratch("package");
    let library = directory.join("library.so");
    fs::write(&library, "stands for a library").unwrap();
    let [library, out] = [library, directory.join("out")].map(|path| path.display().to_string());
    let output = run(&["package", "--library", &library, "--out", &out]).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["cannot read the build"]);
    let paths: Vec<&Path> = output.stdout.lines().map(Path::new).collect();
    assert_eq!(paths.len(), 2, "{output:?}");
    assert!(paths[0].join("openclaw.plugin.json").is_file());
    assert!(paths[1].is_file() && paths[1].extension().is_some_and(|end| end == "tgz"));
}

#[tokio::test]
async fn packs_the_library_of_the_command() {
    let out = scratch("package-own");
    let output = run(&["package", "--out", &out.display().to_string()]).await;
    assert_exit_code(&output, 0);
    let directory = Path::new(output.stdout.lines().next().unwrap());
    let packed = directory
        .join("native")
        .join(Platform::current().library_name());
    let own = std::env::current_exe()
        .unwrap()
        .with_file_name(format!("{DLL_PREFIX}openclaw_remote_agent{DLL_SUFFIX}"));
    assert_eq!(
        fs::metadata(packed).unwrap().len(),
        fs::metadata(own).unwrap().len()
    );
}

#[tokio::test]
async fn refusal_of_another_build_names_both_builds() {
    let (library, other) = library_of_another_build("package-other");
    let out = scratch("package-other-out").join("out");
    let [library, out] = [library, out].map(|path| path.display().to_string());
    let output = run(&["package", "--library", &library, "--out", &out]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &[BUILD_ID, &other]);
    assert!(!Path::new(&out).exists());
}

#[tokio::test]
async fn missing_library_is_named() {
    let out = scratch("package-none").display().to_string();
    let output = run(&["package", "--library", "/nowhere/library.so", "--out", &out]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["cannot read `/nowhere/library.so"]);
}
