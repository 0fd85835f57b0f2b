//! The packages for MCP hosts: an Agent Plugins bundle, an MCPB file, an npm package and the entry for the MCP registry.

use std::{
    fmt::Display,
    io::{Cursor, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use remote_agent_cli::{
    exit::Failure,
    package::{File, LICENSE, Platform, VERSION, failed, json_bytes, read, write, write_tarball},
};

use crate::{release, sha256_hex};

/// The name of the npm package. It differs from that of the plugin, because OpenClaw refuses plugins that start processes.
const NPM_NAME: &str = "openclaw-remote-agent-mcp";

/// The name in the MCP registry. The npm package repeats it as proof of ownership.
const REGISTRY_NAME: &str = "io.github.openclaw-remote-agent/remote-agent";

const DESCRIPTION: &str =
    "One tool that delegates work to A2A agents: send, follow, answer, cancel.";

/// The launcher of the npm package. It starts the binary of the package for this platform, or else the one next to it.
const START_JS: &str = r#"#!/usr/bin/env node
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const { platform, arch } = process;
const suffix = platform === "win32" ? ".exe" : "";
function binary() {
  try {
    return createRequire(import.meta.url).resolve(`openclaw-remote-agent-mcp-${platform}-${arch}/bin/remote-agent${suffix}`);
  } catch {
    return fileURLToPath(new URL(`./remote-agent${suffix}`, import.meta.url));
  }
}

const [first, ...rest] = process.argv.slice(2);
const words = first === "mcp" ? rest : process.argv.slice(2);
const child = spawn(binary(), ["mcp", ...words], { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`cannot start remote-agent for ${platform}-${arch}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
"#;

/// The paths of the packages for MCP hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundled {
    /// The directory of the Agent Plugins bundle.
    pub directory: PathBuf,
    /// The MCPB file for desktop hosts.
    pub mcpb: PathBuf,
    /// The npm tarball.
    pub tarball: PathBuf,
    /// The entry for the MCP registry.
    pub server_json: PathBuf,
}

/// Assembles the packages below `out` from the checkout at `root`, the command and its `library`.
///
/// # Errors
/// A file is missing or not writable.
pub fn assemble(
    root: &Path,
    command: &Path,
    library: &Path,
    out: &Path,
) -> Result<Bundled, Failure> {
    let out = std::path::absolute(out).map_err(failed("write", out))?;
    let platform = Platform::current();
    let binaries = Binaries {
        command: read(command)?,
        library: read(library)?,
        library_name: library
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };

    let directory = out.join("mcp-bundle");
    for (name, bytes) in plugin_bundle(root, &binaries)? {
        write(&directory.join(&name), &bytes)?;
        if name.starts_with("bin/") {
            executable(&directory.join(&name))?;
        }
    }

    let mcpb = out.join(mcpb_name(platform));
    let zipped = mcpb_file(platform.os, &binaries).map_err(failed("write", &mcpb))?;
    write(&mcpb, &zipped)?;

    let tarball = out.join(format!("{NPM_NAME}-{VERSION}.tgz"));
    write_tarball(&tarball, &npm_package(&binaries))?;

    let server_json = out.join("server.json");
    let entry = registry_entry(&[(mcpb.clone(), zipped)]);
    write(&server_json, &json_bytes(&entry))?;
    Ok(Bundled {
        directory,
        mcpb,
        tarball,
        server_json,
    })
}

/// Assembles the packages of a release in `out` from the MCPB files in `bundles`, one for each platform, or with `partial` from those
/// that are there: for npm a package with the command per platform and the main package that depends on them, and one entry for the
/// MCP registry. Also copies the MCPB files. Returns the paths, with the main package for npm last.
///
/// # Errors
/// The directory has no MCPB file, or not one for each platform; a name is not `remote-agent-OS-CPU.mcpb` of a platform; a file is
/// not readable or writable.
pub fn release(bundles: &Path, out: &Path, partial: bool) -> Result<Vec<PathBuf>, Failure> {
    let out = std::path::absolute(out).map_err(failed("write", out))?;
    let mut paths = release::list(bundles)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "mcpb"));
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::new(format!(
            "cannot package `{}`: it has no file `remote-agent-OS-CPU.mcpb`, which `cargo xtask bundle` writes on each platform",
            bundles.display()
        )));
    }
    let named: Vec<(Platform, PathBuf)> = paths
        .into_iter()
        .map(|path| Ok((platform_of(&path)?, path)))
        .collect::<Result<_, Failure>>()?;
    if !partial {
        let found: Vec<_> = named.iter().map(|(platform, _)| *platform).collect();
        release::require_all(bundles, release::command_platforms(), &found)?;
    }
    let (mut written, mut mcpbs) = (Vec::new(), Vec::new());
    let mut main = npm_manifest(NPM_NAME);
    for (platform, path) in named {
        let zipped = read(&path)?;
        let server = files_of_server(&zipped).map_err(|error| unusable(&path, &error))?;

        let package = format!("{NPM_NAME}-{}-{}", platform.os, platform.cpu);
        main["optionalDependencies"][&package] = VERSION.into();
        let mut manifest = npm_manifest(&package);
        platform.restrict(&mut manifest);
        let mut files = vec![("package.json".to_owned(), json_bytes(&manifest))];
        files.push(("LICENSE".to_owned(), LICENSE.into()));
        files.extend(server);
        let tarball = out.join(format!("{package}-{VERSION}.tgz"));
        write_tarball(&tarball, &files)?;

        let copy = out.join(mcpb_name(platform));
        write(&copy, &zipped)?;
        written.extend([tarball, copy.clone()]);
        mcpbs.push((copy, zipped));
    }

    let server_json = out.join("server.json");
    write(&server_json, &json_bytes(&registry_entry(&mcpbs)))?;
    let tarball = out.join(format!("{NPM_NAME}-{VERSION}.tgz"));
    write_tarball(&tarball, &starter(&main))?;
    written.extend([server_json, tarball]);
    Ok(written)
}

fn mcpb_name(Platform { os, cpu, .. }: Platform) -> String {
    format!("remote-agent-{os}-{cpu}.mcpb")
}

/// Returns the platform of a release in the name of an MCPB file.
fn platform_of(path: &Path) -> Result<Platform, Failure> {
    let is_named = |platform: &Platform| {
        path.file_name()
            .is_some_and(|name| name == mcpb_name(*platform).as_str())
    };
    let found = release::command_platforms().find(is_named);
    found.ok_or_else(|| {
        let reason = "its name is not `remote-agent-OS-CPU.mcpb` of a platform of releases";
        unusable(path, &reason)
    })
}

fn unusable(path: &Path, reason: &dyn Display) -> Failure {
    Failure::new(format!("cannot package `{}`: {reason}", path.display()))
}

/// Returns the files of an MCPB file that are in `server/`, in `bin/` instead.
fn files_of_server(zipped: &[u8]) -> zip::result::ZipResult<Vec<File>> {
    let mut archive = ZipArchive::new(Cursor::new(zipped))?;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        if let Some(name) = name.strip_prefix("server/") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.push((format!("bin/{name}"), bytes));
        }
    }
    Ok(files)
}

struct Binaries {
    command: Vec<u8>,
    library: Vec<u8>,
    library_name: String,
}

impl Binaries {
    /// Returns the command and its library, placed in `folder`. The command looks for its library in its own directory.
    fn files(&self, folder: &str) -> [File; 2] {
        let command = format!("{folder}/remote-agent{}", std::env::consts::EXE_SUFFIX);
        let library = format!("{folder}/{}", self.library_name);
        [
            (command, self.command.clone()),
            (library, self.library.clone()),
        ]
    }
}

/// Returns the files of the Agent Plugins bundle. The bundle has no manifest of a native plugin, because hosts would prefer
/// that.
fn plugin_bundle(root: &Path, binaries: &Binaries) -> Result<Vec<File>, Failure> {
    let path = root.join("plugin.json");
    let mut manifest: Value = serde_json::from_slice(&read(&path)?)
        .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", path.display())))?;
    manifest["name"] = "remote-agent-mcp".into();
    if let Some(manifest) = manifest.as_object_mut() {
        const KEYS: [&str; 10] = [
            "$schema",
            "name",
            "version",
            "description",
            "author",
            "homepage",
            "repository",
            "license",
            "keywords",
            "extensions",
        ];
        manifest.retain(|key, _| KEYS.contains(&key.as_str()));
    }
    manifest["$schema"] = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json".into();
    let server = json!({
        "type": "stdio",
        "command": format!("./bin/remote-agent{}", std::env::consts::EXE_SUFFIX),
        "args": ["mcp", "--config", "${PLUGIN_DATA}/agents.json"],
    });
    let servers = json!({
        "$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json",
        "mcpServers": { "a2a": server },
    });
    let skill = read(&root.join("openclaw/skills/remote-agent/SKILL.md"))?;
    let mut files = vec![
        ("plugin.json".to_owned(), json_bytes(&manifest)),
        ("mcp.json".to_owned(), json_bytes(&servers)),
        (
            "skills/remote-agent/SKILL.md".to_owned(),
            skill_of_bundle(&String::from_utf8_lossy(&skill)).into_bytes(),
        ),
        ("LICENSE".to_owned(), LICENSE.into()),
    ];
    files.extend(binaries.files("bin"));
    Ok(files)
}

/// Converts the skill of the plugin to the skill of the bundle: without the requirement for the native plugin's settings,
/// and with the name that the tool has in MCP.
fn skill_of_bundle(skill: &str) -> String {
    let lines = skill.lines().filter(|line| !line.starts_with("metadata:"));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replacen(
        "with the remote_agent tool",
        "with the tool a2a__remote_agent",
        1,
    ) + "\n"
}

fn mcpb_file(os: &str, binaries: &Binaries) -> std::io::Result<Vec<u8>> {
    let command = format!("server/remote-agent{}", std::env::consts::EXE_SUFFIX);
    let manifest = json!({
        "manifest_version": "0.3",
        "name": "remote-agent",
        "display_name": "Remote Agent (A2A)",
        "version": VERSION,
        "description": DESCRIPTION,
        "author": { "name": "openclaw-remote-agent" },
        "license": "MIT",
        "server": {
            "type": "binary",
            "entry_point": command,
            "mcp_config": {
                "command": format!("${{__dirname}}/{command}"),
                "args": ["mcp", "--config", "${user_config.config}"],
                "env": { "REMOTE_AGENT_TOKEN": "${user_config.token}" },
            },
        },
        "tools": [{ "name": "remote_agent", "description": DESCRIPTION }],
        "tools_generated": true,
        "user_config": {
            "config": {
                "type": "file",
                "title": "Configuration",
                "description": "A JSON file with your targets",
                "required": true,
            },
            "token": {
                "type": "string",
                "title": "Token",
                "description": "The value of REMOTE_AGENT_TOKEN, for a secret of the configuration",
                "sensitive": true,
                "required": false,
            },
        },
        "compatibility": { "platforms": [os] },
    });
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    archive.start_file("manifest.json", options.unix_permissions(0o644))?;
    archive.write_all(format!("{manifest:#}\n").as_bytes())?;
    for (name, bytes) in binaries.files("server") {
        archive.start_file(name, options.unix_permissions(0o755))?;
        archive.write_all(&bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Returns the npm package that has the command, for this platform.
fn npm_package(binaries: &Binaries) -> Vec<File> {
    let mut manifest = npm_manifest(NPM_NAME);
    Platform::current().restrict(&mut manifest);
    let mut files = starter(&manifest);
    files.extend(binaries.files("bin"));
    files
}

fn npm_manifest(name: &str) -> Value {
    json!({
        "name": name,
        "version": VERSION,
        "description": DESCRIPTION,
        "license": "MIT",
        // npm compares it with the repository of the provenance.
        "repository": {
            "type": "git",
            "url": format!("git+{}.git", env!("CARGO_PKG_REPOSITORY")),
        },
    })
}

/// Returns the files of the npm package that starts the command.
fn starter(manifest: &Value) -> Vec<File> {
    let mut manifest = manifest.clone();
    manifest["mcpName"] = REGISTRY_NAME.into();
    manifest["type"] = "module".into();
    manifest["bin"] = json!({ NPM_NAME: "bin/start.js" });
    vec![
        ("package.json".to_owned(), json_bytes(&manifest)),
        ("bin/start.js".to_owned(), START_JS.into()),
        ("LICENSE".to_owned(), LICENSE.into()),
    ]
}

/// Returns the entry for the MCP registry (schema of 2025-12-11), with these MCPB files.
fn registry_entry(mcpbs: &[(PathBuf, Vec<u8>)]) -> Value {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let mut packages: Vec<Value> = mcpbs
        .iter()
        .map(|(path, zipped)| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            json!({
                "registryType": "mcpb",
                "identifier": format!("{repository}/releases/download/v{VERSION}/{file}"),
                "version": VERSION,
                "fileSha256": sha256_hex(zipped),
                "transport": { "type": "stdio" },
            })
        })
        .collect();
    packages.push(json!({
        "registryType": "npm",
        "identifier": NPM_NAME,
        "version": VERSION,
        "runtimeHint": "npx",
        "transport": { "type": "stdio" },
        "packageArguments": [{
            "type": "named",
            "name": "--config",
            "format": "filepath",
            "isRequired": true,
            "description": "A JSON file with your targets",
        }],
        "environmentVariables": [{
            "name": "REMOTE_AGENT_TOKEN",
            "isSecret": true,
            "isRequired": false,
            "description": "The value of a secret of the configuration",
        }],
    }));
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": "Remote Agent (A2A)",
        "description": DESCRIPTION,
        "version": VERSION,
        "repository": { "url": repository, "source": "github" },
        "packages": packages,
    })
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .map_err(failed("write", path))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<(), Failure> {
    Ok(())
}
