//! Budgets: messages that are refused, and what is recorded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use openclaw_remote_agent::plugin::CallInput;
use openclaw_remote_agent::remote_agent::{Answer, Person, Question};
use peer::BoxFuture;
use serde_json::{Value, json};
use testkit::conformance::Peers;
use tokio_util::sync::CancellationToken;

use crate::callers::{
    call,
    folder::Folder,
    received_calls, start_desk,
    tool_fixture::{
        NEVER_MS, ToolFixture, card, message, parse, peers, reason, result, send_request, task,
        within_timeout,
    },
};
use crate::contract::in_process::check_result;

/// Returns an instance whose target `main` has this budget, with the settings `budget` and the record in `folder`.
fn fixture(url: &str, own: Value, mut budget: Value, folder: &Folder) -> ToolFixture {
    budget["path"] = json!(folder.path().join("budget.json"));
    let target = json!({"alias": "main", "baseUrl": url, "default": true, "budget": own});
    ToolFixture::new(&json!({"targets": [target], "budget": budget}))
}

fn desk_fixture(peers: &Peers, own: Value, folder: &Folder) -> ToolFixture {
    fixture(peers.origin("main"), own, json!({}), folder)
}

/// Returns what the scope `target main` has used, in the order calls, milliseconds, tokens, micro-dollars.
fn used(file: &Path) -> Value {
    let record: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    record["scopes"]["target main"]["used"].clone()
}

/// Returns a peer that answers with a task that used that many tokens, and says later that it used more.
async fn start_costly() -> Peers {
    let used = |state: &str, tokens: u64| {
        let mut task = task(state);
        task["metadata"] = json!({"usage": {"total_tokens": tokens}});
        result(task)
    };
    let rpc = json!({"message/send": used("working", 100), "tasks/get": used("completed", 700)});
    peers(json!({"main": {"card": card(), "rpc": rpc}})).await
}

#[tokio::test]
async fn message_beyond_a_budget_is_refused_unsent() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 1}), &folder);
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    let refused = fixture.call(&send_request()).await;
    check_result(&refused);
    let error = &refused["error"];
    assert_eq!(
        (reason(&refused), &error["retryable"]),
        ("budget_exceeded", &json!(false))
    );
    let details = &error["details"];
    let found = ["scope", "unit", "limit", "used", "delivered"].map(|name| details[name].clone());
    assert_eq!(
        json!(found),
        json!(["target", "calls", 1, 1, "no"]),
        "{refused}"
    );
    let resets = details["resets"].as_str().unwrap();
    assert!(resets.ends_with("T00:00:00.000Z"), "{resets}");
    assert_eq!(received_calls(&peers).len(), 1);
}

#[tokio::test]
async fn message_that_did_not_leave_costs_nothing() {
    let folder = Folder::new();
    let fixture = fixture(
        "http://127.0.0.1:1",
        json!({"calls": 1}),
        json!({}),
        &folder,
    );
    for _ in 0..2 {
        let failed = fixture.call(&send_request()).await;
        assert_eq!(failed["error"]["details"]["delivered"], "no", "{failed}");
        assert_ne!(reason(&failed), "budget_exceeded");
    }
    assert_eq!(used(&folder.path().join("budget.json"))[0], 0);
}

#[tokio::test]
async fn late_report_of_a_task_counts_once() {
    let (peers, folder) = (start_costly().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"tokens": 500}), &folder);
    let first = fixture.call(&send_request()).await;
    assert_eq!(first["summary"]["usage"]["tokens"]["total"], 100, "{first}");
    let status = json!({"action": "status", "target_alias": "main", "task_id": "t-1"});
    for _ in 0..2 {
        let envelope = fixture.call(&status).await;
        check_result(&envelope);
        let warning = &envelope["summary"]["budget_warning"];
        assert_eq!(
            (&warning["unit"], &warning["limit"], &warning["used"]),
            (&json!("tokens"), &json!(500), &json!(700)),
            "{envelope}"
        );
        assert_eq!(used(&folder.path().join("budget.json"))[2], 700);
    }
    let refused = fixture.call(&send_request()).await;
    assert_eq!(refused["error"]["details"]["unit"], "tokens", "{refused}");
}

