#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! The runner, with scripted drivers and with every fixture of the project.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Case, Driver, Failure, Options, Outcome, Peers, Step, find, run_case, run_suite};

/// Answers each request with the next envelope and its updates.
#[derive(Default)]
struct Replay {
    refuses: Option<Value>,
    parsed: Option<Value>,
    definition: Value,
    answers: Mutex<Vec<(Vec<Value>, Value)>>,
    seen: Mutex<Vec<Value>>,
}

impl Replay {
    fn answering(envelopes: impl IntoIterator<Item = Value>) -> Self {
        let answers = envelopes
            .into_iter()
            .map(|envelope| (Vec::new(), envelope))
            .collect();
        Self {
            answers: Mutex::new(answers),
            ..Self::default()
        }
    }

    /// Answers with the recording. Recordings lack the texts of validation errors.
    fn recorded(case: &Case) -> Self {
        let parsed = case
            .parsed_config
            .clone()
            .filter(|parsed| parsed.get("init_error").is_none());
        let worded = |reported: &Value| {
            let mut reported = reported.clone();
            if let Some(Value::Array(errors)) = reported.pointer_mut("/error/details/errors") {
                errors
                    .iter_mut()
                    .for_each(|error| error["message"] = json!("m"));
            }
            reported
        };
        let updates = |index: usize| case.updates.get(index).cloned().unwrap_or_default();
        Self {
            refuses: case.init_error.as_ref().map(|_| json!({"code": "CONFIG"})),
            parsed,
            definition: case.tool_definition.clone().unwrap_or_default(),
            answers: Mutex::new(
                case.expected
                    .iter()
                    .enumerate()
                    .map(|(index, reported)| (updates(index), worded(reported)))
                    .collect(),
            ),
            seen: Mutex::default(),
        }
    }
}

impl Driver for Replay {
    async fn init(&self, config: &Value) -> Result<(), Failure> {
        self.seen.lock().unwrap().push(config.clone());
        self.refuses
            .clone()
            .map_or(Ok(()), |error| Err(Failure::Refused(error)))
    }

    async fn parse_config(&self, _: &Value) -> Result<Value, Failure> {
        self.parsed
            .clone()
            .ok_or_else(|| Failure::Refused(json!({})))
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        Ok(self.definition.clone())
    }

    async fn execute(
        &self,
        request: &Value,
        _: &Step,
        _: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        self.seen.lock().unwrap().push(request.clone());
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() {
            return Err(Failure::Broken("no more answers".to_owned()));
        }
        let (updates, envelope) = answers.remove(0);
        updates.into_iter().for_each(on_update);
        Ok(envelope)
    }
}

fn fixtures() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures")
}

fn case(mut value: Value) -> Case {
    let fields = value.as_object_mut().unwrap();
    fields.entry("name").or_insert_with(|| json!("a"));
    fields.entry("description").or_insert_with(|| json!("b"));
    fields.entry("config").or_insert_with(|| json!({}));
    serde_json::from_value(value).unwrap()
}

async fn run(value: Value, driver: &Replay) -> Result<(), String> {
    run_case(&case(value), driver, &Options::default()).await
}

