//! Tests of an instance: panics, closing, and the local gateway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cuts;
mod votes;

use std::panic::resume_unwind;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use base::log::{Recorder, Silent};
use testkit::conformance::gateways::{Gateways, LogEvent, Received};

/// How long the end of a closed instance may take on a busy machine.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Panics without the output of the panic hook.
fn boom() -> String {
    resume_unwind(Box::new("boom"))
}

#[tokio::test]
async fn panic_in_a_call_is_answered_and_logged() {
    let log = Arc::new(Recorder::default());
    let plugin = Plugin::new("{}", Arc::clone(&log) as Arc<dyn Log>).unwrap();
    let message = plugin.catch_panic(async { boom() }).await.unwrap_err();
    assert!(message.ends_with(": boom"), "{message}");
    assert_eq!(*log.0.lock().unwrap(), [format!("error: {message}")]);
}

#[tokio::test]
async fn instance_ignores_enabled() {
    for config in [r#"{"enabled": false}"#, r#"{"enabled": true}"#, "{}"] {
        let plugin = Arc::new(Plugin::new(config, Arc::new(Silent)).unwrap());
        let job = CallInput {
            request: r#"{"action": "list_targets"}"#.to_owned(),
            ..CallInput::default()
        };
        let listed: Value = serde_json::from_str(&plugin.start(job).await).unwrap();
        assert_eq!(listed["ok"], true, "{config}: {listed}");
        plugin.close();
    }
}

#[tokio::test]
async fn close_disconnects_the_gateway() {
    for close in [Plugin::close, Plugin::close_and_wait] {
        let gateway = Gateways::named("reference-11.2").await.unwrap();
        let config = json!({"gateway": {"enabled": true, "url": gateway.url()}});
        let plugin = Arc::new(Plugin::new(&config.to_string(), Arc::new(Silent)).unwrap());
        let job = CallInput {
            request: r#"{"action": "list_targets"}"#.to_owned(),
            ..CallInput::default()
        };
        let listed: Value = serde_json::from_str(&plugin.start(job).await).unwrap();
        assert_eq!(listed["summary"]["gateway"]["state"], "OPEN", "{listed}");
        let closing = Arc::clone(&plugin);
        tokio::task::spawn_blocking(move || close(&closing))
            .await
            .unwrap();
        let disconnect = json!({"/type": "disconnect"});
        let disconnect = gateway.log().frame(1, &disconnect);
        let disconnect = timeout(END_TIMEOUT, disconnect).await.expect("a farewell");
        assert_eq!(disconnect["content"]["reason"], "shutdown");
        let disconnected =
            |all: &[Received]| all.iter().any(|one| one.what == LogEvent::Disconnected);
        gateway.log().until(disconnected).await;
    }
}

#[test]
fn call_dropped_after_its_end_returns_its_envelope() {
    let (give, take) = std::sync::mpsc::channel();
    drop(ReplyGuard {
        request: String::new(),
        envelope: Some("done".to_owned()),
        done: Some(Box::new(move |envelope: String| {
            give.send(envelope).unwrap()
        })),
    });
    assert_eq!(take.recv().unwrap(), "done");
}

#[test]
fn dropped_call_is_answered_as_shutting_down() {
    let (give, take) = std::sync::mpsc::channel();
    let done = move |envelope: String| give.send(envelope).unwrap();
    let request = r#"{"action": "send"}"#.to_owned();
    drop(ReplyGuard {
        request,
        envelope: None,
        done: Some(Box::new(done)),
    });
    let envelope: Value = serde_json::from_str(&take.recv().unwrap()).unwrap();
    assert_eq!(envelope["error"]["reason"], "shutting_down");
    assert_eq!(envelope["action"], "send");
}
