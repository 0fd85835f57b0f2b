//! Builds the library and the command with cargo.

use std::{
    env::consts::DLL_SUFFIX,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use remote_agent_cli::{exit::Failure, package::failed};
use serde_json::Value;

/// Builds the library that ships in the checkout at `root`, and returns its path. Links it with the C libraries in the
/// directory `libc`, or with those of this machine.
///
/// # Errors
/// Cargo fails, or `libc` has no `libc.so.6`.
pub fn ship(root: &Path, libc: Option<&Path>) -> Result<PathBuf, Failure> {
    let mut arguments: Vec<OsString> = ["rustc", "--package", "openclaw-remote-agent", "--profile"]
        .map(OsString::from)
        .into();
    arguments.extend(["ship", "--lib", "--crate-type", "cdylib"].map(OsString::from));
    build(root, &arguments, &link_args(libc)?)?.library(root)
}

/// Builds the command and its library in the checkout at `root` for release, and returns their paths.
///
/// # Errors
/// Cargo fails.
pub fn command(root: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let arguments = [
        "build",
        "--release",
        "--package",
        "openclaw-remote-agent",
        "--package",
        "openclaw-remote-agent-cli",
        "--lib",
        "--bin",
        "remote-agent",
    ];
    let built = build(root, &arguments.map(OsString::from), &[])?;
    let command = built.command.clone();
    let command = command.ok_or_else(|| failure(root, "it names no command among its results"))?;
    Ok((command, built.library(root)?))
}

/// What cargo says it has built. Only cargo knows its target directory.
#[derive(Default)]
struct Built {
    command: Option<PathBuf>,
    library: Option<PathBuf>,
}

impl Built {
    fn library(self, root: &Path) -> Result<PathBuf, Failure> {
        self.library
            .ok_or_else(|| failure(root, "it names no library among its results"))
    }

    fn add(&mut self, artifact: &Value) {
        if artifact["target"]["name"] == "remote-agent" {
            self.command = artifact["executable"].as_str().map(PathBuf::from);
        }
        if artifact["target"]["name"] == "openclaw_remote_agent" {
            let mut files = artifact["filenames"].as_array().into_iter().flatten();
            self.library = files
                .find_map(|file| file.as_str().filter(|file| file.ends_with(DLL_SUFFIX)))
                .map(PathBuf::from);
        }
    }
}

fn failure(root: &Path, reason: &str) -> Failure {
    Failure::new(format!(
        "cargo did not build what was asked in `{}`: {reason}",
        root.display()
    ))
}

fn build(root: &Path, arguments: &[OsString], link: &[OsString]) -> Result<Built, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo)
        .args(arguments)
        .args(["--message-format", "json-render-diagnostics"])
        .args(link)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failure(root, &format!("it does not start: {error}")))?;
    let mut built = Built::default();
    let messages = cargo.stdout.take().map(BufReader::new);
    let messages = messages.into_iter().flat_map(BufReader::lines);
    for line in messages.map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message["reason"] == "compiler-artifact" {
            built.add(&message);
        }
    }
    let status = cargo
        .wait()
        .map_err(|error| failure(root, &error.to_string()))?;
    match status.success() {
        true => Ok(built),
        false => Err(failure(root, &status.to_string())),
    }
}

/// Returns the arguments for rustc. On this platform, Rust's bundled linker can merge identical functions, which saves 1% of
/// the library's size.
fn link_args(libc: Option<&Path>) -> Result<Vec<OsString>, Failure> {
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
            return Err(Failure::new(format!(
                "cannot link with the C libraries in `{}`: it has no `libc.so.6`; name the directory that `bash .ci/old-glibc` prints",
                libc.display()
            )));
        }
        // As an argument of the linker, because rustc would put its own directory first.
        let mut search = OsString::from("link-arg=-L");
        search.push(libc);
        args.extend(["--codegen".into(), search]);
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn c_libraries_are_linked_by_absolute_path() {
        let relative = Path::new("../target/package-libc");
        std::fs::create_dir_all(relative).unwrap();
        std::fs::write(relative.join("libc.so.6"), "").unwrap();
        let search = link_args(Some(relative)).unwrap().pop().unwrap();
        let expected = std::env::current_dir().unwrap().join(relative);
        assert_eq!(search, *format!("link-arg=-L{}", expected.display()));
    }

    #[test]
    fn directory_without_a_c_library_is_refused() {
        let error = link_args(Some(Path::new("src"))).unwrap_err();
        assert!(error.message.contains("has no `libc.so.6`"), "{error:?}");
    }
}