#[tokio::test]
async fn model_reads_a_warning_from_four_fifths_on() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 2}), &folder);
    for expected in [false, true] {
        let envelope = fixture.call(&send_request()).await;
        let text = fixture.plugin.render(&envelope.to_string());
        let line = "budget: 2 of 2 calls for this agent are used. It starts anew at 20";
        assert_eq!(text.contains(line), expected, "{text}");
    }
}

#[tokio::test]
async fn remainder_reaches_only_a_target_that_may_know_it() {
    for opted_in in [false, true] {
        let (peers, folder) = (start_desk().await, Folder::new());
        let own = json!({"calls": 5, "usd": 1.5, "sendRemainder": opted_in});
        let fixture = desk_fixture(&peers, own, &folder);
        fixture.call(&send_request()).await;
        let body = received_calls(&peers).pop().unwrap().body.unwrap();
        let body = body.to_string();
        assert_eq!(
            body.contains("openclaw-remote-agent/budget"),
            opted_in,
            "{body}"
        );
        let sent = body.contains(r#""calls":4"#) && body.contains(r#""usd":1.5"#);
        assert_eq!(sent, opted_in, "{body}");
    }
}

#[tokio::test]
async fn chain_and_total_are_limited_across_targets_and_instances() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let limits = json!({"chain": {"calls": 1}, "total": {"calls": 3}});
    let of_chain = |name: &str| json!({"chain": {"hop": 1, "chain": name}});
    let instance = || fixture(peers.origin("main"), json!({}), limits.clone(), &folder);
    let scope = async |chain: &str| {
        let envelope = call(&instance(), &of_chain(chain), &send_request()).await;
        envelope["error"]["details"]["scope"].clone()
    };
    assert_eq!(scope("a").await, Value::Null);
    assert_eq!(scope("a").await, "chain");
    assert_eq!(scope("b").await, Value::Null);
    assert_eq!(scope("c").await, Value::Null);
    assert_eq!(scope("d").await, "total");
}

#[tokio::test]
async fn record_is_in_the_state_directory_of_the_host() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true});
    let config = json!({"targets": [target], "budget": {"target": {"calls": 9}}});
    let caller = json!({"state_dir": folder.path()});
    call(&ToolFixture::new(&config), &caller, &send_request()).await;
    assert_eq!(used(&folder.path().join("remote-agent/budget.json"))[0], 1);
}

#[tokio::test]
async fn damaged_record_refuses_messages() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 1}), &folder);
    fs::write(folder.path().join("budget.json"), "{\"version\": 1").unwrap();
    let refused = fixture.call(&send_request()).await;
    check_result(&refused);
    assert_eq!(reason(&refused), "budget_unusable", "{refused}");
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.contains("remote-agent budget --repair"), "{text}");
    assert!(received_calls(&peers).is_empty());
}

#[tokio::test]
async fn message_of_an_aborted_call_counts() {
    let never = json!({"delay_ms": NEVER_MS, "json": {}});
    let script = json!({"main": {"card": card(), "rpc": {"message/send": never}}});
    let (peers, folder) = (peers(script).await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 1}), &folder);
    let cancel = CancellationToken::new();
    let input = CallInput {
        request: send_request().to_string(),
        cancel: cancel.clone(),
        ..CallInput::default()
    };
    let running = fixture.plugin.start(input);
    while received_calls(&peers).is_empty() {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    within_timeout(running).await;
    assert_eq!(
        reason(&fixture.call(&send_request()).await),
        "budget_exceeded"
    );
}

#[tokio::test]
async fn agent_that_redirects_may_have_worked() {
    let redirect = json!({"status": 307, "headers": {"location": "http://127.0.0.1:1/"}});
    let peers = peers(json!({"main": {"card": card(), "rpc": {"message/send": redirect}}})).await;
    let folder = Folder::new();
    let fixture = desk_fixture(&peers, json!({"calls": 1}), &folder);
    let failed = fixture.call(&send_request()).await;
    assert_eq!(reason(&failed), "redirect_refused", "{failed}");
    let refused = fixture.call(&send_request()).await;
    assert_eq!(reason(&refused), "budget_exceeded", "{refused}");
}

