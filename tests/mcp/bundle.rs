//! `cargo xtask bundle`: the packages for MCP hosts.

use std::path::Path;

use flate2::read::GzDecoder;
use xtask::bundle::{self, Bundled};

use super::*;

/// Bundles with small files in place of the command and the library.
fn create_bundle(out: &Path) -> Bundled {
    let command = out.join("command");
    let library = out.join("libopenclaw_remote_agent.so");
    std::fs::write(&command, "#!/bin/sh\n[ -f \"$(dirname \"$0\")/libopenclaw_remote_agent.so\" ] && echo started \"$@\"\n").unwrap();
    std::fs::write(&library, "library").unwrap();
    bundle::assemble(&crate::support::root(""), &command, &library, out).unwrap()
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn bundle_starts_its_command_beside_the_library() {
    let out = tempfile::tempdir().unwrap();
    let directory = create_bundle(out.path()).directory;
    let server = &json_file(&directory.join("mcp.json"))["mcpServers"]["a2a"];
    let command = directory.join(server["command"].as_str().unwrap());
    let started = std::process::Command::new(command)
        .arg("mcp")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&started.stdout), "started mcp\n");
}

#[test]
fn bundle_has_no_manifest_of_a_native_plugin() {
    let out = tempfile::tempdir().unwrap();
    let directory = create_bundle(out.path()).directory;
    let manifest = json_file(&directory.join("plugin.json"));
    assert_eq!(manifest["name"], "remote-agent-mcp");
    assert!(!directory.join("openclaw.plugin.json").exists());
    let skill = std::fs::read_to_string(directory.join("skills/remote-agent/SKILL.md")).unwrap();
    assert!(
        skill.contains("a2a__remote_agent") && !skill.contains("metadata:"),
        "{skill}"
    );
}

#[test]
fn registry_entry_has_the_digest_of_the_mcpb_file() {
    let out = tempfile::tempdir().unwrap();
    let bundle = create_bundle(out.path());
    let digest = ring::digest::digest(&ring::digest::SHA256, &std::fs::read(&bundle.mcpb).unwrap());
    let digest: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let entry = json_file(&bundle.server_json);
    assert_eq!(entry["packages"][0]["fileSha256"], digest);
    assert!(entry["description"].as_str().unwrap().len() <= 100);
}

#[test]
fn npm_package_has_an_executable_start() {
    let out = tempfile::tempdir().unwrap();
    let tarball = std::fs::File::open(create_bundle(out.path()).tarball).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(tarball));
    let mut modes = std::collections::BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        modes.insert(path, entry.header().mode().unwrap());
    }
    assert_eq!(modes["package/bin/start.js"], 0o755);
    assert_eq!(modes["package/bin/remote-agent"], 0o755);
    assert_eq!(modes["package/package.json"], 0o644);
}

#[test]
fn release_has_an_entry_and_a_package_for_each_mcpb_file() {
    let out = tempfile::tempdir().unwrap();
    let mcpb = create_bundle(out.path()).mcpb;
    let bundles = out.path().join("bundles");
    std::fs::create_dir(&bundles).unwrap();
    for platform in ["darwin-arm64", "linux-x64"] {
        std::fs::copy(&mcpb, bundles.join(format!("remote-agent-{platform}.mcpb"))).unwrap();
    }
    let release = out.path().join("release");
    let written = bundle::release(&bundles, &release, true).unwrap();
    assert_eq!(written.len(), 6);
    assert!(written.iter().all(|path| path.is_file()), "{written:?}");

    let entry = json_file(&release.join("server.json"));
    let identifiers = entry["packages"].as_array().unwrap().iter();
    let identifiers = identifiers.map(|package| package["identifier"].as_str().unwrap());
    let identifiers: Vec<_> = identifiers
        .map(|identifier| identifier.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(
        identifiers,
        [
            "remote-agent-darwin-arm64.mcpb",
            "remote-agent-linux-x64.mcpb",
            "openclaw-remote-agent-mcp"
        ]
    );

    let version = env!("CARGO_PKG_VERSION");
    let unpack = |name: &str| {
        let tarball = release.join(format!("openclaw-remote-agent-mcp{name}-{version}.tgz"));
        let to = out.path().join(format!("unpacked{name}"));
        let tarball = std::fs::File::open(tarball).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(tarball));
        archive.unpack(&to).unwrap();
        to.join("package")
    };
    let main = json_file(&unpack("").join("package.json"));
    assert_eq!(
        main["optionalDependencies"],
        json!({
            "openclaw-remote-agent-mcp-darwin-arm64": version,
            "openclaw-remote-agent-mcp-linux-x64": version,
        })
    );
    let linux = unpack("-linux-x64");
    let manifest = json_file(&linux.join("package.json"));
    assert_eq!(
        (&manifest["os"], &manifest["cpu"], &manifest["libc"]),
        (&json!(["linux"]), &json!(["x64"]), &json!(["glibc"]))
    );
    let started = std::process::Command::new(linux.join("bin/remote-agent"))
        .arg("mcp")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&started.stdout), "started mcp\n");
}

