//! The official A2A servers, installed once under the target directory and started on loopback.

mod install;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

/// One of the official servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sdk {
    /// `a2a-sdk` 0.3 from PyPI.
    Py03,
    /// `@a2a-js/sdk` 0.3 from npm.
    Js03,
    /// `a2a-sdk` 1.3 from PyPI.
    Py13,
    /// `@a2a-js/sdk` 1.3 from npm.
    Js13,
    /// `a2a-server-lf` from crates.io.
    Rs05,
}

impl Sdk {
    /// Returns its name in tests, which is the name of its agent too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Py03 => "py03",
            Self::Js03 => "js03",
            Self::Py13 => "py13",
            Self::Js13 => "js13",
            Self::Rs05 => "rs05",
        }
    }

    /// Returns the packages, with the dependencies that affect the wire format.
    pub fn pins(self) -> &'static [&'static str] {
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
            Self::Py13 => &[
                "a2a-sdk[http-server,signing]==1.3.0",
                "cryptography==50.0.2",
                "httpx==0.28.1",
                "protobuf==7.36.2",
                "PyJWT==2.15.1",
                "sse-starlette==3.7.0",
                "starlette==1.10.0",
                "uvicorn==0.54.0",
            ],
            Self::Js03 => &["@a2a-js/sdk@0.3.14", "express@5.3.0", "uuid@11.1.1"],
            Self::Js13 => &["@a2a-js/sdk@1.3.0", "express@5.3.0"],
            // The rest is in the lock file of `tests/rs_server`.
            Self::Rs05 => &["a2a-server-lf@0.5.3"],
        }
    }

    fn requirements(self) -> &'static str {
        match self {
            Self::Py03 | Self::Py13 => {
                "put Python 3.10 or newer with its `venv` module on PATH and allow access to PyPI"
            }
            Self::Js03 | Self::Js13 => {
                "put Node.js 20 or newer with npm on PATH and allow access to the npm registry"
            }
            Self::Rs05 => "put Cargo on PATH and allow access to crates.io",
        }
    }

    /// Returns the command that starts it. `home` is its installation.
    fn command(self, home: &Path) -> Command {
        let programs = super::root("tests/peers");
        let python = |program: &str| {
            let mut command = Command::new(home.join("bin/python"));
            command.arg(programs.join(program));
            command
        };
        let node = |program: &str| {
            let mut command = Command::new(super::node::install("node", &[]).node());
            command.arg(programs.join(program)).arg(home);
            command
        };
        match self {
            Self::Py03 => python("py03_server.py"),
            Self::Py13 => python("py13_server.py"),
            Self::Js03 => node("js03_server.mjs"),
            Self::Js13 => node("js13_server.mjs"),
            Self::Rs05 => Command::new(home.join("release/rs-server")),
        }
    }
}

/// A running server. It exits when its stdin closes, so it does not outlive the test process.
#[derive(Debug)]
pub struct Server {
    /// The values of its first line: the port of each flavour, and more.
    values: HashMap<String, String>,
    child: Child,
    _stdin: ChildStdin,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Returns the origin of a flavour, without a trailing slash.
    pub fn origin(&self, flavour: &str) -> String {
        format!("http://127.0.0.1:{}", self.value(flavour))
    }

    /// Returns its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the keys of its signed card, as a JSON Web Key Set.
    pub fn keys(&self) -> &str {
        self.value("keys")
    }

    fn value(&self, name: &str) -> &str {
        let values = self.values.get(name);
        values.unwrap_or_else(|| panic!("the server has no `{name}`"))
    }
}

/// Returns the server of this test process, which the first test starts.
///
/// # Panics
/// The SDK cannot be installed on this machine.
pub fn server(sdk: Sdk) -> &'static Server {
    static SERVERS: [OnceLock<Result<Server, String>>; 5] = [const { OnceLock::new() }; 5];
    match SERVERS[sdk as usize].get_or_init(|| Ok(run(sdk, &install::installed(sdk)?))) {
        Ok(server) => server,
        Err(reason) => missing(sdk, reason),
    }
}

/// Starts another server for the caller.
///
/// # Panics
/// As [`server`].
pub fn start(sdk: Sdk) -> Server {
    run(sdk, &home(sdk))
}

/// Returns the folder of the installed SDK, for programs that use other parts of it.
///
/// # Panics
/// As [`server`].
pub fn home(sdk: Sdk) -> PathBuf {
    install::installed(sdk).unwrap_or_else(|reason| missing(sdk, &reason))
}

/// Installs packages from PyPI below `target/sdk/`, and returns their virtual environment.
///
/// # Panics
/// They cannot be installed on this machine.
pub fn python_packages(name: &str, pins: &[&str]) -> PathBuf {
    install::python_packages(name, pins).unwrap_or_else(|reason| {
        let requirements = Sdk::Py13.requirements();
        panic!(
            "{} cannot be installed: {reason}. To run this test, {requirements}.",
            pins[0]
        )
    })
}

/// Panics with the requirements of the test.
fn missing(sdk: Sdk, reason: &str) -> ! {
    panic!(
        "the official SDK {} {} cannot be installed: {reason}. To run this test, {}.",
        sdk.name(),
        sdk.pins()[0],
        sdk.requirements()
    )
}

fn run(sdk: Sdk, home: &Path) -> Server {
    let log = home.join("server.log");
    let mut child = sdk
        .command(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).expect("a log beside the packages"))
        .spawn()
        .expect("the program that installed the packages runs");
    let stdin = child.stdin.take().expect("stdin is piped");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    stdout.read_line(&mut line).expect("a line from the server");
    let Some(values) = line.trim().strip_prefix("READY ") else {
        panic!(
            "{} did not start, its first line is {line:?}; see {}",
            sdk.name(),
            log.display()
        );
    };
    let values = values.split(' ').map(|values| {
        let (name, value) = values.split_once('=').expect("a name and a value");
        (name.to_owned(), value.to_owned())
    });
    let values = values.collect();
    // Keeps reading, so that a server that prints more does not block.
    thread::spawn(move || io::copy(&mut stdout, &mut io::sink()));
    Server {
        values,
        child,
        _stdin: stdin,
    }
}