#[tokio::test]
async fn redirect_of_the_card_is_before_the_message() {
    let redirect = json!({"status": 302, "headers": {"location": "http://127.0.0.1:1/"}});
    let routes = json!({"GET /.well-known/agent-card.json": redirect});
    let peers = peers(json!({"main": {"routes": routes}})).await;
    let folder = Folder::new();
    let fixture = desk_fixture(&peers, json!({"calls": 1}), &folder);
    for _ in 0..2 {
        let failed = fixture.call(&send_request()).await;
        assert_ne!(reason(&failed), "budget_exceeded", "{failed}");
    }
    assert_eq!(used(&folder.path().join("budget.json"))[0], 0);
}

#[tokio::test]
async fn session_without_a_received_chain_has_the_budget_of_a_chain() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let limits = json!({"chain": {"calls": 1}});
    let fixture = fixture(peers.origin("main"), json!({}), limits, &folder);
    let of_session = |key: &str| json!({"session_key": key});
    for (caller, expected) in [
        (of_session("agent:main:x"), Value::Null),
        (of_session("agent:main:x"), json!("chain")),
        (of_session("agent:main:y"), Value::Null),
        // Work without a name is not limited, and leaves no entry.
        (json!({}), Value::Null),
        (json!({}), Value::Null),
    ] {
        let envelope = call(&fixture, &caller, &send_request()).await;
        let scope = &envelope["error"]["details"]["scope"];
        assert_eq!(*scope, expected, "{caller}");
    }
    let record = fs::read_to_string(folder.path().join("budget.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let names: Vec<_> = record["scopes"].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "session agent:main:x",
            "session agent:main:y",
            "target main",
            "total"
        ]
    );
}

#[tokio::test]
async fn currency_that_no_budget_counts_is_a_warning() {
    let mut costly = task("completed");
    costly["metadata"] = json!({"usage": {"cost": {"amount": 3, "currency": "EUR"}}});
    let rpc = json!({"message/send": result(costly)});
    let peers = peers(json!({"main": {"card": card(), "rpc": rpc}})).await;
    let folder = Folder::new();
    let fixture = desk_fixture(&peers, json!({"usd": 5}), &folder);
    let envelope = fixture.call(&send_request()).await;
    check_result(&envelope);
    let warning = &envelope["summary"]["budget_warning"];
    assert_eq!(
        (&warning["unit"], &warning["unknown_currency"]),
        (&json!("usd"), &json!("EUR")),
        "{envelope}"
    );
    let text = fixture.plugin.render(&envelope.to_string());
    assert!(text.contains("a cost in another currency"), "{text}");
}

#[tokio::test]
async fn reservation_of_a_call_that_ends_first_is_given_back() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 9}), &folder);
    // Another process holds the record while the call ends.
    let lock = fs::File::create(folder.path().join("budget.json.lock")).unwrap();
    lock.lock().unwrap();
    let mut request = send_request();
    request["timeout_ms"] = json!(100);
    let envelope = fixture.call(&request).await;
    assert_eq!(reason(&envelope), "timeout", "{envelope}");
    assert_eq!(envelope["error"]["details"]["delivered"], "no");
    lock.unlock().unwrap();
    let file = folder.path().join("budget.json");
    let given_back = async {
        // The file appears with the reservation, and changes once more.
        while !file.exists() || used(&file)[0] != 0 {
            tokio::task::yield_now().await;
        }
    };
    within_timeout(given_back).await;
}

#[tokio::test]
async fn calls_of_one_instance_wait_for_each_other() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 100}), &folder);
    // Another process holds the record until one call gives up. The others have not begun to wait for it.
    let lock = fs::File::create(folder.path().join("budget.json.lock")).unwrap();
    lock.lock().unwrap();
    let request = send_request();
    let mut calls: FuturesUnordered<_> = (0..4).map(|_| fixture.call(&request)).collect();
    let first = calls.next().await.unwrap();
    assert_eq!(reason(&first), "budget_unusable", "{first}");
    lock.unlock().unwrap();
    while let Some(envelope) = calls.next().await {
        assert_eq!(envelope["ok"], true, "{envelope}");
    }
}

