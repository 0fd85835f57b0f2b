//! Builds the OpenClaw package: a plugin directory, and an npm tarball with the library of this platform.
//!
//! Builds are reproducible: the same input gives the same bytes.

mod bundle;
mod files;
mod platforms;
mod sbom;

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use indicatif::ProgressBar;
use serde_json::Value;

pub use self::{
    bundle::{Bundled, bundle},
    platforms::assemble_platforms,
};
use self::{
    files::{collect, failed, pack, read, read_json, write, write_directory},
    platforms::Platform,
};

use super::{
    exit::{Exit, Failure},
    library,
    output::{LineWriter, note},
};

const NAME: &str = "openclaw-remote-agent";

const EXAMPLES: &str = "\
Examples:
  remote-agent package
  openclaw plugins install npm-pack:$(remote-agent package | tail -n 1) \\
    --force --accept-capabilities
  remote-agent package --optimize
  remote-agent package --optimize --libc \"$(bash .ci/old-glibc)\"
  remote-agent package --bundle
  remote-agent package --platforms libraries --out release";

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

    /// Assemble the packages for MCP hosts instead: an Agent Plugins bundle, an MCPB file, an npm package, and server.json for the MCP registry
    #[arg(long, conflicts_with = "optimize")]
    bundle: bool,

    /// Build the size-optimized release library first, which takes minutes and needs cargo
    #[arg(long, conflicts_with = "library")]
    optimize: bool,

    /// Link that library with the C libraries in DIR instead of those of this machine; `.ci/old-glibc` provides glibc 2.28
    #[arg(long, value_name = "DIR", requires = "optimize")]
    libc: Option<PathBuf>,

    /// Assemble the npm packages of a release from the libraries in DIR/PLATFORM/, with checksums and a list of crates
    #[arg(long, value_name = "DIR", conflicts_with_all = ["library", "optimize", "bundle"])]
    platforms: Option<PathBuf>,
}

/// Runs the subcommand.
///
/// # Errors
/// The same as [`library::find`], [`build_library`], [`assemble`] and [`assemble_platforms`]. Also fails if standard output
/// is closed.
pub fn command(args: &Args) -> Result<Exit, Failure> {
    if let Some(libraries) = &args.platforms {
        let written = assemble_platforms(source_root(), libraries, &args.out)
            .map_err(|error| Failure::new(error.to_string()))?;
        let output = LineWriter::default();
        for path in written {
            output.write(path.display().to_string());
        }
        return Ok(Exit::Ok);
    }
    let library = match &args.library {
        Some(library) => {
            if library.is_file()
                && let Some(reason) = library::check(library)?
            {
                note(format_args!(
                    "warn: cannot read the build of `{}`: {reason}. It is packed unchecked",
                    library.display()
                ));
            }
            library.clone()
        }
        None if args.optimize => {
            note("building the library for release; the first build takes minutes");
            build_library(source_root(), args.libc.as_deref())
                .map_err(|error| Failure::new(error.to_string()))?
        }
        None => library::find()?,
    };
    if args.bundle {
        return bundle_command(&library, &args.out);
    }
    let packaged = assemble(source_root(), &library, &args.out)
        .map_err(|error| Failure::new(error.to_string()))?;
    LineWriter::default().write(format!(
        "{}\n{}",
        packaged.directory.display(),
        packaged.tarball.display()
    ));
    Ok(Exit::Ok)
}

fn bundle_command(library: &Path, out: &Path) -> Result<Exit, Failure> {
    let command = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this command's own file: {error}")))?;
    let bundled = bundle(source_root(), &command, library, out)
        .map_err(|error| Failure::new(error.to_string()))?;
    let Bundled {
        directory,
        mcpb,
        tarball,
        server_json,
    } = bundled;
    let lines = LineWriter::default();
    for path in [directory, mcpb, tarball, server_json] {
        lines.write(path.display().to_string());
    }
    Ok(Exit::Ok)
}

