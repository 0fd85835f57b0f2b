//! A real `redis-server` from Debian packages, unpacked below `target/` and reused, without an installation.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::free_port;

/// The Debian packages of Redis.
const PACKAGES: [&str; 2] = ["redis-server", "redis-tools"];
/// The packages of its libraries, if they are missing.
const LIBRARIES: [(&str, &str); 7] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("liblzf.so.1", "liblzf1"),
    ("libatomic.so.1", "libatomic1"),
    ("libssl.so.3", "libssl3"),
    ("libcrypto.so.3", "libssl3"),
    ("libsystemd.so.0", "libsystemd0"),
    ("liblua5.1.so.0", "liblua5.1-0"),
];
/// The timeout of its start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A server on loopback with its own port and folder. Dropping it kills it.
pub struct RedisServer {
    program: Program,
    process: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

/// An unpacked `redis-server`.
#[derive(Clone)]
struct Program {
    executable: PathBuf,
    libraries: PathBuf,
}

impl RedisServer {
    /// Starts a server without persistence.
    ///
    /// # Panics
    /// The program is missing and cannot be downloaded.
    pub fn start() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server with these arguments in the empty [`folder`](Self::folder).
    pub fn start_with(arguments: &[&str]) -> Self {
        let program = unpacked().unwrap_or_else(|reason| panic!("{reason}"));
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut server = Self {
            program,
            process: None,
            port: 0,
            folder,
            arguments: arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
        };
        server.port = free_port();
        if server.run() {
            return server;
        }
        panic!("redis-server does not start: {}", server.log());
    }

    /// Returns its address, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its working directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Restarts it at the same port and in the same folder, after [`kill`](Self::kill).
    pub fn restart(&mut self) {
        assert!(
            self.run(),
            "redis-server does not start again: {}",
            self.log()
        );
    }

    /// Returns whether it started.
    fn run(&mut self) -> bool {
        let log = File::create(self.folder.path().join("log")).expect("the folder is writable");
        let mut process = Command::new(&self.program.executable)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.arguments)
            .env("LD_LIBRARY_PATH", &self.program.libraries)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .expect("an unpacked program starts");
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            if process.try_wait().expect("it is our child").is_some() {
                return false;
            }
            if self.log().contains("eady to accept connections")
                && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
            {
                self.process = Some(process);
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = process.kill();
        let _ = process.wait();
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the program, which it fetches if necessary. A lock serializes parallel test binaries.
fn unpacked() -> Result<Program, String> {
    let folder = super::target().join("redis");
    fs::create_dir_all(&folder).expect("target/ is writable");
    let lock = File::create(folder.join("lock")).expect("target/ is writable");
    lock.lock().expect("target/ is on a file system with locks");

    let root = folder.join("root");
    let program = Program {
        executable: root.join("usr/bin/redis-server"),
        libraries: libraries(&root),
    };
    let complete = folder.join("complete");
    if !complete.exists() {
        fetch(&folder, &root, &PACKAGES)?;
        let missing = missing(&program)?;
        let packages: Vec<&str> = LIBRARIES
            .iter()
            .filter(|(library, _)| missing.iter().any(|name| name == library))
            .map(|(_, package)| *package)
            .collect();
        if !packages.is_empty() {
            fetch(&folder, &root, &packages)?;
        }
        let still = self::missing(&program)?;
        if !still.is_empty() {
            return Err(format!(
                "redis-server lacks {}; install the Debian packages that have them",
                still.join(", ")
            ));
        }
        fs::write(&complete, "").expect("target/ is writable");
    }
    Ok(program)
}

fn libraries(root: &Path) -> PathBuf {
    root.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH))
}

/// Downloads packages and unpacks them into `root`.
fn fetch(folder: &Path, root: &Path, packages: &[&str]) -> Result<(), String> {
    let how = "this test needs `redis-server` of Debian's packages; run it on a Debian or Ubuntu where `apt-get download \
               redis-server` works";
    let download = || {
        Command::new("apt-get")
            .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
            .args(packages)
            .current_dir(folder)
            .output()
            .map_err(|error| format!("apt-get does not start ({error}); {how}"))
    };
    let mut output = download()?;
    if !output.status.success() {
        // The package lists may be missing. Without permission to fetch them, the second attempt reports the error.
        let _ = Command::new("apt-get").args(["-q", "update"]).output();
        output = download()?;
    }
    if !output.status.success() {
        return Err(format!(
            "apt-get cannot download {} ({}); {how}",
            packages.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    for entry in fs::read_dir(folder).expect("target/ is readable") {
        let path = entry.expect("target/ is readable").path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let done = Command::new("dpkg").arg("-x").arg(&path).arg(root).status();
            if !done.is_ok_and(|status| status.success()) {
                return Err(format!("dpkg cannot unpack {}; {how}", path.display()));
            }
            fs::remove_file(&path).expect("target/ is writable");
        }
    }
    Ok(())
}

/// Returns the missing libraries of the program.
fn missing(program: &Program) -> Result<Vec<String>, String> {
    let output = Command::new("ldd")
        .arg(&program.executable)
        .env("LD_LIBRARY_PATH", &program.libraries)
        .output()
        .map_err(|error| format!("ldd does not start ({error})"))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains("not found"))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect())
}
