//! The units and container files of `deploy/`: systemd accepts them, the command accepts their flags, and their services
//! become healthy and stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::contract::text;
use testkit::support::root;

const UNITS: [&str; 3] = [
    "remote-agent-gateway.service",
    "remote-agent-serve.service",
    USER_UNIT,
];
/// A unit of a user, who has no state directory of systemd: the commands find the default one.
const USER_UNIT: &str = "user/remote-agent-serve.service";
const BINARY: &str = env!("CARGO_BIN_EXE_remote-agent");
const LIMIT: Duration = Duration::from_secs(30);

fn unit(name: &str) -> String {
    text(&format!("deploy/systemd/{name}"))
}

/// Returns the value of a directive.
fn value<'a>(unit: &'a str, directive: &str) -> &'a str {
    let mut lines = unit.lines();
    let value = lines.find_map(|line| line.strip_prefix(directive)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {directive} in {unit}"))
}

/// Returns the arguments of the command line of a unit.
fn unit_arguments(name: &str) -> Vec<String> {
    let unit = unit(name);
    let mut arguments = value(&unit, "ExecStart").split(' ');
    let program = match name == USER_UNIT {
        true => "%h/.local/bin/remote-agent",
        false => "/usr/local/bin/remote-agent",
    };
    assert_eq!(arguments.next(), Some(program));
    arguments.map(str::to_owned).collect()
}

/// Returns the arguments in the lists `command:` and `CMD` of the container files.
fn container_arguments() -> Vec<Vec<String>> {
    let compose = text("deploy/container/compose.yaml");
    let file = text("deploy/container/Containerfile");
    let lists = compose
        .lines()
        .filter_map(|line| line.trim().strip_prefix("command: "))
        .chain(file.lines().filter_map(|line| line.strip_prefix("CMD ")));
    lists
        .map(|list| serde_json::from_str(list).unwrap())
        .collect()
}

fn accepts(arguments: &[String]) -> bool {
    let mut command = Command::new(BINARY);
    let ended = command.args(arguments).arg("--help").output().unwrap();
    ended.status.success()
}

#[test]
fn command_accepts_every_flag() {
    let units = UNITS.map(unit_arguments);
    let containers = container_arguments();
    assert_eq!(containers.len(), 3);
    for arguments in units.iter().chain(&containers) {
        assert!(accepts(arguments), "{arguments:?}");
        let invalid = [arguments.as_slice(), &["--no-such-flag".to_owned()]].concat();
        assert!(!accepts(&invalid), "{invalid:?}");
    }
}

#[test]
fn systemd_accepts_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: this machine has no `systemd-analyze` to verify the units with");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in UNITS {
        // The programs must exist where the unit is verified.
        let text = unit(name)
            .replace("/usr/local/bin/remote-agent", BINARY)
            .replace("%h/.local/bin/remote-agent", BINARY)
            .replace("/usr/bin/curl", BINARY);
        let manager = match name == USER_UNIT {
            true => "--user",
            false => "--system",
        };
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let checked = Command::new("systemd-analyze")
            .args([manager, "verify", "--man=no"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .arg(&file)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && stderr.is_empty(), "{stderr}");
    }
}

#[test]
fn units_name_only_known_sections_and_one_state_directory() {
    for name in UNITS {
        let unit = unit(name);
        let sections: Vec<_> = unit.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(sections, ["[Unit]", "[Service]", "[Install]"], "{name}");
        if name != USER_UNIT {
            let directory = format!("%S/{}", value(&unit, "StateDirectory"));
            assert!(value(&unit, "ExecStart").contains(&directory), "{name}");
        }
    }
}

