//! Installs the official servers below the target directory.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Sdk;
use crate::support::root;

/// Returns the folder with the packages. The first test process installs them.
pub(super) fn installed(sdk: Sdk) -> Result<PathBuf, String> {
    let pins = sdk.pins();
    match sdk {
        Sdk::Py03 | Sdk::Py13 => python_packages(sdk.name(), pins),
        Sdk::Js03 | Sdk::Js13 => install_once(sdk.name(), pins, |home| npm(pins, home)),
        Sdk::Rs05 => {
            let (home, _lock) = locked(sdk.name());
            // Cargo determines what is out of date.
            build(&home)?;
            Ok(home)
        }
    }
}

/// Returns a virtual environment with these packages.
pub(super) fn python_packages(name: &str, pins: &[&str]) -> Result<PathBuf, String> {
    install_once(name, pins, |home| pip(pins, home))
}

/// Returns the folder of packages, and a lock that one test process has.
fn locked(name: &str) -> (PathBuf, File) {
    let home = crate::support::target().join("sdk").join(name);
    fs::create_dir_all(&home).expect("a folder under the target directory");
    let lock =
        File::create(home.with_extension("lock")).expect("a lock under the target directory");
    lock.lock().expect("an exclusive lock");
    (home, lock)
}

fn install_once(
    name: &str,
    pins: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let (home, _lock) = locked(name);
    // Written last, so that it is missing after an incomplete installation and differs for other versions.
    let stamp = home.join("installed.txt");
    let pinned = pins.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed_pins| installed_pins == pinned) {
        return Ok(home);
    }
    fs::remove_dir_all(&home).expect("the folder can be emptied");
    fs::create_dir_all(&home).expect("a folder under the target directory");
    install(&home)?;
    fs::write(stamp, pinned).expect("a stamp beside the packages");
    Ok(home)
}

fn pip(pins: &[&str], home: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv"]).arg(home))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    run(Command::new(home.join("bin/python")).args(pip).args(pins))
}

fn npm(pins: &[&str], home: &Path) -> Result<(), String> {
    fs::write(home.join("package.json"), r#"{"private":true}"#).expect("a package.json");
    let npm = [
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--save-exact",
    ];
    run(Command::new("node").arg("--version"))?;
    run(Command::new("npm").args(npm).args(pins).current_dir(home))
}

/// Builds the server's separate crate, with its own lock file, so that a build of the product does not include it.
fn build(home: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = root("tests/rs_server/Cargo.toml");
    run(Command::new(cargo)
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--manifest-path",
        ])
        .arg(manifest)
        .env("CARGO_TARGET_DIR", home))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("`{program}` is not on PATH"));
        }
        Err(error) => return Err(format!("`{program}` does not run: {error}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text);
    let reason = output_text
        .lines()
        .find(|line| line.to_lowercase().contains("error"))
        .or(output_text.lines().last());
    Err(format!(
        "`{program}` ended with {}: {}",
        output.status,
        reason.unwrap_or("it printed no error")
    ))
}