#[tokio::test]
async fn every_fixture_is_well_formed_and_its_peers_start() {
    let cases = find(&fixtures()).unwrap();
    assert!(cases.len() > 79, "{} cases", cases.len());
    for (name, path) in cases {
        let case = Case::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Peers::start(&case.mock_script)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[tokio::test]
async fn recording_agrees_with_itself() {
    let cases = find(&fixtures().join("golden")).unwrap();
    assert_eq!(cases.len(), 79);
    for (name, path) in cases {
        let case = Case::read(&path).unwrap();
        let result = run_case(&case, &Replay::recorded(&case), &Options::default()).await;
        assert_eq!(result, Ok(()), "{name}");
    }
}

#[tokio::test]
async fn recording_disagrees_with_the_opposite_verdict() {
    for (name, path) in find(&fixtures().join("golden")).unwrap() {
        let case = Case::read(&path).unwrap();
        let mut opposite = Replay::recorded(&case);
        if let Some((_, reported)) = opposite.answers.get_mut().unwrap().last_mut() {
            reported["ok"] = json!(!reported["ok"].as_bool().unwrap());
        } else if opposite.refuses.take().is_none() {
            (opposite.parsed, opposite.definition) = (None, json!({}));
        }
        let result = run_case(&case, &opposite, &Options::default()).await;
        assert!(result.is_err(), "{name}");
    }
}

#[tokio::test]
async fn overlay_applies_unless_the_case_refuses_it() {
    for (overlay, expected) in [
        (
            true,
            json!({"policy": {"a": 1, "allowPrivateTargetUrls": true}, "toolSchema": "full"}),
        ),
        (false, json!({"policy": {"a": 1}})),
    ] {
        let driver = Replay::answering([json!({"ok": true})]);
        let value = json!({"overlay": overlay, "config": {"policy": {"a": 1}}, "requests": [{}], "expect_contains": [{"/ok": true}]});
        run(value, &driver).await.unwrap();
        assert_eq!(driver.seen.lock().unwrap()[0], expected);
    }
}

#[tokio::test]
async fn requests_are_filled_in_and_use_earlier_results() {
    let driver = Replay::answering([json!({"ok": true, "x": {"y": 5}}), json!({"ok": true})]);
    let value = json!({
        "mock_script": {"peers": {"main": {}}},
        "requests": [{"at": "{{port:main}}"}, {"y": {"$ref": "0.x.y"}}],
        "expect_contains": [{}, {"/ok": true}]
    });
    run(value, &driver).await.unwrap();
    let seen = driver.seen.lock().unwrap();
    assert!(
        seen[1]["at"].as_str().unwrap().parse::<u16>().is_ok(),
        "{seen:?}"
    );
    assert_eq!(seen[2], json!({"y": 5}));
}

#[tokio::test]
async fn strict_expectations_are_enforced() {
    let reported = json!({"ok": false, "error": {"reason": "timeout", "hint": "top-secret"}});
    let broken = [
        json!({"expect_contains": [{"/error/reason": "aborted"}]}),
        json!({"expect_contains": [{}], "expect_absent": [["/error/hint"]]}),
        json!({"expect_contains": [{}], "expect_absent": [["error/none"]]}),
        json!({"expect_contains": [{}], "expect_updates_count": [1]}),
        json!({"expect_contains": [{}], "expect_updates": [{"/0": {"$exists": true}}]}),
        json!({"expect_contains": [{}], "expect_nowhere": ["top-secret"]}),
        json!({"expect_contains": [{}], "expect_requests": {"main": {"*": 1}}}),
        json!({"expect_contains": [{}], "expect_requests": {"other": {"*": 0}}}),
        json!({"expect_contains": [{}], "expect_received": {"main": {"/0/path": {"$exists": true}}}}),
        json!({"expect_contains": [{}], "expect_log_lines": {"info": 0}}),
        json!({"expect_contains": [{}], "expect_connections": {"main": {"$min": 1}}}),
    ];
    for expectation in broken {
        let mut value = expectation.clone();
        value["requests"] = json!([{}]);
        value["mock_script"] = json!({"peers": {"main": {}}});
        let driver = Replay::answering([reported.clone()]);
        assert!(run(value, &driver).await.is_err(), "{expectation}");
    }
}

#[tokio::test]
async fn refused_configuration_is_compared() {
    let driver = || Replay {
        refuses: Some(json!({"code": "CONFIG", "path": "/targets/0"})),
        ..Replay::default()
    };
    let expected = json!({"init_error": {"/path": {"$matches": "targets"}}});
    assert_eq!(run(expected, &driver()).await, Ok(()));
    let other = json!({"init_error": {"/path": "/other"}});
    assert!(run(other, &driver()).await.is_err());
    let any = json!({"init_error": true});
    assert!(run(any, &Replay::default()).await.is_err());
}

#[tokio::test]
async fn broken_or_hanging_driver_fails_case() {
    let value = json!({"requests": [{}], "expect_contains": [{}]});
    let error = run(value.clone(), &Replay::default()).await.unwrap_err();
    assert_eq!(
        error,
        "request 0: no envelope: the implementation broke: no more answers"
    );
    struct Hangs;
    impl Driver for Hangs {
        async fn init(&self, _: &Value) -> Result<(), Failure> {
            std::future::pending().await
        }
        async fn parse_config(&self, _: &Value) -> Result<Value, Failure> {
            std::future::pending().await
        }
        async fn tool_definition(&self) -> Result<Value, Failure> {
            std::future::pending().await
        }
        async fn execute(
            &self,
            _: &Value,
            _: &Step,
            _: CancellationToken,
            _: &mut (dyn FnMut(Value) + Send),
        ) -> Result<Value, Failure> {
            std::future::pending().await
        }
    }
    let options = Options {
        call_limit: Duration::from_millis(20),
        ..Options::default()
    };
    assert_eq!(
        run_case(&case(value), &Hangs, &options).await.unwrap_err(),
        "no answer within 0.02 s"
    );
}

/// Waits for the others, sends an update and one request to the address in the request, and then answers; with `waits`,
/// only once its caller cancels.
struct Meets(tokio::sync::Barrier);

impl Driver for Meets {
    async fn init(&self, _: &Value) -> Result<(), Failure> {
        Ok(())
    }

    async fn parse_config(&self, _: &Value) -> Result<Value, Failure> {
        Ok(json!({}))
    }

    async fn tool_definition(&self) -> Result<Value, Failure> {
        Ok(json!({}))
    }

    async fn execute(
        &self,
        request: &Value,
        _: &Step,
        abort: CancellationToken,
        on_update: &mut (dyn FnMut(Value) + Send),
    ) -> Result<Value, Failure> {
        self.0.wait().await;
        on_update(json!({}));
        let reported = abort.is_cancelled();
        let mut stream = TcpStream::connect(request["to"].as_str().unwrap())
            .await
            .unwrap();
        stream
            .write_all(b"GET /x?y HTTP/1.1\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        if request["waits"] == true {
            abort.cancelled().await;
        }
        Ok(json!({"ok": true, "canceled": reported}))
    }
}

#[tokio::test]
async fn concurrent_requests_are_counted() {
    let request = json!({"to": "127.0.0.1:{{port:main}}"});
    let value = json!({
        "mock_script": {"peers": {"main": {}}},
        "requests": [request, request],
        "steps": [{"with_next": true}],
        "expect_contains": [{"/ok": true}, {"/ok": true}],
        "expect_requests": {"main": {"GET /x": 2, "*": 2, "message/send": 0}},
        "expect_connections": {"main": 2},
        "expect_received": {"main": {"/1/path": "/x?y", "/1/headers/connection": "close"}}
    });
    let options = Options {
        call_limit: Duration::from_secs(10),
        ..Options::default()
    };
    let result = run_case(&case(value), &Meets(tokio::sync::Barrier::new(2)), &options).await;
    assert_eq!(result, Ok(()));
}

#[tokio::test]
async fn call_is_aborted_on_its_condition() {
    let request = json!({"to": "127.0.0.1:{{port:main}}", "waits": true});
    let value = json!({
        "mock_script": {"peers": {"main": {}}},
        "requests": [request, request, request],
        "steps": [{"abort_after_requests": {"main": 1}}, {"abort_after_updates": 1}, {"abort_after_ms": 1}],
        "expect_contains": [{"/canceled": false}, {"/canceled": true}, {"/canceled": false}]
    });
    let options = Options {
        call_limit: Duration::from_secs(10),
        ..Options::default()
    };
    let result = run_case(&case(value), &Meets(tokio::sync::Barrier::new(1)), &options).await;
    assert_eq!(result, Ok(()));
}

#[tokio::test]
async fn suite_is_filtered_sorted_and_compared() {
    let root = std::env::temp_dir().join(format!("remote-agent-suite-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(root.join("sub")).unwrap();
    for name in ["b", "a", "other"] {
        let case = json!({"name": name, "description": "d", "config": {}, "requests": [{}], "expect_contains": [{"/ok": true}]});
        std::fs::write(
            root.join("sub").join(format!("{name}.json")),
            case.to_string(),
        )
        .unwrap();
    }
    std::fs::write(root.join("sub/bad.json"), "{").unwrap();
    let list =
        json!([{"case": "sub/a", "reason": "known"}, {"case": "sub/gone", "reason": "known"}]);
    std::fs::write(root.join(super::EXPECTED_FAILURES), list.to_string()).unwrap();
    let options = Options {
        filter: Some("b".to_owned()),
        ..Options::default()
    };
    let report = run_suite(&root, || Replay::answering([json!({"ok": true})]), &options)
        .await
        .unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let outcomes: Vec<_> = report
        .ran
        .iter()
        .map(|ran| (ran.name.as_str(), &ran.outcome))
        .collect();
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    assert!(matches!(outcomes[0], ("sub/a", Outcome::UnexpectedPass(_))));
    assert_eq!(outcomes[1], ("sub/b", &Outcome::Passed));
    assert!(matches!(outcomes[2], ("sub/bad", Outcome::Failed(_))));
    assert_eq!(report.stale, ["sub/gone"]);
}