/// Returns the checkout that built the command, or the current directory if that checkout no longer exists.
pub(super) fn source_root() -> &'static Path {
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if built_from.join("Cargo.toml").is_file() {
        built_from
    } else {
        Path::new(".")
    }
}

/// The paths of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packaged {
    /// The plugin directory, for `openclaw plugins install DIR`.
    pub directory: PathBuf,
    /// The npm tarball, for `openclaw plugins install npm-pack:FILE`.
    pub tarball: PathBuf,
}

/// An error that prevents the build of a package.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A file of the checkout, the library or the output directory cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// The failed action: `read` or `write`.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A manifest is invalid.
    #[error("`{}` is not a usable manifest: {reason}", path.display())]
    Manifest {
        /// The path of the manifest.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The manifests have different versions.
    #[error("`{}` has version {found}, Cargo.toml has {expected}: set both to the same version", path.display())]
    Version {
        /// The manifest that differs.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version in Cargo.toml.
        expected: String,
    },
    /// The output directory contains a directory that is not a plugin.
    #[error("`{}` exists and is not an OpenClaw plugin: remove it or choose another directory with `--out`", .0.display())]
    Occupied(PathBuf),
    /// Cargo could not build the library.
    #[error("cargo did not build the library in `{}`: {reason}", root.display())]
    Build {
        /// The source checkout.
        root: PathBuf,
        /// The exit status.
        reason: String,
    },
    /// The directory of `--libc` has no C library.
    #[error("cannot link with the C libraries in `{}`: it has no `libc.so.6`; name the directory that `bash .ci/old-glibc` prints", .0.display())]
    Libc(PathBuf),
    /// A library for a platform is missing or unusable.
    #[error("cannot package `{}`: {reason}", path.display())]
    Platform {
        /// The library or directory.
        path: PathBuf,
        /// The problem and its fix.
        reason: String,
    },
    /// Cargo could not list the crates of the library.
    #[error("cannot list the crates of `{}` with `cargo tree`: {reason}", root.display())]
    Sbom {
        /// The source checkout.
        root: PathBuf,
        /// The exit status, or the reason why cargo does not start.
        reason: String,
    },
}

/// Assembles the plugin directory `OUT/openclaw-remote-agent` and the tarball `OUT/openclaw-remote-agent-VERSION.tgz` from
/// the checkout at `source_root` and the built `library`. Replaces the directory of an earlier run.
///
/// # Errors
/// A file is missing or not writable, the manifests have different versions, or `out` has a directory of that name that is
/// not a plugin.
pub fn assemble(source_root: &Path, library: &Path, out: &Path) -> Result<Packaged, PackageError> {
    let out = std::path::absolute(out).map_err(failed("write", out))?;
    let version = checked_version(source_root)?;
    let mut manifest = read_json(&source_root.join("openclaw/package.json"))?;
    let platform = Platform::current();
    platform.restrict(&mut manifest);
    let packed = format!("native/{}", platform.library_name());
    let files = collect(source_root, &manifest, Some((packed, read(library)?)))?;
    let directory = out.join(NAME);
    let tarball = out.join(format!("{NAME}-{version}.tgz"));
    write_directory(&directory, &files)?;
    write(&tarball, &pack(&files).map_err(failed("write", &tarball))?)?;
    Ok(Packaged { directory, tarball })
}

/// Returns the arguments for rustc. On this platform, Rust's bundled linker can merge identical functions, which saves 1% of
/// the library's size.
fn link_args(libc: Option<&Path>) -> Result<Vec<OsString>, PackageError> {
    let mut args = vec!["--".into()];
    if cfg!(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "x86_64"
    )) {
        args.extend(["--codegen", "link-arg=-Wl,--icf=all"].map(OsString::from));
    }
    if let Some(libc) = libc {
        // Cargo runs the linker in a directory of its own.
        let libc = std::path::absolute(libc).map_err(failed("read", libc))?;
        if !libc.join("libc.so.6").is_file() {
            return Err(PackageError::Libc(libc));
        }
        // As an argument of the linker, because rustc would put its own directory first.
        let mut search = OsString::from("link-arg=-L");
        search.push(libc);
        args.extend(["--codegen".into(), search]);
    }
    Ok(args)
}

