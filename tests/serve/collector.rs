//! A real collector of OpenTelemetry receives the spans of the server: Rotel, from PyPI.

use std::fs;
use std::io::BufReader;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::support::host::follow;
use testkit::support::journal::Journal;
use testkit::support::serve::Server;
use testkit::support::{free_port, sdk};

use crate::serve::http_client::{exchange, message_params};
use crate::support::otlp::{PARENT_ID, TRACE_ID, TRACEPARENT};

const PACKAGES: [&str; 1] = ["rotel==0.0.1a15"];

/// How long the collector may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A collector that prints what it receives. Dropping it stops it.
struct Collector {
    process: Child,
    output: Journal<String>,
    url: String,
}

impl Collector {
    fn start() -> Self {
        let [http, grpc] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let mut process = Command::new(executable())
            .args(["start", "--exporter", "blackhole"])
            .args(["--debug-log", "traces", "--debug-log-verbosity", "detailed"])
            .args(["--otlp-http-endpoint", &http])
            .args(["--otlp-grpc-endpoint", &grpc])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Journal::new();
        follow(BufReader::new(process.stdout.take().unwrap()), &output);
        let deadline = Instant::now() + START_TIMEOUT;
        // It prints its line before it listens.
        while TcpStream::connect(&http).is_err() {
            assert!(Instant::now() < deadline, "{:?}", output.all(|_| true));
            thread::sleep(Duration::from_millis(20));
        }
        Self {
            process,
            output,
            url: format!("http://{http}"),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the program in the package, which is not marked as one.
fn executable() -> PathBuf {
    let home = sdk::python_packages("rotel", &PACKAGES);
    let mut versions = fs::read_dir(home.join("lib")).unwrap();
    let version = versions.next().expect("a version of Python").unwrap();
    let program = version.path().join("site-packages/rotel/rotel-agent");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn real_collector_receives_the_span_of_a_request() {
    let collector = Collector::start();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flags = ["--port", "0", "--executor", "scripted"];
    let flags = [&flags[..], &["--task-store", "memory"]].concat();
    let server = Server::start(&flags, &variables);
    let params = message_params("echo hello", false);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let headers = [
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        &format!("traceparent: {TRACEPARENT}"),
    ];
    let answer = exchange(&server, "POST /a2a", &headers, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    for (name, value) in [
        ("service.name", "Str(remote-agent-serve)"),
        ("Trace ID", TRACE_ID),
        ("Parent ID", PARENT_ID),
        ("Name", "SendMessage"),
        ("Kind", "SPAN_KIND_SERVER"),
        ("a2a.task.state", "Str(completed)"),
    ] {
        let has_value = |line: &String| {
            let member = line.split_once(':');
            member.is_some_and(|(member, text)| member.contains(name) && text.trim() == value)
        };
        collector.output.wait(name, has_value);
    }
}