#[tokio::test]
async fn use_that_cannot_be_recorded_is_recorded_with_the_next_call() {
    let answer = |id: &str| {
        let mut done = task("completed");
        done["id"] = json!(id);
        done["metadata"] = json!({"usage": {"total_tokens": 100}});
        json!({"delay_ms": 300, "json": result(done)})
    };
    let rpc = json!({"message/send": [answer("t-1"), answer("t-2")]});
    let script = json!({"main": {"card": card(), "rpc": rpc}});
    let (peers, folder) = (peers(script).await, Folder::new());
    let fixture = desk_fixture(&peers, json!({"calls": 9}), &folder);
    // The first call can be reserved, and its end cannot be written.
    let draft = folder.path().join("budget.json.new");
    let request = send_request();
    let (first, ()) = tokio::join!(fixture.call(&request), async {
        while received_calls(&peers).is_empty() {
            tokio::task::yield_now().await;
        }
        fs::create_dir(&draft).unwrap();
    });
    assert_eq!(first["ok"], true, "{first}");
    let file = folder.path().join("budget.json");
    assert_eq!(used(&file)[2], 0);
    fs::remove_dir(&draft).unwrap();
    assert_eq!(fixture.call(&request).await["ok"], true);
    assert_eq!((&used(&file)[0], &used(&file)[2]), (&json!(2), &json!(200)));
}

/// A person who answers every question.
struct Answers;

impl Person for Answers {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::read(r#"{"action": "answer", "content": {"answer": "Braga"}}"#) })
    }
}

/// No person answers what no budget would let through.
#[tokio::test]
async fn person_is_not_asked_without_room_for_the_answer() {
    let mut question = task("input-required");
    question["status"]["message"] = message("Where to?");
    let rpc = json!({"tasks/get": result(question.clone()), "message/send": result(question)});
    let (peers, folder) = (
        peers(json!({"main": {"card": card(), "rpc": rpc}})).await,
        Folder::new(),
    );
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true, "answers": "person", "budget": {"calls": 1}});
    let fixture = ToolFixture::new(&json!({
        "targets": [target],
        "budget": {"path": folder.path().join("budget.json")},
        "audit": {"enabled": true, "path": folder.path().join("audit.jsonl")},
    }));
    let input = CallInput {
        request: send_request().to_string(),
        person: Some(Arc::new(Answers)),
        ..CallInput::default()
    };
    let unanswered = parse(&within_timeout(fixture.plugin.start(input)).await);
    let summary = &unanswered["summary"];
    assert_eq!(
        summary["continuation"]["task"]["status"], "input-required",
        "{unanswered}"
    );
    assert_eq!(summary["person"]["outcome"], "limit", "{unanswered}");
    assert_eq!(received_calls(&peers).len(), 1);
    fixture.plugin.close();
    let audited = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(!audited.contains("questions"), "{audited}");
}

/// A record whose file system does not answer, until this is dropped.
#[cfg(unix)]
struct SilentRecord(std::path::PathBuf);

#[cfg(unix)]
impl SilentRecord {
    fn new(folder: &Folder) -> Self {
        let path = folder.path().join("budget.json");
        base::testing::make_pipe(&path);
        Self(path)
    }
}

#[cfg(unix)]
impl Drop for SilentRecord {
    fn drop(&mut self) {
        let writer = fs::File::options().read(true).write(true).open(&self.0);
        fs::remove_file(&self.0).unwrap();
        drop(writer);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn record_that_does_not_answer_delays_no_listing_beyond_its_deadline() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "budget": {"calls": 9}});
    let fixture = ToolFixture::new(&json!({
        "defaults": {"timeoutMs": 1000},
        "targets": [target],
        "budget": {"path": folder.path().join("budget.json")},
    }));
    let _record = SilentRecord::new(&folder);
    let caller = json!({"list_tasks": true});
    let listing = call(&fixture, &caller, &json!({"action": "list_targets"})).await;
    let error = listing["summary"]["budget_error"].as_str().unwrap();
    assert!(error.contains("was not read"), "{listing}");
}

