//! Spans of the running server.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::support::words;
use crate::serve::http_client::{call, exchange, message_params};
use crate::support::otlp::{OtlpReceiver, TRACEPARENT};
use testkit::authority::Authority;
use testkit::support::serve::Server;

/// How long a server may take to stop behind a receiver that never answers.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

fn start(variables: &[(String, String)]) -> Server {
    let flags = "--port 0 --executor scripted --task-store memory";
    Server::start(&words(flags), variables)
}

fn exporting(receiver: &OtlpReceiver, more: &[(&str, &str)]) -> Server {
    let more = more.iter();
    let more = more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    start(
        &receiver
            .variables()
            .into_iter()
            .chain(more)
            .collect::<Vec<_>>(),
    )
}

#[test]
fn request_is_a_span_of_the_clients_trace_without_contents() {
    let receiver = OtlpReceiver::start();
    let server = exporting(
        &receiver,
        &[
            ("OTEL_EXPORTER_OTLP_HEADERS", "receiver-key=k3y"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=test",
            ),
        ],
    );
    let params = message_params("echo s3cret-text", false);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let headers = [
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        &format!("traceparent: {TRACEPARENT}"),
        "X-Key: s3cret-header",
    ];
    let line = "POST /a2a?key=s3cret-query";
    let answer = exchange(&server, line, &headers, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let task = answer.json()["result"]["task"]["id"].to_string();
    let (span, batches) = receiver.span("SendMessage");
    let expected = [
        ("a2a.task.id", task.trim_matches('"')),
        ("a2a.task.state", "completed"),
        ("client.name", "loopback"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("rpc.method", "SendMessage"),
    ];
    span.check_child_of_trace("remote-agent-serve", &expected);
    assert_eq!(span.resource["deployment.environment.name"], "test");
    for batch in &batches {
        assert!(
            batch.head.starts_with("post /v1/traces http/1.1\r\n"),
            "{}",
            batch.head
        );
        assert!(
            batch.head.contains("receiver-key: k3y\r\n"),
            "{}",
            batch.head
        );
        assert!(!batch.contains("s3cret"), "{:?}", batch.spans());
    }
    let log = server.stop().log;
    let line = format!("exports spans to {}/v1/traces\n", receiver.url());
    assert!(log.contains(&line), "{log}");
    assert!(
        !log.contains("http.request.method") && !log.contains("k3y"),
        "{log}"
    );
}

#[test]
fn failed_request_is_a_failed_span_and_a_polled_path_is_none() {
    let receiver = OtlpReceiver::start();
    let server = exporting(&receiver, &[("OTEL_SERVICE_NAME", "agents")]);
    assert_eq!(exchange(&server, "GET /healthz", &[], "").status, 200);
    let missing = call(&server, "GetTask", &json!({"id": "s3cret-id"}));
    assert!(missing["error"].is_object(), "{missing}");
    let (span, batches) = receiver.span("GetTask");
    assert!(span.is_failed && span.parent_id.is_empty(), "{span:?}");
    assert_eq!(span.attributes["error.type"], "TASK_NOT_FOUND");
    assert_eq!(span.resource["service.name"], "agents");
    let all: Vec<_> = batches.iter().flat_map(|batch| batch.spans()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(!batches.iter().any(|batch| batch.contains("s3cret")));
}

#[test]
fn last_span_is_sent_when_the_server_stops() {
    let receiver = OtlpReceiver::start();
    let server = exporting(&receiver, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    call(&server, "SendMessage", &message_params("echo hello", false));
    assert_eq!(receiver.connections(), 0);
    server.stop();
    receiver.span("SendMessage");
}

#[test]
fn server_without_an_endpoint_connects_to_no_receiver() {
    let receiver = OtlpReceiver::start();
    for off in ["OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT="] {
        let (name, value) = off.split_once('=').unwrap();
        let server = exporting(&receiver, &[(name, value)]);
        call(&server, "SendMessage", &message_params("echo hello", false));
        let log = server.stop().log;
        assert!(!log.contains("spans"), "{off}: {log}");
        assert_eq!(receiver.connections(), 0, "{off}");
    }
}

#[test]
fn receiver_that_never_answers_delays_neither_answers_nor_the_end() {
    let receiver = OtlpReceiver::answering(None);
    let server = exporting(&receiver, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")]);
    call(&server, "SendMessage", &message_params("echo first", false));
    receiver.batch();
    let started_at = Instant::now();
    let answer = call(
        &server,
        "SendMessage",
        &message_params("echo second", false),
    );
    assert!(answer["result"]["task"].is_object(), "{answer}");
    assert!(server.stop().status.success());
    assert!(
        started_at.elapsed() < STOP_TIMEOUT,
        "{:?}",
        started_at.elapsed()
    );
}

#[test]
fn failures_of_a_receiver_are_one_line_of_the_log() {
    for (head, cause) in [
        ("garbage\r\n", ""),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n", "401"),
    ] {
        let receiver = OtlpReceiver::answering(Some(head));
        let server = exporting(&receiver, &[]);
        for _ in 0..3 {
            call(&server, "SendMessage", &message_params("echo hello", false));
            receiver.span("SendMessage");
        }
        let log = server.stop().log;
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains("cannot export"))
            .collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(
            lines[0].contains("WARN") && lines[0].contains(cause),
            "{lines:?}"
        );
    }
}

#[test]
fn values_that_the_export_does_not_use_are_logged_once() {
    let receiver = OtlpReceiver::start();
    let server = exporting(
        &receiver,
        &[
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_TRACES_SAMPLER", "unknown"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ],
    );
    call(&server, "SendMessage", &message_params("echo hello", false));
    let (_, batches) = receiver.span("SendMessage");
    assert!(!batches[0].head.contains("content-encoding"));
    let log = server.stop().log;
    for part in [
        "OTEL_EXPORTER_OTLP_COMPRESSION is `zstd`",
        "OTEL_TRACES_SAMPLER is `unknown`",
        "OTEL_EXPORTER_OTLP_HEADERS has 1 entries",
    ] {
        let lines = log.lines().filter(|line| line.contains(part));
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() == 1 && lines[0].contains("WARN"), "{log}");
    }
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn requests_above_the_limit_are_no_spans() {
    let receiver = OtlpReceiver::start();
    let flags = "--port 0 --executor scripted --task-store memory --limit requestsPerSecond=1 --limit burst=3";
    let server = Server::start(&words(flags), &receiver.variables());
    let statuses: Vec<u16> = (0..20)
        .map(|_| exchange(&server, "GET /.well-known/agent-card.json", &[], "").status)
        .collect();
    let answered = statuses.iter().filter(|status| **status == 200).count();
    assert!(answered >= 1 && statuses.contains(&429), "{statuses:?}");
    server.stop();
    let mut exported = 0;
    while exported < answered {
        for span in receiver.batch().spans() {
            assert_eq!(span.attributes["http.response.status_code"], "200");
            exported += 1;
        }
    }
    assert_eq!(exported, answered);
}

/// The receiver is another server, which has no such path.
#[test]
fn certificate_of_the_receiver_is_trusted_by_a_variable() {
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let [ca, certificate, key] = ["ca.pem", "127.0.0.1.pem", "127.0.0.1.key"]
        .map(|name| authority.file(name).to_str().unwrap().to_owned());
    let receiver = Server::scripted(&[
        "--task-store",
        "memory",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ]);
    for (name, cause) in [
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "it answered 404"),
        ("UNRELATED", "certificate"),
    ] {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url());
        let variables = [endpoint, (name, &ca)];
        let server = start(&variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        call(&server, "SendMessage", &message_params("echo hello", false));
        let log = server.stop().log;
        let failure = log.lines().find(|line| line.contains("cannot export"));
        assert!(failure.is_some_and(|line| line.contains(cause)), "{log}");
    }
}

#[test]
fn invalid_endpoint_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(crate::support::command())
        .args([
            "serve",
            "--executor",
            "scripted",
            "--port",
            "0",
            "--state-dir",
        ])
        .arg(folder.path())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret-host:4318")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL"),
        "{error}"
    );
    assert!(!error.contains("s3cret"), "{error}");
}
