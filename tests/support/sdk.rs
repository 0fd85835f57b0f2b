//! The official A2A 0.3 servers, installed once under the target directory and started on loopback.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// One of the official servers of A2A 0.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    /// `a2a-sdk` from PyPI.
    Py03,
    /// `@a2a-js/sdk` from npm.
    Js03,
}

impl Sdk {
    fn name(self) -> &'static str {
        match self {
            Self::Py03 => "py03",
            Self::Js03 => "js03",
        }
    }

    /// The packages, with the companions that decide how the server behaves on the wire.
    fn pins(self) -> &'static [&'static str] {
        match self {
            Self::Py03 => &[
                "a2a-sdk[http-server]==0.3.26",
                "fastapi==0.165.0",
                "httpx==0.28.1",
                "protobuf==7.36.2",
                "pydantic==2.14.3",
                "sse-starlette==3.7.0",
                "starlette==1.10.0",
                "uvicorn==0.54.0",
            ],
            Self::Js03 => &["@a2a-js/sdk@0.3.14", "express@5.3.0", "uuid@11.1.1"],
        }
    }

    fn how_to_get(self) -> &'static str {
        match self {
            Self::Py03 => {
                "put Python 3.10 or newer with its `venv` module on PATH and allow access to PyPI"
            }
            Self::Js03 => {
                "put Node.js 20 or newer with npm on PATH and allow access to the npm registry"
            }
        }
    }
}

/// A running server. It lives as long as the test process: it exits when its stdin closes.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it listens, without a trailing slash.
    pub(crate) origin: String,
    _child: Child,
    _stdin: ChildStdin,
}

/// The server of this test process, started by the first test that asks for it.
///
/// `None` means that it cannot be had on this machine: the test is to be skipped. With `CI=true` that is a failure.
pub(crate) fn server(sdk: Sdk) -> Option<&'static Server> {
    static PY03: OnceLock<Result<Server, String>> = OnceLock::new();
    static JS03: OnceLock<Result<Server, String>> = OnceLock::new();
    let server = match sdk {
        Sdk::Py03 => &PY03,
        Sdk::Js03 => &JS03,
    };
    match server.get_or_init(|| Ok(start(sdk, &installed(sdk)?))) {
        Ok(server) => Some(server),
        Err(why) => {
            let sentence = format!(
                "the official server {} {} cannot be installed: {why}. To run this test, {}.",
                sdk.name(),
                sdk.pins()[0],
                sdk.how_to_get()
            );
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}");
            eprintln!("skipped: {sentence}");
            None
        }
    }
}

fn start(sdk: Sdk, home: &Path) -> Server {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let mut command = match sdk {
        Sdk::Py03 => Command::new(home.join("bin/python")),
        Sdk::Js03 => Command::new("node"),
    };
    match sdk {
        Sdk::Py03 => command.arg(programs.join("py03_server.py")),
        Sdk::Js03 => command.arg(programs.join("js03_server.mjs")).arg(home),
    };
    let log = home.join("server.log");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log beside the packages"))
        .spawn()
        .expect("the program that installed the packages runs");
    let stdin = child.stdin.take().expect("stdin is piped");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout is piped"))
        .read_line(&mut line)
        .expect("a line from the server");
    let Some(port) = line.trim().strip_prefix("READY ") else {
        panic!(
            "{} did not start, it said {line:?}; see {}",
            sdk.name(),
            log.display()
        );
    };
    let origin = format!("http://127.0.0.1:{port}");
    Server {
        origin,
        _child: child,
        _stdin: stdin,
    }
}

/// The folder with the packages, installed by whichever test process comes first.
fn installed(sdk: Sdk) -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a target directory");
    let home = target.join("sdk").join(sdk.name());
    fs::create_dir_all(&home).expect("a folder under the target directory");
    let lock =
        File::create(home.with_extension("lock")).expect("a lock under the target directory");
    lock.lock().expect("an exclusive lock");

    // Written last: without it an install was cut short, or other versions are wanted now.
    let stamp = home.join("installed.txt");
    let wanted = sdk.pins().join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(home);
    }
    fs::remove_dir_all(&home).expect("the folder can be emptied");
    fs::create_dir_all(&home).expect("a folder under the target directory");
    match sdk {
        Sdk::Py03 => {
            run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
            let pip = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ];
            run(Command::new(home.join("bin/python"))
                .args(pip)
                .args(sdk.pins()))?;
        }
        Sdk::Js03 => {
            fs::write(home.join("package.json"), r#"{"private":true}"#).expect("a package.json");
            let npm = [
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--save-exact",
            ];
            run(Command::new("node").arg("--version"))?;
            run(Command::new("npm")
                .args(npm)
                .args(sdk.pins())
                .current_dir(&home))?;
        }
    }
    fs::write(stamp, wanted).expect("a stamp beside the packages");
    Ok(home)
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
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let why = said
        .lines()
        .find(|line| line.to_lowercase().contains("error"))
        .or(said.lines().last());
    Err(format!(
        "`{program}` ended with {}: {}",
        output.status,
        why.unwrap_or("it said nothing")
    ))
}
