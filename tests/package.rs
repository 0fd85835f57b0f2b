//! The output of `remote-agent package` and `cargo xtask release`.

mod release;
mod workflow;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use remote_agent_cli::package::{self, Packaged, Platform};
use serde_json::Value;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns an empty directory for one test.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("package")
        .join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns a package with a placeholder for the library.
fn packaged(scratch: &Path) -> Packaged {
    let library = scratch.join("library.so");
    fs::write(&library, b"not a library").unwrap();
    package::assemble(&library, &scratch.join("out")).unwrap()
}

fn unpack(tarball: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(
        fs::File::open(tarball).unwrap(),
    ));
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        })
        .collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Adds the files at `path`, a file or a directory of `openclaw/`.
fn list_files(path: &str, listed: &mut BTreeSet<String>) {
    let full = Path::new(SOURCE).join("openclaw").join(path);
    if !full.is_dir() {
        listed.insert(path.to_owned());
        return;
    }
    for entry in fs::read_dir(full).unwrap() {
        let name = entry.unwrap().file_name();
        list_files(&format!("{path}/{}", name.display()), listed);
    }
}

#[test]
fn tarball_has_only_runtime_files() {
    let manifest = package::manifest().unwrap();
    let mut listed = BTreeSet::from(["package.json".to_owned()]);
    for name in manifest["files"].as_array().unwrap() {
        // A build puts the library into `native/`.
        if name != "native" {
            list_files(name.as_str().unwrap(), &mut listed);
        }
    }
    for name in &listed {
        let is_for_tests = ["test", "script", "types"]
            .iter()
            .any(|part| name.contains(part));
        assert!(!is_for_tests, "{name}");
    }
    let held = package::files(&manifest, []);
    let held: BTreeSet<String> = held.into_iter().map(|(path, _)| path).collect();
    assert_eq!(held, listed);
    let library = format!("native/{}", Platform::current().library_name());
    listed.extend(["LICENSE".to_owned(), library]);
    let packaged = packaged(&scratch("contents"));
    let packed = unpack(&packaged.tarball).into_keys();
    let packed = packed.map(|name| name.trim_start_matches("package/").to_owned());
    assert_eq!(packed.collect::<BTreeSet<_>>(), listed);
}

#[test]
fn directory_and_tarball_hold_the_same_bytes() {
    let packaged = packaged(&scratch("same"));
    for (name, bytes) in unpack(&packaged.tarball) {
        let name = name.strip_prefix("package/").unwrap();
        assert_eq!(
            fs::read(packaged.directory.join(name)).unwrap(),
            bytes,
            "{name}"
        );
    }
}

#[test]
fn two_runs_give_the_same_tarball() {
    let [first, second] =
        ["first", "second"].map(|name| fs::read(packaged(&scratch(name)).tarball).unwrap());
    assert_eq!(first, second);
}

#[test]
fn package_is_for_this_platform_only() {
    let packaged = packaged(&scratch("platform"));
    let manifest = json(&packaged.directory.join("package.json"));
    assert_eq!(manifest["os"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["cpu"].as_array().unwrap().len(), 1);
}

#[test]
fn package_has_no_install_script() {
    let manifest = json(&Path::new(SOURCE).join("openclaw/package.json"));
    assert_eq!(manifest["scripts"], Value::Null);
    assert_eq!(manifest["dependencies"], Value::Null);
}

#[test]
fn earlier_package_is_replaced() {
    let scratch = scratch("replaced");
    let stale = packaged(&scratch).directory.join("stale.js");
    fs::write(&stale, "").unwrap();
    packaged(&scratch);
    assert!(!stale.exists());
}

#[test]
fn other_directory_is_not_replaced() {
    let scratch = scratch("occupied");
    let precious = scratch.join("out/openclaw-remote-agent/precious.txt");
    fs::create_dir_all(precious.parent().unwrap()).unwrap();
    fs::write(&precious, "").unwrap();
    let error = package::assemble(&precious, &scratch.join("out")).unwrap_err();
    assert!(
        error.message.contains("is not an OpenClaw plugin"),
        "{error:?}"
    );
    assert!(precious.exists());
}