#[test]
fn container_file_copies_the_sources_it_builds() {
    let file = text("deploy/container/Containerfile");
    let known = [
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "USER",
        "VOLUME",
        "ENV",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    ];
    let instructions = file
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with([' ', '#']));
    for line in instructions {
        let word = line.split(' ').next().unwrap();
        assert!(known.contains(&word), "{line}");
    }
    let manifest = text("crates/cli/Cargo.toml");
    for (flag, line) in [("--package ", "name = "), ("--bin ", "name = ")] {
        let named = file.split(flag).nth(1).unwrap();
        let named = named.split_whitespace().next().unwrap();
        assert!(manifest.contains(&format!("{line}\"{named}\"")), "{named}");
    }
    assert!(file.contains("COPY --from=build /build/target/release/remote-agent "));
    // The command searches its library in `../lib`. Backends of agents need it.
    let library = "/build/target/release/deps/libopenclaw_remote_agent.so /usr/local/lib/";
    assert!(file.contains(&format!("COPY --from=build {library}")));
}

/// A process that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // A stopped process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command line of a unit in `state`, with the ports replaced, and reads the port where it listens.
fn start(name: &str, state: &Path, ports: &[(&str, u16)]) -> (Started, u16) {
    let arguments = unit_arguments(name).into_iter().map(|argument| {
        let argument = argument.replace("%S", state.to_str().unwrap());
        ports.iter().fold(argument, |argument, (port, other)| {
            argument.replace(port, &other.to_string())
        })
    });
    let child = Command::new(BINARY)
        .args(arguments)
        .env_remove("OPENCLAW_GATEWAY_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut started = Started(child.unwrap());
    let mut line = String::new();
    // The pipe stays open: the command writes more than its first line.
    let output = started.0.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    });
    let port = port.unwrap_or_else(|| panic!("{name} names no port: {line}"));
    (started, port)
}

/// Requests the path until the answer is 200, and returns its body.
fn healthy(port: u16, path: &str) -> String {
    let until = Instant::now() + LIMIT;
    loop {
        let answer = request(port, path).unwrap_or_default();
        if let Some(("HTTP/1.1 200 OK", rest)) = answer.split_once("\r\n") {
            return rest.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
        }
        assert!(Instant::now() < until, "{path} of {port}: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn request(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(unix)]
#[test]
fn unit_commands_become_healthy_and_stop() {
    let state = tempfile::tempdir().unwrap();
    let (gateway, gateway_port) = start(UNITS[0], state.path(), &[("18789", 0)]);
    assert_eq!(healthy(gateway_port, "/healthz"), r#"{"status":"ok"}"#);
    let ports = [("18789", gateway_port), ("9000", 0)];
    let (serve, serve_port) = start(UNITS[1], state.path(), &ports);
    for port in [gateway_port, serve_port] {
        healthy(port, "/healthz");
        healthy(port, "/readyz");
    }
    stop(serve);
    stop(gateway);
}

#[cfg(unix)]
#[test]
fn signal_after_the_first_line_is_a_clean_stop() {
    let state = tempfile::tempdir().unwrap();
    let ports = [("18789", 0), ("9000", 0)];
    for unit in UNITS {
        stop(start(unit, state.path(), &ports).0);
    }
}

/// Sends SIGTERM, and checks that the process ends as a service that stopped.
#[cfg(unix)]
fn stop(mut started: Started) {
    let id = started.0.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success());
    let status = started.0.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn health_paths_of_the_files_are_those_of_the_servers() {
    let mut all = text("deploy/container/compose.yaml");
    all.extend(UNITS.map(unit));
    let paths: Vec<_> = all
        .split("http://127.0.0.1:")
        .skip(1)
        .map(|rest| rest.split(['"', '\n']).next().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "18789/healthz",
            "9000/readyz",
            "18789/healthz",
            "9000/healthz",
            "9000/healthz"
        ]
    );
}

#[test]
fn help_names_the_files() {
    for command in ["gateway", "serve"] {
        let help = Command::new(BINARY)
            .args([command, "--help"])
            .output()
            .unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("deploy/"), "{command}");
    }
    assert!(root("deploy/systemd").is_dir() && root("deploy/container").is_dir());
}
