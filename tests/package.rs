//! The output of `remote-agent package`.

mod release;

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use remote_agent_cli::package::{self, PackageError, Packaged};
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
    package::assemble(Path::new(SOURCE), &library, &scratch.join("out")).unwrap()
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

/// Returns a copy of the files that `assemble` reads, for changes.
fn copied_source(scratch: &Path) -> PathBuf {
    let copy = scratch.join("source");
    copy_all(&Path::new(SOURCE).join("openclaw"), &copy.join("openclaw"));
    for file in ["Cargo.toml", "LICENSE", "plugin.json"] {
        fs::copy(Path::new(SOURCE).join(file), copy.join(file)).unwrap();
    }
    copy
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn tarball_has_only_runtime_files() {
    let packaged = packaged(&scratch("contents"));
    let library = format!("package/native/{}", package::library_name());
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
    let error = package::assemble(Path::new(SOURCE), &precious, &scratch.join("out")).unwrap_err();
    assert!(matches!(error, PackageError::Occupied(_)), "{error}");
    assert!(precious.exists());
}

#[test]
fn differing_versions_are_refused_with_the_file() {
    for manifest in [
        "openclaw/package.json",
        "openclaw/openclaw.plugin.json",
        "plugin.json",
    ] {
        let scratch = scratch("versions");
        let source = copied_source(&scratch);
        let path = source.join(manifest);
        let text = fs::read_to_string(&path).unwrap();
        let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
        fs::write(&path, text.replacen(&version, "\"version\": \"9.9.9\"", 1)).unwrap();
        let error = package::assemble(&source, &path, &scratch.join("out")).unwrap_err();
        let PackageError::Version {
            path: blamed,
            found,
            expected,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (blamed, found.as_str(), expected.as_str()),
            (path, "9.9.9", env!("CARGO_PKG_VERSION"))
        );
    }
}

#[test]
fn missing_library_file_is_named() {
    let scratch = scratch("no-library");
    let error = package::assemble(
        Path::new(SOURCE),
        &scratch.join("none.so"),
        &scratch.join("out"),
    )
    .unwrap_err();
    assert!(
        error.to_string().starts_with("cannot read `") && error.to_string().contains("none.so"),
        "{error}"
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
