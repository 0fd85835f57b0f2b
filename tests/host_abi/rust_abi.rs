//! The Rust interface, from a host with a single-threaded runtime.

use openclaw_remote_agent_interface::{RNone, RSome, RString, ToolBox, ask_with, load, updates_to};
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use crate::host_abi::fixture::{
    Collected, ENVELOPE, EXIT_TIMEOUT, READ, config, in_flight, library, parse, peers, request,
    tool, without_id,
};

fn open(config: &str) -> ToolBox {
    tool(&load(library()).unwrap(), config)
}

async fn call(tool: &ToolBox, alias: &str) -> Value {
    envelope(tool.execute(request(alias).into(), RNone, RNone).future).await
}

async fn envelope(future: impl Future<Output = RString>) -> Value {
    parse(timeout(EXIT_TIMEOUT, future).await.expect("an envelope"))
}

#[tokio::test]
async fn call_returns_updates_then_envelope() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let collected = Collected::default();
    let call = tool.execute(request("streams").into(), RNone, RSome(collected.sink()));
    let envelope = parse(call.future.await);
    let updates = collected.take();
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(updates.len(), 3);
    assert!(
        updates.iter().all(|update| update["phase"] == "update"),
        "{updates:?}"
    );
}

#[tokio::test]
async fn cancelled_call_returns_an_envelope() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let call = tool.execute(request("silent").into(), RNone, RNone);
    let running = tokio::spawn(call.future);
    in_flight(&peers).await;
    call.cancel.cancel();
    let envelope = envelope(async { running.await.unwrap() }).await;
    assert_eq!(envelope["ok"], false, "{envelope}");
    assert_eq!(envelope["error"]["reason"], "aborted", "{envelope}");
}

#[tokio::test]
async fn dropping_the_future_cancels_the_call() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    // The call keeps its update callback until it ends.
    let (alive, ended) = oneshot::channel::<()>();
    let updates = updates_to(move |_| assert!(!alive.is_closed()));
    let call = tool.execute(request("silent").into(), RNone, RSome(updates));
    let running = tokio::spawn(call.future);
    in_flight(&peers).await;
    running.abort();
    let ended = timeout(EXIT_TIMEOUT, ended).await.expect("the call ends");
    assert!(ended.is_err());
}

#[tokio::test]
async fn panic_in_update_callback_loses_only_updates() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let updates = updates_to(|_| std::panic::resume_unwind(Box::new("no room")));
    let call = tool.execute(request("streams").into(), RNone, RSome(updates));
    assert_eq!(parse(call.future.await)["ok"], true);
}

#[tokio::test]
async fn close_ends_running_calls_and_refuses_later_ones() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let running = tokio::spawn(tool.execute(request("silent").into(), RNone, RNone).future);
    in_flight(&peers).await;
    tool.close();
    tool.close();
    let envelope = envelope(async { running.await.unwrap() }).await;
    assert_eq!(envelope["ok"], false, "{envelope}");
    let later = call(&tool, "streams").await;
    assert_eq!(later["error"]["reason"], "shutting_down", "{later}");
    assert_eq!(later["action"], "send", "{later}");
}

#[tokio::test]
async fn dropped_tool_finishes_its_calls() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let call = tool.execute(request("streams").into(), RNone, RNone);
    drop(tool);
    let envelope = envelope(call.future).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
}

#[tokio::test]
async fn calls_run_concurrently() {
    let peers = peers().await;
    let tool = open(&config(&peers));
    let silent = tool.execute(request("silent").into(), RNone, RNone);
    let waiting = tokio::spawn(silent.future);
    in_flight(&peers).await;
    assert_eq!(call(&tool, "streams").await["ok"], true);
    assert!(!waiting.is_finished());
}

#[test]
fn envelope_is_rendered_as_text() {
    let tool = open("{}");
    let text = |envelope: &str| tool.render(envelope.into()).into_string();
    assert_eq!(without_id(&text(ENVELOPE)), READ);
    assert_ne!(text(ENVELOPE), text(ENVELOPE));
    for invalid in ["", "\u{0}", "[", "{\"ok\":true}"] {
        assert!(
            text(invalid).starts_with("remote_agent: the result cannot be read"),
            "{invalid:?}"
        );
    }
}

#[test]
fn any_executor_may_poll_a_call() {
    let tool = open("{}");
    let request = r#"{"action": "list_targets"}"#;
    let call = tool.execute(request.into(), RNone, RNone);
    let envelope = parse(block_on(call.future));
    assert_eq!(envelope["ok"], true, "{envelope}");
}

/// A minimal executor that parks this thread until it is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    use std::{sync::Arc, task, thread};
    struct Unpark(thread::Thread);
    impl task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = task::Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

#[test]
fn invalid_configuration_is_refused_with_its_pointer() {
    let module = load(library()).unwrap();
    let config = r#"{"targets": [{"alias": "desk"}]}"#;
    let refused = module.new_tool()(config.into(), RNone).into_result().err();
    let error = parse(refused.expect("a refusal"));
    for field in ["code", "message", "path"] {
        assert!(error[field].is_string(), "{field} in {error}");
    }
    assert_eq!(error["path"], "/targets/0", "{error}");
    assert!(module.parse_config()(config.into()).is_err());
}

#[test]
fn parsed_configuration_has_its_defaults() {
    let module = load(library()).unwrap();
    let parsed = module.parse_config()("{}".into())
        .into_result()
        .expect("a configuration");
    assert_eq!(parse(parsed)["enabled"], false);
}

#[tokio::test]
async fn person_is_asked_and_a_panic_is_unreachable() {
    let answer = r#"{"action": "answer", "content": {"answer": "Braga"}}"#;
    for (alias, panics, outcome) in [
        ("asks", false, "answered"),
        ("insists", true, "unreachable"),
    ] {
        let peers = peers().await;
        let tool = open(&config(&peers));
        let person = ask_with(move |question| async move {
            assert!(!panics, "the panic of a host");
            assert!(question.contains("Where to?"), "{question}");
            answer.to_owned()
        });
        let call = tool.execute_with_person(request(alias).into(), RNone, RNone, person);
        let result = envelope(call.future).await;
        assert_eq!(result["summary"]["person"]["outcome"], outcome, "{result}");
    }
}