/// Builds the release library in the checkout at `source_root`, and returns its path. Links it with the C libraries in the
/// directory `libc`, or with those of this machine. On a terminal, shows the number of built crates.
///
/// # Errors
/// Cargo is missing or fails, or `libc` has no `libc.so.6`.
pub fn build_library(source_root: &Path, libc: Option<&Path>) -> Result<PathBuf, PackageError> {
    let build_error = |reason: String| PackageError::Build {
        root: source_root.to_owned(),
        reason,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo)
        .args([
            "rustc",
            "--quiet",
            "--package",
            "openclaw-remote-agent",
            "--profile",
            "ship",
            "--lib",
            "--crate-type",
            "cdylib",
        ])
        .args(["--message-format", "json-render-diagnostics"])
        .args(link_args(libc)?)
        .current_dir(source_root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| build_error(match error.kind() {
            io::ErrorKind::NotFound => "cargo is not in PATH. Install Rust from https://rustup.rs, or leave out `--optimize` to pack the library that came with the command".to_owned(),
            _ => format!("it does not start: {error}"),
        }))?;
    let bar = ProgressBar::new_spinner();
    let (mut crates, mut library) = (0_usize, None);
    let messages = build.stdout.take().map(BufReader::new);
    let messages = messages.into_iter().flat_map(BufRead::lines);
    for line in messages.map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message["reason"] == "compiler-artifact" {
            crates += 1;
            bar.set_message(format!("{crates} crates built"));
        }
        // Only cargo knows its target directory.
        if message["target"]["name"] == "openclaw_remote_agent" {
            library = message["filenames"][0]
                .as_str()
                .map(PathBuf::from)
                .or(library);
        }
    }
    let status = build
        .wait()
        .map_err(|error| build_error(error.to_string()))?;
    bar.finish_and_clear();
    if !status.success() {
        return Err(build_error(status.to_string()));
    }
    library.ok_or_else(|| build_error("it names no library among its results".to_owned()))
}

/// Returns the library's file name in the package, which `native.js` expects.
#[must_use]
pub fn library_name() -> String {
    Platform::current().library_name()
}

/// Checks that Cargo.toml and the manifests of npm, OpenClaw and Agent Plugins have the same version, and returns it.
fn checked_version(source_root: &Path) -> Result<String, PackageError> {
    let cargo = source_root.join("Cargo.toml");
    let text = String::from_utf8_lossy(&read(&cargo)?).into_owned();
    let expected = cargo_version(&text).ok_or_else(|| PackageError::Manifest {
        path: cargo,
        reason: "it has no version under `[workspace.package]`".to_owned(),
    })?;
    for manifest in [
        "openclaw/package.json",
        "openclaw/openclaw.plugin.json",
        "plugin.json",
    ] {
        let path = source_root.join(manifest);
        let found = read_json(&path)?["version"]
            .as_str()
            .unwrap_or("none")
            .to_owned();
        if found != expected {
            return Err(PackageError::Version {
                path,
                found,
                expected,
            });
        }
    }
    Ok(expected)
}

fn cargo_version(manifest: &str) -> Option<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.package]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix("version")?.trim_start().strip_prefix('='))
        .map(|value| value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn c_libraries_are_linked_by_absolute_path() {
        let relative = Path::new("../../target/package-libc");
        std::fs::create_dir_all(relative).unwrap();
        std::fs::write(relative.join("libc.so.6"), "").unwrap();
        let search = link_args(Some(relative)).unwrap().pop().unwrap();
        let expected = std::env::current_dir().unwrap().join(relative);
        assert_eq!(search, *format!("link-arg=-L{}", expected.display()));
    }

    #[test]
    fn directory_without_a_c_library_is_refused() {
        let error = link_args(Some(Path::new("src"))).unwrap_err();
        assert!(error.to_string().contains("has no `libc.so.6`"), "{error}");
    }
}
