//! `remote-agent package`: the OpenClaw package for this platform, as a plugin directory and an npm tarball.
//!
//! The command holds every file of the package but the library, so it needs no checkout. Builds are reproducible: the same
//! input gives the same bytes.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    instance,
    output::{LineWriter, note},
};

/// The name of the package.
pub const NAME: &str = "openclaw-remote-agent";

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The license in every package.
pub const LICENSE: &str = include_str!("../../../LICENSE");

const MANIFEST: &str = include_str!("../../../openclaw/package.json");

macro_rules! with_contents {
    ($($path:literal,)*) => {
        &[$(($path, include_bytes!(concat!("../../../openclaw/", $path)))),*]
    };
}

/// The files that the manifest lists, each with its content, without the license and the library.
const FILES: &[(&str, &[u8])] = with_contents![
    "README.md",
    "answer-writer.js",
    "approval.js",
    "arguments.js",
    "ask-gateway.js",
    "assets/activity.svg",
    "assets/icon.png",
    "call-commands.js",
    "command-support.js",
    "commands.js",
    "config.js",
    "configuration.js",
    "credential-options.js",
    "doctor-contract-api.js",
    "doctor.js",
    "exit-codes.json",
    "failure.js",
    "files.js",
    "find-agents.js",
    "flows.js",
    "followers.js",
    "gateway-calls.js",
    "gateway-methods.js",
    "http-api.js",
    "index.js",
    "instance.js",
    "listing.js",
    "native.js",
    "openclaw.plugin.json",
    "page.js",
    "person-host.js",
    "person.js",
    "pin.js",
    "place.js",
    "question.js",
    "repair.js",
    "report.js",
    "secrets.js",
    "security-audit.js",
    "sender.js",
    "sign-in.js",
    "skills/remote-agent-setup/SKILL.md",
    "skills/remote-agent/SKILL.md",
    "slot.js",
    "state-files.js",
    "subagent-commands.js",
    "subagent-host.js",
    "subagent.js",
    "table.js",
    "targets-commands.js",
    "tasks.js",
    "text.js",
    "tool.js",
    "usage.js",
];

/// The modification time of files in npm tarballs: 1985-10-26T08:15:00Z, in seconds. Some file systems refuse zero.
const NPM_MTIME_UNIX_SECONDS: u64 = 499_162_500;

/// A file of a package: the path in the package, separated by `/`, and the content.
pub type File = (String, Vec<u8>);

const EXAMPLES: &str = "\
Examples:
  remote-agent package
  openclaw plugins install npm-pack:$(remote-agent package | tail -n 1) \\
    --force --accept-capabilities";

/// Assemble the OpenClaw package for this platform and print the paths of its directory and its npm tarball
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Put the package below this directory
    #[arg(long, value_name = "DIR", default_value = "target/package")]
    out: PathBuf,

    /// Pack this library instead of the one that came with the command
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// The same as [`instance::find_library`], [`instance::check_library`] and [`assemble`].
pub fn command(args: &Args) -> Result<Exit, Failure> {
    let library = match &args.library {
        Some(library) => {
            if library.is_file()
                && let Some(reason) = instance::check_library(library)?
            {
                note(format_args!(
                    "warn: cannot read the build of `{}`: {reason}. It is packed unchecked",
                    library.display()
                ));
            }
            library.clone()
        }
        None => instance::find_library()?,
    };
    let packaged = assemble(&library, &args.out)?;
    LineWriter::default().write(format!(
        "{}\n{}",
        packaged.directory.display(),
        packaged.tarball.display()
    ));
    Ok(Exit::Ok)
}

/// The paths of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packaged {
    /// The plugin directory, for `openclaw plugins install DIR`.
    pub directory: PathBuf,
    /// The npm tarball, for `openclaw plugins install npm-pack:FILE`.
    pub tarball: PathBuf,
}

/// Assembles the plugin directory `OUT/openclaw-remote-agent` and the tarball `OUT/openclaw-remote-agent-VERSION.tgz` with
/// the built `library`. Replaces the directory of an earlier run.
///
/// # Errors
/// The library is missing, a file is not writable, or `out` has a directory of that name that is not a plugin.
pub fn assemble(library: &Path, out: &Path) -> Result<Packaged, Failure> {
    let out = std::path::absolute(out).map_err(failed("write", out))?;
    let platform = Platform::current();
    let mut manifest = manifest()?;
    platform.restrict(&mut manifest);
    let packed = format!("native/{}", platform.library_name());
    let files = files(&manifest, [(packed, read(library)?)]);
    let directory = out.join(NAME);
    let tarball = out.join(format!("{NAME}-{VERSION}.tgz"));
    write_directory(&directory, &files)?;
    write_tarball(&tarball, &files)?;
    Ok(Packaged { directory, tarball })
}

