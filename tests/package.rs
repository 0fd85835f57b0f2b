//! The output of `remote-agent package` and `cargo xtask release`.

mod release;

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

#[test]
fn tarball_has_only_runtime_files() {
    let packaged = packaged(&scratch("contents"));
    let library = format!("package/native/{}", Platform::current().library_name());
    let names: Vec<_> = unpack(&packaged.tarball).into_keys().collect();
    assert_eq!(
        names,
        [
            "package/LICENSE",
            "package/README.md",
            "package/answer-writer.js",
            "package/approval.js",
            "package/arguments.js",
            "package/ask-gateway.js",
            "package/assets/activity.svg",
            "package/assets/icon.png",
            "package/call-commands.js",
            "package/command-support.js",
            "package/commands.js",
            "package/config.js",
            "package/configuration.js",
            "package/credential-options.js",
            "package/doctor-contract-api.js",
            "package/doctor.js",
            "package/exit-codes.json",
            "package/failure.js",
            "package/files.js",
            "package/followers.js",
            "package/gateway-calls.js",
            "package/gateway-methods.js",
            "package/http-api.js",
            "package/index.js",
            "package/instance.js",
            "package/listing.js",
            "package/native.js",
            &library,
            "package/openclaw.plugin.json",
            "package/package.json",
            "package/page.js",
            "package/place.js",
            "package/repair.js",
            "package/report.js",
            "package/secrets.js",
            "package/security-audit.js",
            "package/skills/remote-agent-setup/SKILL.md",
            "package/skills/remote-agent/SKILL.md",
            "package/slot.js",
            "package/state-files.js",
            "package/table.js",
            "package/targets-commands.js",
            "package/tasks.js",
            "package/text.js",
            "package/tool.js",
        ]
    );
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
fn command_holds_the_files_that_the_manifest_lists() {
    let manifest = package::manifest().unwrap();
    let mut listed = BTreeSet::from(["package.json".to_owned()]);
    for name in manifest["files"].as_array().unwrap() {
        // A build puts the library into `native/`.
        if name != "native" {
            list_files(name.as_str().unwrap(), &mut listed);
        }
    }
    let held = package::files(&manifest, None);
    let held: BTreeSet<String> = held.into_iter().map(|(path, _)| path).collect();
    assert_eq!(held, listed);
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

#[test]
fn missing_library_file_is_named() {
    let scratch = scratch("no-library");
    let error = package::assemble(&scratch.join("none.so"), &scratch.join("out")).unwrap_err();
    let message = error.message;
    assert!(
        message.starts_with("cannot read `") && message.contains("none.so"),
        "{message}"
    );
}

/// OpenClaw writes defaults of the top level into the settings, so the rest of the schema is compared without them.
#[test]
fn settings_of_the_manifest_are_those_of_the_library() {
    let mut schema = json(&Path::new(SOURCE).join("schema/config.schema.json"));
    let top = schema.as_object_mut().unwrap();
    top.remove("$schema");
    top.remove("title");
    for (_, property) in top["properties"].as_object_mut().unwrap() {
        property.as_object_mut().unwrap().remove("default");
    }
    let manifest = json(&Path::new(SOURCE).join("openclaw/openclaw.plugin.json"));
    assert_eq!(
        manifest["configSchema"], schema,
        "copy schema/config.schema.json into `configSchema`, without `$schema`, `title` and the defaults of the top level"
    );
}

#[test]
fn every_hint_and_group_of_the_manifest_belongs_to_a_setting() {
    let manifest = json(&Path::new(SOURCE).join("openclaw/openclaw.plugin.json"));
    let schema = &manifest["configSchema"];
    for (path, _) in manifest["uiHints"].as_object().unwrap() {
        let place = path.split('.').try_fold(schema, |at, step| {
            if step == "*" {
                at.get("items")
            } else {
                at.get("properties")?.get(step)
            }
        });
        assert!(place.is_some(), "{path}");
    }
    let grouped: Vec<_> = manifest["configGroups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["properties"].as_array().unwrap())
        .collect();
    let settings = schema["properties"].as_object().unwrap();
    assert_eq!(grouped.len(), settings.len());
    assert!(
        grouped
            .iter()
            .all(|name| settings.contains_key(name.as_str().unwrap()))
    );
}

#[test]
fn every_schema_for_rust_hosts_exists() {
    let manifest = json(&Path::new(SOURCE).join("plugin.json"));
    let schemas = manifest["extensions"]["io.github.openclaw-remote-agent"]["schemas"]
        .as_object()
        .unwrap();
    assert_eq!(schemas.len(), 3);
    for (name, path) in schemas {
        let schema = json(&Path::new(SOURCE).join(path.as_str().unwrap()));
        assert!(schema.is_object(), "{name}");
    }
}
