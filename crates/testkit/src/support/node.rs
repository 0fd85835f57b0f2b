//! Node.js and npm packages, installed once below `target/` and reused.

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process::Command,
};

/// The Node.js that OpenClaw 2026.9.6 is tested with.
pub const NODE_VERSION: &str = "24.21.0";

/// A folder with a Node.js and the packages installed into it.
pub struct Installed {
    root: PathBuf,
}

impl Installed {
    /// Returns the Node.js executable.
    pub fn node(&self) -> PathBuf {
        self.package(&node_package()).join("bin/node")
    }

    /// Returns the folder of an installed package.
    pub fn package(&self, name: &str) -> PathBuf {
        self.root.join("node_modules").join(name)
    }
}

/// Installs the official clients of MCP and their test tools.
///
/// # Panics
/// As [`install`].
#[must_use]
pub fn mcp_clients() -> Installed {
    let packages = [
        "@modelcontextprotocol/sdk@1.32.2",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/inspector@2.12.0",
        "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    ];
    install("mcp", &packages)
}

/// Installs the official SDK of the Agent Client Protocol, and `acpx`.
///
/// # Panics
/// As [`install`].
#[must_use]
pub fn acp_clients() -> Installed {
    install("acp", &["acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0"])
}

/// Installs Node.js and missing `packages` (`name@version`) into `target/node/NAME`, without their scripts. A lock
/// serializes parallel test binaries.
///
/// # Panics
/// npm or its registry is missing.
pub fn install(name: &str, packages: &[&str]) -> Installed {
    install_with(name, packages, r#"{"private":true}"#)
}

/// Installs like [`install`], with this `package.json` to begin with: it may override what packages depend on.
///
/// # Panics
/// npm or its registry is missing.
pub fn install_with(name: &str, packages: &[&str], project: &str) -> Installed {
    try_install(name, packages, project).unwrap_or_else(|reason| panic!("{reason}"))
}

fn try_install(name: &str, packages: &[&str], project: &str) -> Result<Installed, String> {
    let all = super::target().join("node");
    let root = all.join(name);
    fs::create_dir_all(&root).expect("target/ is writable");
    let lock = File::create(all.join("lock")).expect("target/ is writable");
    lock.lock().expect("target/ is on a file system with locks");

    let mut pinned = vec![format!("{}@{NODE_VERSION}", node_package())];
    pinned.extend(packages.iter().map(|package| (*package).to_owned()));
    let complete = root.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == pinned.join("\n")) {
        return Ok(Installed { root });
    }
    fs::write(root.join("package.json"), project).expect("target/ is writable");
    let output = Command::new("npm")
        .args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .args(&pinned)
        .current_dir(&root)
        .output()
        .map_err(|error| {
            format!("npm does not start ({error}); install Node.js with npm to run this test")
        })?;
    if !output.status.success() {
        return Err(format!(
            "npm cannot install {}; this test needs the npm registry:\n{}",
            pinned.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    fs::write(&complete, pinned.join("\n")).expect("target/ is writable");
    Ok(Installed { root })
}

/// Returns the npm package with only Node.js for this machine.
fn node_package() -> String {
    let os = match env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let arch = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("node-{os}-{arch}")
}
