//! The packages of a release.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use xtask::release;

use super::{SOURCE, json, scratch, unpack};

pub const PLATFORMS: [&str; 7] = [
    "linux-x64-gnu",
    "linux-arm64-gnu",
    "linux-x64-musl",
    "linux-arm64-musl",
    "darwin-x64",
    "darwin-arm64",
    "win32-x64-msvc",
];

/// Returns the headers of an empty library, in the format of the platform.
fn headers(platform: &str) -> Vec<u8> {
    let arm = platform.contains("arm64");
    let mut bytes = Vec::new();
    if platform.starts_with("linux") {
        bytes.extend(b"\x7fELF\x02\x01\x01");
        bytes.resize(16, 0);
        bytes.extend([3, 0, if arm { 183 } else { 62 }, 0, 1]);
        bytes.resize(52, 0);
        bytes.extend([64, 0]);
        bytes.resize(64, 0);
    } else if platform.starts_with("darwin") {
        bytes.extend(0xfeed_facf_u32.to_le_bytes());
        bytes.extend([if arm { 12 } else { 7 }, 0, 0, 1, 0, 0, 0, 0, 6]);
        bytes.resize(32, 0);
    } else {
        bytes.extend(b"MZ");
        bytes.resize(60, 0);
        bytes.extend([64, 0, 0, 0]);
        bytes.extend(b"PE\0\0\x64\x86\x01");
        bytes.resize(84, 0);
        bytes.extend([240, 0, 0, 0, 0x0b, 0x02]);
        bytes.resize(512, 0);
        // The number of data directories.
        bytes[64 + 24 + 108] = 16;
    }
    bytes
}

/// Puts `bytes` where `cargo xtask release` expects the library of a platform.
fn put_library(root: &Path, platform: &str, bytes: &[u8]) {
    let directory = root.join(platform);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("library.node"), bytes).unwrap();
}

/// Returns a release for `platforms` with empty libraries.
fn released(scratch: &Path, platforms: &[&str]) -> PathBuf {
    let libraries = scratch.join("libraries");
    for platform in platforms {
        put_library(&libraries, platform, &headers(platform));
    }
    let out = scratch.join("out");
    release::assemble(Path::new(SOURCE), &libraries, &out, true).unwrap();
    out
}

fn tarball(out: &Path, suffix: &str) -> BTreeMap<String, Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    unpack(&out.join(format!("openclaw-remote-agent{suffix}-{version}.tgz")))
}

fn manifest(files: &BTreeMap<String, Vec<u8>>) -> Value {
    serde_json::from_slice(&files["package/package.json"]).unwrap()
}

fn refusal(scratch: &Path, platform: &str, library: &[u8]) -> String {
    let libraries = scratch.join("libraries");
    put_library(&libraries, platform, library);
    release::assemble(Path::new(SOURCE), &libraries, &scratch.join("out"), true)
        .unwrap_err()
        .message
}

#[test]
fn release_without_a_platform_is_refused() {
    let scratch = scratch("release-missing");
    let libraries = scratch.join("libraries");
    for platform in &PLATFORMS[1..] {
        put_library(&libraries, platform, &headers(platform));
    }
    let assemble = || release::assemble(Path::new(SOURCE), &libraries, &scratch.join("out"), false);
    let error = assemble().unwrap_err();
    assert!(
        error.message.contains("lacks `linux-x64-gnu`."),
        "{error:?}"
    );
    assert!(!scratch.join("out").exists());
    put_library(&libraries, PLATFORMS[0], &headers(PLATFORMS[0]));
    assemble().unwrap();
}

#[test]
fn main_package_requires_the_built_platforms() {
    let out = released(
        &scratch("release-main"),
        &["win32-x64-msvc", "linux-arm64-musl"],
    );
    let files = tarball(&out, "");
    assert!(files.keys().all(|name| !name.contains("native/")));
    let main = manifest(&files);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        main["optionalDependencies"],
        serde_json::json!({
            "openclaw-remote-agent-linux-arm64-musl": version,
            "openclaw-remote-agent-win32-x64-msvc": version,
        })
    );
    assert_eq!(
        main["openclaw"]["install"]["requiredPlatformPackages"],
        serde_json::json!([
            "openclaw-remote-agent-linux-arm64-musl",
            "openclaw-remote-agent-win32-x64-msvc"
        ])
    );
    assert_eq!(main["os"], serde_json::json!(["linux", "win32"]));
    assert_eq!(main["cpu"], serde_json::json!(["arm64", "x64"]));
}

#[test]
fn each_platform_package_holds_one_library_for_its_platform() {
    let out = released(&scratch("release-platforms"), &PLATFORMS);
    for platform in PLATFORMS {
        let files = tarball(&out, &format!("-{platform}"));
        let library = format!("remote_agent.{platform}.node");
        let names: Vec<&String> = files.keys().collect();
        assert_eq!(
            names,
            [
                "package/LICENSE",
                "package/package.json",
                &format!("package/{library}")
            ]
        );
        let manifest = manifest(&files);
        let mut parts = platform.split('-');
        assert_eq!(manifest["os"][0], parts.next().unwrap());
        assert_eq!(manifest["cpu"][0], parts.next().unwrap());
        let libc = match parts.next() {
            Some("gnu") => serde_json::json!(["glibc"]),
            Some("musl") => serde_json::json!(["musl"]),
            _ => Value::Null,
        };
        assert_eq!(manifest["libc"], libc, "{platform}");
    }
}