#[test]
fn mcpb_file_of_an_unknown_name_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let refused = |reason: &str| {
        let error = bundle::release(out.path(), &out.path().join("release"), false).unwrap_err();
        assert!(error.message.contains(reason), "{error:?}");
    };
    refused("it has no file `remote-agent-OS-CPU.mcpb`");
    std::fs::write(out.path().join("remote-agent.mcpb"), "").unwrap();
    refused("its name is not `remote-agent-OS-CPU.mcpb`");
    std::fs::remove_file(out.path().join("remote-agent.mcpb")).unwrap();
    std::fs::write(out.path().join("remote-agent-x-y.mcpb"), "").unwrap();
    refused("remote-agent-x-y.mcpb`: its name is not");
}

#[test]
fn release_without_an_mcpb_file_is_refused() {
    let out = tempfile::tempdir().unwrap();
    for platform in ["darwin-arm64", "darwin-x64", "linux-arm64", "win32-x64"] {
        std::fs::write(out.path().join(format!("remote-agent-{platform}.mcpb")), "").unwrap();
    }
    let release = out.path().join("release");
    let error = bundle::release(out.path(), &release, false).unwrap_err();
    assert!(
        error.message.contains("lacks `linux-x64-gnu`."),
        "{error:?}"
    );
    assert!(!release.exists());
}

/// Installs the official tool for MCPB files.
#[cfg(feature = "real")]
#[test]
fn mcpb_file_is_valid() {
    let out = tempfile::tempdir().unwrap();
    let mcpb = create_bundle(out.path()).mcpb;
    let installed = crate::support::node::install("mcpb", &["@anthropic-ai/mcpb@2.1.2"]);
    let tool = installed.package("@anthropic-ai/mcpb/dist/cli/cli.js");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(installed.node());
        let run = command.arg(&tool).args(arguments).output().unwrap();
        let output = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{output}");
        output
    };
    let unpacked = out.path().join("unpacked");
    run(&["unpack", mcpb.to_str().unwrap(), unpacked.to_str().unwrap()]);
    let valid = run(&["validate", unpacked.join("manifest.json").to_str().unwrap()]);
    assert!(valid.contains("passes"), "{valid}");
}

/// Starts the npm package as `npx` would.
#[cfg(feature = "real")]
#[test]
fn npm_package_starts_the_command() {
    let out = tempfile::tempdir().unwrap();
    let tarball = std::fs::File::open(create_bundle(out.path()).tarball).unwrap();
    tar::Archive::new(GzDecoder::new(tarball))
        .unpack(out.path())
        .unwrap();
    let node = crate::support::node::install("node", &[]);
    let start = |arguments: &[&str]| {
        let mut command = std::process::Command::new(node.node());
        let run = command
            .arg(out.path().join("package/bin/start.js"))
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    assert_eq!(
        start(&["--config", "a.json"]),
        "started mcp --config a.json\n"
    );
    assert_eq!(
        start(&["mcp", "--structured"]),
        "started mcp --structured\n"
    );
}