#[cfg(unix)]
#[tokio::test]
async fn record_that_does_not_answer_delays_no_watch_beyond_its_end() {
    let mut question = task("input-required");
    question["status"]["message"] = message("Where to?");
    let mut silent = card();
    silent["capabilities"] = json!({});
    let rpc = json!({"tasks/get": result(question)});
    let peers = peers(json!({"main": {"card": silent, "rpc": rpc}})).await;
    let folder = Folder::new();
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true, "answers": "person", "budget": {"calls": 9}});
    let fixture = ToolFixture::new(&json!({
        "targets": [target],
        "budget": {"path": folder.path().join("budget.json")},
    }));
    let _record = SilentRecord::new(&folder);
    let watch = async |request: Value, cancel: CancellationToken| {
        let input = CallInput {
            request: request.to_string(),
            person: Some(Arc::new(Answers)),
            cancel,
            ..CallInput::default()
        };
        parse(&within_timeout(fixture.plugin.start(input)).await)
    };
    let mut request = json!({"action": "watch", "target_alias": "main", "task_id": "t-1"});
    let cancel = CancellationToken::new();
    let (cancelled, ()) = tokio::join!(watch(request.clone(), cancel.clone()), async {
        while received_calls(&peers).is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    });
    assert_eq!(reason(&cancelled), "aborted", "{cancelled}");
    request["timeout_ms"] = json!(500);
    let ended = watch(request, CancellationToken::new()).await;
    check_result(&ended);
}

/// After a sign-in the task may go on without a message.
#[tokio::test]
async fn person_signs_in_without_room_for_an_answer() {
    let mut waiting = task("auth-required");
    waiting["status"]["message"] = message("Sign in at https://login.example/go");
    let rpc = json!({"tasks/get": result(task("completed")), "message/send": result(waiting)});
    let (peers, folder) = (
        peers(json!({"main": {"card": card(), "rpc": rpc}})).await,
        Folder::new(),
    );
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true, "budget": {"calls": 1}});
    let fixture = ToolFixture::new(&json!({
        "targets": [target],
        "budget": {"path": folder.path().join("budget.json")},
    }));
    let input = CallInput {
        request: send_request().to_string(),
        person: Some(Arc::new(Answers)),
        ..CallInput::default()
    };
    let done = parse(&within_timeout(fixture.plugin.start(input)).await);
    let status = &done["summary"]["continuation"]["task"]["status"];
    assert_eq!(status, "completed", "{done}");
}

#[tokio::test]
async fn answer_of_a_watch_counts_in_its_chain() {
    let mut question = task("input-required");
    question["status"]["message"] = message("Where to?");
    let rpc = json!({"tasks/get": result(question), "message/send": result(task("completed"))});
    let mut silent = card();
    silent["capabilities"] = json!({});
    let peers = peers(json!({"main": {"card": silent, "rpc": rpc}})).await;
    let folder = Folder::new();
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true, "answers": "person"});
    let config = json!({
        "targets": [target],
        "budget": {"path": folder.path().join("budget.json"), "chain": {"calls": 1}},
        "policy": {"maxDelegationDepth": 4},
        "audit": {"enabled": true, "path": folder.path().join("audit.jsonl")},
    });
    let fixture = ToolFixture::new(&config);
    let watch = |cancel: CancellationToken| {
        let request = json!({"action": "watch", "target_alias": "main", "task_id": "t-1"});
        let input = CallInput {
            request: request.to_string(),
            // A longer chain than may be sent on.
            caller: Some(json!({"chain": {"hop": 7, "chain": "row-1"}}).to_string()),
            person: Some(Arc::new(Answers)),
            cancel,
            ..CallInput::default()
        };
        within_timeout(fixture.plugin.start(input))
    };
    let answered = parse(&watch(CancellationToken::new()).await);
    assert_eq!(answered["ok"], true, "{answered}");
    let sent = received_calls(&peers).pop().unwrap().body.unwrap();
    assert_eq!(
        sent["params"]["metadata"]["openclaw-remote-agent/delegation"],
        json!({"hop": 8, "chain": "row-1"})
    );
    let unanswered = parse(&watch(CancellationToken::new()).await);
    assert_eq!(
        unanswered["summary"]["person"]["outcome"], "limit",
        "{unanswered}"
    );
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert_eq!(reason(&parse(&watch(cancelled).await)), "aborted");
    fixture.plugin.close();
    let log = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["chain"], "row-1");
}