/// Returns the manifest of the npm package.
///
/// # Errors
/// It is not JSON.
pub fn manifest() -> Result<Value, Failure> {
    serde_json::from_str(MANIFEST)
        .map_err(|error| Failure::new(format!("cannot read the manifest of the package: {error}")))
}

/// Returns the files of the npm package with this manifest and these libraries, sorted by path.
#[must_use]
pub fn files(manifest: &Value, libraries: impl IntoIterator<Item = File>) -> Vec<File> {
    let mut files: Vec<File> = FILES
        .iter()
        .map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()))
        .collect();
    files.push(("LICENSE".to_owned(), LICENSE.into()));
    files.push(("package.json".to_owned(), json_bytes(manifest)));
    files.extend(libraries);
    files.sort();
    files
}

/// Returns the content of a file with the JSON, indented.
#[must_use]
pub fn json_bytes(json: &Value) -> Vec<u8> {
    format!("{json:#}\n").into_bytes()
}

/// A platform, in npm's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// The value of `process.platform`.
    pub os: &'static str,
    /// The value of `process.arch`.
    pub cpu: &'static str,
    /// The C library or toolchain, where there is more than one.
    pub abi: Option<&'static str>,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.os, self.cpu)?;
        self.abi.map_or(Ok(()), |abi| write!(f, "-{abi}"))
    }
}

impl Platform {
    /// Returns the platform of this build.
    #[must_use]
    pub fn current() -> Self {
        let os = match std::env::consts::OS {
            "macos" => "darwin",
            "windows" => "win32",
            other => other,
        };
        let cpu = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        };
        let abi = match os {
            "win32" => Some("msvc"),
            "linux" if cfg!(target_env = "musl") => Some("musl"),
            "linux" => Some("gnu"),
            _ => None,
        };
        Self { os, cpu, abi }
    }

    /// Sets the manifest fields that restrict a package to this platform.
    pub fn restrict(self, manifest: &mut Value) {
        manifest["os"] = json!([self.os]);
        manifest["cpu"] = json!([self.cpu]);
        match self.abi {
            Some("gnu") => manifest["libc"] = json!(["glibc"]),
            Some("musl") => manifest["libc"] = json!(["musl"]),
            _ => {}
        }
    }

    /// Returns the library's file name, which `native.js` expects.
    #[must_use]
    pub fn library_name(self) -> String {
        format!("remote_agent.{self}.node")
    }
}

fn write_directory(directory: &Path, files: &[File]) -> Result<(), Failure> {
    if directory.exists() {
        if !directory.join("openclaw.plugin.json").is_file() {
            return Err(Failure::new(format!(
                "`{}` exists and is not an OpenClaw plugin: remove it or choose another directory with `--out`",
                directory.display()
            )));
        }
        fs::remove_dir_all(directory).map_err(failed("replace", directory))?;
    }
    files
        .iter()
        .try_for_each(|(name, bytes)| write(&directory.join(name), bytes))
}

/// Writes the files as an npm tarball.
///
/// # Errors
/// The tarball is not writable.
pub fn write_tarball(path: &Path, files: &[File]) -> Result<(), Failure> {
    write(path, &pack(files).map_err(failed("write", path))?)
}

/// Packs the files below `package/` like npm. Uses fast compression, because an installation waits for it.
fn pack(files: &[File]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(if name.starts_with("bin/") {
            0o755
        } else {
            0o644
        });
        header.set_mtime(NPM_MTIME_UNIX_SECONDS);
        archive.append_data(&mut header, format!("package/{name}"), bytes.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Reads a file.
///
/// # Errors
/// The file is not readable; the message names it.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(failed("read", path))
}

/// Writes a file, and creates its directory.
///
/// # Errors
/// The file is not writable; the message names it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, bytes))
        .map_err(failed("write", path))
}

/// Returns the conversion of an I/O error at `path` into a failure to `action` it.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(format!("cannot {action} `{}`: {error}", path.display()))
}
