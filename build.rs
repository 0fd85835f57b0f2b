//! Names the build after its sources and links the shared library so that it stays mapped.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// What the library is made of, seen from the package's root. A packaged source lacks some of it.
const SOURCES: [&str; 20] = [
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "schema",
    "src",
    "crates/a2a/Cargo.toml",
    "crates/a2a/src",
    "crates/a2a-client/Cargo.toml",
    "crates/a2a-client/src",
    "crates/base",
    "crates/collective/Cargo.toml",
    "crates/collective/src",
    "crates/egress/Cargo.toml",
    "crates/egress/src",
    "crates/gateway-bridge/Cargo.toml",
    "crates/gateway-bridge/src",
    "crates/interface/Cargo.toml",
    "crates/interface/src",
    "crates/peer/Cargo.toml",
    "crates/peer/src",
];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES.map(Path::new) {
        if source.exists() {
            println!("cargo::rerun-if-changed={}", source.display());
            list(source, &mut files)?;
        }
    }
    files.sort();

    let mut hash = Fnv::default();
    for file in files {
        hash.write(file.to_string_lossy().as_bytes());
        hash.write(&fs::read(&file)?);
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!(
        "cargo::rustc-env=REMOTE_AGENT_BUILD_ID={version}+{:016x}",
        hash.0
    );

    // A host that closes the library while one of its threads still returns would unmap the code under that thread.
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    Ok(())
}

fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}

/// FNV-1a: the standard library's hashers may change from one compiler to the next.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes one piece; its length goes in too, so that moving a byte from one piece to the next shows.
    fn write(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