#[test]
fn clawpack_holds_the_libraries_of_four_platforms() {
    let files = tarball(
        &released(&scratch("release-clawpack"), &PLATFORMS),
        "-clawpack",
    );
    let libraries = files.keys().filter(|name| name.contains("/native/"));
    assert_eq!(
        libraries.collect::<Vec<_>>(),
        [
            "package/native/remote_agent.darwin-arm64.node",
            "package/native/remote_agent.linux-arm64-gnu.node",
            "package/native/remote_agent.linux-x64-gnu.node",
            "package/native/remote_agent.win32-x64-msvc.node",
        ]
    );
    assert!(files.contains_key("package/openclaw.plugin.json"));
    let manifest = manifest(&files);
    assert_eq!(manifest["name"], "openclaw-remote-agent");
    assert_eq!(
        manifest["os"],
        serde_json::json!(["darwin", "linux", "win32"])
    );
    assert_eq!(manifest["cpu"], serde_json::json!(["arm64", "x64"]));
    assert_eq!(manifest["libc"], Value::Null);
    assert_eq!(manifest["optionalDependencies"], Value::Null);
}

#[test]
fn clawpack_that_clawhub_refuses_is_not_written() {
    let scratch = scratch("release-clawpack-size");
    let libraries = scratch.join("libraries");
    for platform in [
        "linux-x64-gnu",
        "linux-arm64-gnu",
        "darwin-arm64",
        "win32-x64-msvc",
    ] {
        let mut library = headers(platform);
        library.resize(13_200_000, 0);
        put_library(&libraries, platform, &library);
    }
    let out = scratch.join("out");
    let error = release::assemble(Path::new(SOURCE), &libraries, &out, true).unwrap_err();
    for part in [
        "cannot write the ClawPack: it has 53",
        "ClawHub takes 52428800",
        "`native/remote_agent.darwin-arm64.node` 13200000",
    ] {
        assert!(error.message.contains(part), "{error:?}");
    }
    assert!(!out.exists());
}

#[test]
fn checksums_cover_every_other_file_of_a_release() {
    let out = released(&scratch("release-checksums"), &PLATFORMS);
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    assert_eq!(
        sums.lines().count(),
        fs::read_dir(&out).unwrap().count() - 1
    );
    for line in sums.lines() {
        let (expected, name) = line.split_once("  ").unwrap();
        let bytes = fs::read(out.join(name)).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let digest: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, expected, "{name}");
    }
}

#[test]
fn crate_list_covers_the_linked_crates() {
    let out = released(&scratch("release-sbom"), &["darwin-x64"]);
    let list = json(&out.join("sbom.cdx.json"));
    assert_eq!(list["bomFormat"], "CycloneDX");
    assert_eq!(list["specVersion"], "1.5");
    let names: Vec<_> = list["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|component| component["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"rustls"));
    assert!(!names.contains(&"clap"), "only the command links clap");
}

/// Returns the executable of this test with other versions of glibc: `replace` maps each name of a version.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn own_file_with_versions(replace: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, b"\0GLIBC_2.").collect();
    for place in places {
        let length = memchr::memchr(0, &bytes[place + 1..]).unwrap();
        replace(&mut bytes[place + 1..place + 1 + length]);
    }
    bytes
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[test]
fn library_for_newer_glibc_is_refused_with_its_symbol() {
    let newer = own_file_with_versions(|name| {
        if name == b"GLIBC_2.2.5" {
            name.copy_from_slice(b"GLIBC_2.999");
        }
    });
    let message = refusal(&scratch("release-newer"), "linux-x64-gnu", &newer);
    for part in [
        "library.node`: its symbol `",
        "` needs glibc 2.999, and glibc 2.28",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn library_of_another_platform_is_refused() {
    let message = refusal(
        &scratch("release-swapped"),
        "darwin-x64",
        &headers("darwin-arm64"),
    );
    assert!(message.contains("it is MachO for Aarch64"), "{message}");
}

#[test]
fn directory_without_a_platform_is_refused() {
    let message = refusal(&scratch("release-typo"), "linux-x86-gnu", b"");
    assert!(
        message.contains("linux-x86-gnu`: no platform has that name")
            && message.contains("`win32-x64-msvc`"),
        "{message}"
    );
}

#[test]
fn platform_with_two_libraries_is_refused() {
    let scratch = scratch("release-two");
    let libraries = scratch.join("libraries");
    put_library(&libraries, "darwin-x64", b"");
    fs::write(libraries.join("darwin-x64/other.dylib"), b"").unwrap();
    let error =
        release::assemble(Path::new(SOURCE), &libraries, &scratch.join("out"), true).unwrap_err();
    assert!(error.message.contains("it has 2 libraries"), "{error:?}");
}
